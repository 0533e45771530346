"""examples/README.md is true, and the scripts keep to the public names of vknn."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples.conftest import EXAMPLES, Run

import vknn

pytest.importorskip("PIL.Image")

ROOT = EXAMPLES.parent
README = (EXAMPLES / "README.md").read_text()
MODULES = sorted(EXAMPLES.glob("*.py"))
SCRIPTS = [path for path in MODULES if path.name != "inputs.py"]
#: Commands of the page whose output it shows, with this output.
SHOWN = re.findall(
    r"^    \$ python examples/(\w+)\.py ?(.*)\n((?:    .*\n)+)", README, re.MULTILINE
)
#: The device on which the page was written.
DEVICE = "llvmpipe (LLVM 15.0.6, 256 bits)"


def outline(lines: list[str], device: str) -> list[str]:
    """Lines without what differs from run to run: names of devices, numbers, dispatches."""
    named = (line.replace(device, "DEVICE") for line in lines)
    found = (re.sub(r"[-+.,\d]*\d(e[-+]?\d+)?x?", "0", line) for line in named)
    return [" ".join(re.sub(r"^ *0 +0% .*", "DISPATCH", line).split()) for line in found]


@pytest.mark.parametrize(
    "name, arguments, shown", SHOWN, ids=[f"{s[0]}-{len(s[1])}" for s in SHOWN]
)
@pytest.mark.device
def test_the_page_shows_what_is_printed(name: str, arguments: str, shown: str, run: Run) -> None:
    status = int("--tolerance" in arguments)
    paths = [str(ROOT / a) if (ROOT / a).exists() else a for a in shlex.split(arguments)]
    printed = run(name, *paths, status=status)
    with vknn.Session(ROOT / "tools/demo_model/digits.param", device="vulkan") as session:
        assert session.device is not None
        device = session.device.name
    expected = outline([line[4:] for line in shown.splitlines()], DEVICE)
    assert outline(printed, device) == expected


def test_every_script_is_on_the_page() -> None:
    assert {s[0] for s in SHOWN} == {path.stem for path in SCRIPTS}
    for path in SCRIPTS:
        assert f"| [{path.name}]({path.name}) |" in README
    missing = [link for link in re.findall(r"\]\(([^)]+)\)", README)
               if not (EXAMPLES / link).exists()]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_help_explains(path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(path.stem, "--help")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0] in text  # type: ignore[union-attr]
    assert "--device" in text


@pytest.mark.long
def test_a_script_runs_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "classify.py"), "--device", "numpy",
               str(EXAMPLES / "data/digits.mlmodel"), str(EXAMPLES / "data/digit.png")]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("label:\n")
    command[-2] = "missing.param"
    failed = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr == "error: missing.param: no such file\n"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_only_public_names_are_used(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("vknn")
        if isinstance(node, ast.Import):
            assert not [a.name for a in node.names if a.name.startswith("vknn.")]
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "vknn":
            assert node.attr in vknn.__all__


def test_the_data_are_those_of_the_tool(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "examples_data.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in (EXAMPLES / "data").iterdir()}
    # How a PNG is compressed depends on the zlib.
    assert made.keys() == kept.keys()
    assert {n for n in made if made[n] != kept[n]} <= {"digit.png", "squares.png"}
