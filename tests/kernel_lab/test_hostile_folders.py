"""Folders from elsewhere: damaged, or made to do harm. Each is refused, with file and reason."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.kernel_lab.labs import WINDOW, change, edit, lab_folder

from vknn.errors import VknnError
from vknn.kernel_lab import Lab
from vknn.kernel_lab.arrays import read_array
from vknn.kernel_lab.description import read_description
from vknn.kernel_lab.inputs import read_memories
from vknn.kernel_lab.lab_plan import lab_plan
from vknn.kernel_lab.request import requested


class Harm:
    """A pickle of it would make a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm",)


def opened_and_run(folder: Path) -> None:
    with Lab.open(folder) as lab:
        lab.run(f"vulkan:{shared_device().snapshot.index}", runs=1)


def first_input(folder: Path) -> Path:
    return min((folder / "inputs").iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file; `vknn kernel extract` writes"),
        ("", "this is no JSON"),
        ("[" * 100_000, "this is no JSON"),
        ("[]", "an object is expected"),
        ("{}", "'format' must be a text"),
        ('{"format": "other"}', "this is no description of a kernel lab"),
        ('{"format": "vknn-lab", "version": 99}', "of version 99, and this vknn knows 1: update"),
    ],
)
def test_descriptions_that_are_none(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "lab.json").write_text(text)
    with pytest.raises(VknnError, match=message) as raised:
        Lab.open(tmp_path)
    assert str(tmp_path / "lab.json") in str(raised.value)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "file outside": (
        lambda lab: lab["memories"][0].update(file="../../etc/passwd"),
        "'file' must be a file inside the folder, not '../../etc/passwd'",
    ),
    "absolute file": (
        lambda lab: lab["memories"][0].update(file="/etc/passwd"),
        "a file inside the folder",
    ),
    "file of Windows": (
        lambda lab: lab["memories"][0].update(file="C:\\x.npy"),
        "a file inside the folder",
    ),
    "kernel outside": (lambda lab: lab.update(kernel="../x"), "'kernel' must be a file inside"),
    "source outside": (
        lambda lab: lab["sources"].update({"../x": "0" * 64}),
        "'sources' must be a file inside",
    ),
    "no groups": (lambda lab: lab.update(groups=[0, 1, 1]), "'groups' must be an integer of at"),
    "groups of floats": (lambda lab: lab.update(groups=[1.5, 1, 1]), "'groups' must be an integer"),
    "two groups": (lambda lab: lab.update(groups=[1, 1]), "'groups' must be three integers"),
    "bytes beyond memory": (
        lambda lab: lab["bindings"][0].update(nbytes=1 << 40),
        "memory 0 has 288 bytes|memory 0 has .* and its bindings end at",
    ),
    "a huge memory": (
        lambda lab: lab["memories"][1].update(nbytes=1 << 50),
        "memory 1 has 1125899906842624 bytes, and its bindings end at",
    ),
    "no such memory": (lambda lab: lab["bindings"][0].update(memory=9), "memor"),
    "no such binding": (
        lambda lab: lab["outputs"][0].update(binding=9),
        "the output of binding 9: there are only 3 bindings",
    ),
    "an output that is read": (
        lambda lab: lab["outputs"][0].update(binding=0),
        "the output of binding 0: the dispatch does not write it",
    ),
    "a tensor that is larger": (
        lambda lab: lab["outputs"][0]["tensor"].update(dims=[1, 600, 30, 30]),
        r"\[1, 600, 30, 30\] do not fit its bytes",
    ),
    "no view": (
        lambda lab: lab["bindings"][0].update(view="push"),
        "'view' must be one of storage",
    ),
    "a macro of two words": (
        lambda lab: lab["variant"].update(ACCESS='0\n#include "/etc/passwd"'),
        "'variant' must be words by name",
    ),
    "a name of a constant": (
        lambda lab: lab["constants"].update({"a b": 1}),
        "'constants' must be names of GLSL",
    ),
    "many bindings": (
        lambda lab: lab.update(bindings=lab["bindings"] * 5000),
        "'bindings' must be a list of at most",
    ),
    "read without a file": (
        lambda lab: lab["memories"][0].update(file=None),
        "is read, and its memory has no file",
    ),
}


@pytest.mark.device
@pytest.mark.parametrize("name", CHANGES)
def test_descriptions_that_cannot_be(tmp_path: Path, name: str) -> None:
    folder = lab_folder(tmp_path)
    how, message = CHANGES[name]
    change(folder, how)
    with pytest.raises(VknnError, match=message) as raised:
        Lab.open(folder)
    assert str(folder) in str(raised.value)


