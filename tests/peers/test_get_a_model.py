"""The page on getting a model: its programs convert networks of torchvision and compare answers."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "get-a-model.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
TOOLS = ("torch.onnx", "pnnx", "litert_torch", "coremltools")
#: What a tool needs beside PyTorch.
NEEDS = {"torch.onnx": ("onnx", "onnxscript")}
#: torchvision's models need none of its compiled operators, which may be made for another torch.
PRELUDE = """
from unittest import mock
with mock.patch("torch.library.register_fake", lambda *_, **__: lambda function: function):
    import torchvision
"""


def test_every_tool_has_a_program() -> None:
    assert [[tool in program for tool in TOOLS] for program in PROGRAMS] == [
        [i == j for j in range(len(TOOLS))] for i in range(len(TOOLS))
    ]


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize("tool", TOOLS)
def test_the_program_runs(tool: str, tmp_path: Path) -> None:
    """With random weights: nothing is downloaded."""
    for needed in ("torch", "torchvision", *NEEDS.get(tool, (tool,))):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    program = PROGRAMS[TOOLS.index(tool)].replace('weights="DEFAULT"', "weights=None")
    assert "weights=None" in program
    (tmp_path / "program.py").write_text(PRELUDE + "torchvision.torch.manual_seed(0)\n" + program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
