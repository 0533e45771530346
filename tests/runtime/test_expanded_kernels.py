"""Kernels that are kept with their includes in them, as long as no file of theirs changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from vknn.errors import ShaderError
from vknn.runtime.spirv.expanded import expanded_kernel

KERNEL = '#version 450\n#pragma vknn variants A=0,1\n#include "common/outer.glsl"\nvoid main() {}\n'
FILES = {
    "family/kernel.comp": KERNEL,
    "common/outer.glsl": '#include "common/inner.glsl"\n',
    "common/inner.glsl": "#define ADDED 1\n",
}
LONG_AGO = time.time_ns() - 3_600_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        write(path, text, LONG_AGO)
    return tmp_path


def write(path: Path, text: str, changed: int) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(changed, changed))


def test_the_kernel_is_read_once(root: Path) -> None:
    kernel = expanded_kernel(root, "family/kernel")
    assert "#define ADDED 1" in kernel.text
    assert kernel.variants == ((("A", "0"),), (("A", "1"),))
    assert expanded_kernel(root, "family/kernel") is kernel


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_read_again(root: Path, name: str) -> None:
    expanded_kernel(root, "family/kernel")
    write(root / name, FILES[name] + "// changed\n", LONG_AGO)
    assert "// changed" in expanded_kernel(root, "family/kernel").text


@pytest.mark.parametrize("later", [-1, 1])
def test_a_change_of_the_same_size_is_seen_by_its_time(root: Path, later: int) -> None:
    expanded_kernel(root, "family/kernel")
    write(root / "common/inner.glsl", "#define ADDED 2\n", LONG_AGO + later)
    assert "#define ADDED 2" in expanded_kernel(root, "family/kernel").text


def test_what_was_just_written_is_not_kept(root: Path) -> None:
    now = time.time_ns()
    write(root / "common/inner.glsl", "#define ADDED 1\n", now)
    expanded_kernel(root, "family/kernel")
    write(root / "common/inner.glsl", "#define ADDED 2\n", now)
    assert "#define ADDED 2" in expanded_kernel(root, "family/kernel").text


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_is_an_error(root: Path, name: str) -> None:
    expanded_kernel(root, "family/kernel")
    (root / name).unlink()
    message = "does not exist" if name.endswith(".comp") else "is not in"
    with pytest.raises(ShaderError, match=message):
        expanded_kernel(root, "family/kernel")