@pytest.mark.device
def test_arrays_that_are_not_those(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    file = first_input(folder)
    right = np.load(file)
    for wrong in (right[:-1], right.astype(np.float64), right.reshape(2, -1)[:, ::2]):
        np.save(file, wrong)
        with pytest.raises(VknnError, match="where .* elements of float32 are expected"):
            opened_and_run(folder)
    np.save(file, right)
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(VknnError, match="it is cut off"):
        opened_and_run(folder)
    file.write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(VknnError, match=str(file)):
        opened_and_run(folder)
    file.unlink()
    with pytest.raises(VknnError, match="No such file"):
        opened_and_run(folder)


@pytest.mark.device
def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = lab_folder(tmp_path)
    np.save(first_input(folder), np.array([Harm()], object), allow_pickle=True)
    with pytest.raises(VknnError, match="holds objects, which are never unpickled"):
        opened_and_run(folder)
    assert not (tmp_path / "harm").exists()


def test_a_header_of_more_than_there_is_takes_no_memory(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
    header += b" " * (117 - len(header)) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(VknnError, match="it is cut off: 0 of 4398046511104 bytes"):
        read_array(tmp_path, "a.npy", np.dtype("float32"), 1 << 40)


@pytest.mark.device
def test_links_lead_nowhere(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    file = first_input(folder)
    file.rename(tmp_path / "elsewhere.npy")
    file.symlink_to(tmp_path / "elsewhere.npy")
    with pytest.raises(VknnError, match="a link; a kernel lab has none"):
        opened_and_run(folder)
    file.unlink()
    (tmp_path / "elsewhere.npy").rename(file)
    (folder / "inputs").rename(tmp_path / "inputs")
    (folder / "inputs").symlink_to(tmp_path / "inputs")
    with pytest.raises(VknnError, match="inputs: a link"):
        opened_and_run(folder)


@pytest.mark.device
@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("/etc/passwd", "window.comp:6: include '/etc/passwd' lies outside glsl/"),
        ("../lab.json", "lies outside glsl/"),
        ("pooling/window.comp", "includes itself"),
        ("pooling/absent.glsl", "absent.glsl: No such file"),
        ("pooling/link.glsl", "link.glsl: a link"),
        ("pooling/bomb9.glsl", "the kernel with its includes has over"),
        ("pooling/binary.glsl", "this is no text"),
        ("pooling/large.glsl", "over 1048576 bytes"),
    ],
)
def test_includes(tmp_path: Path, include: str, message: str) -> None:
    folder = lab_folder(tmp_path)
    pooling = folder / "glsl/pooling"
    (pooling / "link.glsl").symlink_to("/etc/hostname")
    (pooling / "binary.glsl").write_bytes(b"\xff\xfe\x00")
    (pooling / "large.glsl").write_text("// \n" * (1 << 19))
    (pooling / "bomb0.glsl").write_text("// " + "x" * 1000 + "\n")
    for n in range(1, 10):
        line = f'#include "pooling/bomb{n - 1}.glsl"\n'
        (pooling / f"bomb{n}.glsl").write_text(line * 10)
    edit(
        folder / WINDOW,
        "#extension GL_EXT_control_flow_attributes : require",
        f'#include "{include}"',
    )
    edit(folder / WINDOW, f'#include "{include}"', f'\n#include "{include}"')
    with pytest.raises(VknnError, match=message):
        opened_and_run(folder)


VALUES = (
    *(None, True, 0, -1, 3, 1 << 31, 1 << 62, 1 << 70, 1e308, float("inf"), float("nan")),
    *("", "x", "nan", "../x", "a/b.npy", "\0", "c4", "int8", "write", [], [1], [1, 1, 1], {}),
)


@pytest.mark.device
def test_mutations(tmp_path: Path) -> None:
    """Whatever stands in a description, it is read and can be planned, or is an error of vknn's."""
    folder = lab_folder(tmp_path)
    document = json.loads((folder / "lab.json").read_text())
    with Lab.open(folder) as lab:
        compiled = lab.compiled(lab.source(), lab.description.variant)
    limits = shared_device().limits
    random, refused = np.random.default_rng(0), 0
    for _ in range(600):
        changed = json.loads(json.dumps(document))
        for _ in range(random.integers(1, 4)):
            mutate(changed, random)
        try:
            description = read_description(changed, "lab.json")
            request = requested(description, compiled, limits)
            data = read_memories(description, folder)
            lab_plan(
                "lab", description.memories, data, description.bindings, request.dispatch, limits
            )
        except VknnError:
            refused += 1
    assert 200 < refused < 600


def mutate(document: Any, random: np.random.Generator) -> None:
    """A value somewhere in a document removed, or replaced by another."""
    while True:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        if not keys:
            return
        key = keys[random.integers(len(keys))]
        inner = document[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.8:
            document = inner
        elif random.random() < 0.2:
            del document[key]
            return
        else:
            document[key] = VALUES[random.integers(len(VALUES))]
            return
