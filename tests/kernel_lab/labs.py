"""Labs for the tests: extracted once, copied for each test that changes one."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers import shared_device
from tests.small_model import write_small_model

import vknn
from vknn.kernel_lab import extract

POOL = """7767517
2 2
Input   data 0 1 data 0=6 1=6 2=6
Pooling pool 1 1 data pool 0=0 1=2 2=2
"""
#: The line of shaders/pooling/window.comp that stores a result, and what it computes with.
STORE = "STORE4(y, at, zero_padding_lanes(v, c, p.channels));"
WINDOW = "glsl/pooling/window.comp"


#: Removed when the process ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def _made(kind: str) -> Path:
    """A folder with an extracted lab in "lab"."""
    _folders.append(tempfile.TemporaryDirectory(prefix="vknn-labs-"))
    folder = Path(_folders[-1].name)
    if kind == "pool":
        model = folder / "pool.param"
        model.write_text(POOL)
        model.with_suffix(".bin").write_bytes(b"")
    else:
        model = write_small_model(folder)
    with vknn.Session(model, device=shared_device()) as session:
        extract(
            session, folder / "lab", **{"pool": {"dispatch": 1}, "conv": {"layer": "conv1"}}[kind]
        )
    return folder / "lab"


def lab_folder(tmp_path: Path, kind: str = "pool") -> Path:
    """A copy of a lab, with no model near.

    "pool" is shaders/pooling/window.comp for six channels of 3x3, "conv" the convolution of the
    small model.
    """
    return Path(shutil.copytree(_made(kind), tmp_path / "lab"))


def edit(file: Path, old: str, new: str) -> None:
    """Replacement of a text that is in a file."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def change(folder: Path, how: Callable[[dict[str, Any]], None]) -> None:
    """A change of lab.json."""
    file = folder / "lab.json"
    document = json.loads(file.read_text())
    how(document)
    file.write_text(json.dumps(document))
