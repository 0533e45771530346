"""Writer of the output on docs/kernel_lab.md: its commands are run, and what they print put below.

tools/kernel_lab_page.py            runs all commands on the device that is there
tools/kernel_lab_page.py --check    exits 1 when the words are not those of the page; numbers differ

A command is a line "    $ command"; the indented lines below it are its output. They run in turn,
in one folder with the model of tools/demo_model in it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kernel_lab.md"
COMMAND = re.compile(r"^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", re.MULTILINE)
#: Files that are saved while a command watches, each a change of the text as it was.
KERNEL = "glsl/pooling/window.comp"
SAVES = (("v = result[i];", "v = result[i] * 2.0;"), ("v = result[i];", "v = result["), ("", ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    checks = parser.parse_args().check
    before = PAGE.read_text(encoding="utf-8")
    after = page(before)
    if checks:
        if words(before) != words(after):
            print(f"{PAGE} is out of date: run tools/kernel_lab_page.py", file=sys.stderr)
        return int(words(before) != words(after))
    PAGE.write_text(after, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


def page(text: str) -> str:
    """The page with the output of its commands as it is now."""
    with tempfile.TemporaryDirectory(prefix="vknn-page-") as folder:
        for file in (ROOT / "tools" / "demo_model").glob("digits.*"):
            shutil.copy(file, folder)

        def run(found: re.Match[str]) -> str:
            shown = output(found[1], Path(folder))
            return f"    $ {found[1]}\n" + "".join(f"    {line}\n" for line in shown)

        return COMMAND.sub(run, text)


def output(command: str, folder: Path) -> list[str]:
    """The lines that a command prints, to either stream."""
    whole = command.replace("vknn ", f"{sys.executable} -m vknn ", 1)
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "VKNN_VALIDATE": "0"}
    with subprocess.Popen(
        ["sh", "-c", f"exec {whole} 2>&1"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        if "--watch" in command:
            lines = watched(child, folder / command.split()[3] / KERNEL)
        else:
            lines = child.stdout.read().splitlines()
    return [line.rstrip() for line in lines if line.strip()]


def watched(child: subprocess.Popen[str], file: Path) -> list[str]:
    """The lines of a watch during some saves."""
    assert child.stdout is not None
    lines = [child.stdout.readline(), child.stdout.readline()]
    text = file.read_text(encoding="utf-8")
    for old, new in SAVES:
        file.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        lines.append(child.stdout.readline())
        if "does not compile" in lines[-1]:
            while "generated" not in lines[-1]:
                lines.append(child.stdout.readline())
        time.sleep(0.2)
    child.terminate()
    return lines


def words(text: str) -> list[str]:
    """Words of a page; numbers and tables' lines, which differ from run to run, are left out."""
    return re.findall(r"[A-Za-z_]{3,}", text)


if __name__ == "__main__":
    sys.exit(main())
