"""Writer of the outputs in docs/verification.md: its commands are run, and what they print is kept.

Python blocks whose first line names a file become that file; each block of text is the output of
the block of shell before it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "verification.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = f'python() {{ "{sys.executable}" "$@"; }}\nvknn() {{ python -m vknn "$@"; }}\n'


def page(text: str | None = None) -> str:
    """The page with its outputs made anew."""
    text = PAGE.read_text(encoding="utf-8") if text is None else text
    output = ""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(ROOT / "tools" / "demo_model", folder / "tools" / "demo_model")

        def renewed(match: re.Match[str]) -> str:
            nonlocal output
            language, block = match[1], match[2]
            named = re.match(r"# (\w+\.py)\n", block)
            if language == "python" and named:
                (folder / named[1]).write_text(block, encoding="utf-8")
            elif language == "sh":
                output = "".join(command(folder, line) for line in block.splitlines())
            elif language == "text":
                return f"```text\n{output}```"
            return match[0]

        return BLOCK.sub(renewed, text)


def command(folder: Path, line: str) -> str:
    """The output of a line of shell, which exits with 0 or as its comment says."""
    text, _, code = line.partition("  # exits with ")
    found = printed(folder, text, int(code or 0))
    # Times differ from run to run.
    return re.sub(r"in \d+\.\d s", "in 0.5 s", found)


def printed(folder: Path, text: str, code: int) -> str:
    """Text that a command prints; raises RuntimeError for another exit code."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src"}
    done = subprocess.run(
        ["bash", "-c", _SHELL + text], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != code:
        raise RuntimeError(f"{text} exits with {done.returncode}: {done.stdout}{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


if __name__ == "__main__":
    sys.exit(pages.main(PAGE, "tools/verification_page.py", page))
