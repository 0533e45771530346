"""What the runner refuses, and by which words: devices, plans, sizes, damaged files."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import edited, records, section
from tests.bundle.networks import Made, check, small
from tests.small_model import write_small_model

import vknn
from vknn.bundle.runner import Runner
from vknn.bundle.schema import NONE
from vknn.errors import DeviceError, InputError, OutOfMemoryError, VknnError

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


def test_device_is_chosen(net: Made, library: Path) -> None:
    from vknn.runtime import devices

    name = devices()[0].name
    for selector in ("0", name[:5].upper(), name):
        check(net, library, device=selector)
    with pytest.raises(DeviceError, match="no device nobody; there are 0: "):
        Runner(net.path, library=library, device="nobody")


def test_plan_that_is_not_there(net: Made, library: Path) -> None:
    with pytest.raises(InputError, match=r"no plan of shapes data=1 for any target; it has data="):
        Runner(net.path, library=library, shapes="data=1")
    with pytest.raises(InputError, match=r"for toaster"):
        Runner(net.path, library=library, target="toaster")


def test_lists_that_are_cut_say_so(tmp_path: Path, library: Path) -> None:
    path = tmp_path / "many.vkb"
    vknn.export(
        write_small_model(tmp_path), path, shapes=[{"data": (3, 8, n)} for n in range(8, 40)]
    )
    with pytest.raises(InputError, match=r"it has data=3,8,8 for generic, .*\.\.\.$") as caught:
        Runner(path, library=library, shapes="data=1")
    assert len(str(caught.value)) > 600
    with pytest.raises(InputError, match=r"for xé{49}\?; it has"):  # no half of a character
        Runner(path, library=library, target="x" + "é" * 700)


def test_memory_limit(net: Made, library: Path) -> None:
    with pytest.raises(OutOfMemoryError, match=r"4096 are free on"):
        Runner(net.path, library=library, memory_limit=4096)
    with Runner(net.path, library=library) as runner:
        enough = runner.memory
    check(net, library, memory_limit=enough)


def test_needs_that_are_not_met(net: Made, tmp_path: Path, library: Path) -> None:
    def greedy(plans: np.ndarray) -> None:
        plans["storage_range"] = 1 << 40
        plans["features"] |= 0x100
        plans["storage_alignment"] = 4
        plans["subgroup_size"] = 128

    path = edited(net.path, tmp_path / "greedy.vkb", "plan", greedy)
    with pytest.raises(DeviceError) as caught:
        Runner(path, library=library)
    for part in (
        "does not suit", "1099511627776 bytes in a storage buffer", "cooperative matrices",
        "multiples of 4 bytes", "subgroups of 128", "generic",
    ):  # fmt: skip
        assert part in str(caught.value)


def test_damaged_weights(net: Made, tmp_path: Path, library: Path) -> None:
    raw = bytearray(net.path.read_bytes())
    blobs = records(raw, "buffer")["blob"]
    blob = int(blobs[blobs != NONE][0])
    offset, _ = section(raw, "data")
    raw[offset + int(records(raw, "blob")["offset"][blob])] ^= 1
    path = tmp_path / "damaged.vkb"
    path.write_bytes(raw)
    with pytest.raises(VknnError, match=f"is damaged: blob {blob} has another sum"):
        Runner(path, library=library)


@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "pipe"])
def test_file_that_cannot_be_read(tmp_path: Path, library: Path, kind: str) -> None:
    path = tmp_path / "net.vkb"
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(VknnError, match="net.vkb (cannot be opened|is empty, or no file)"):
        Runner(path, library=library)


def test_wrong_sizes(net: Made, library: Path) -> None:
    lib = ctypes.CDLL(str(library))
    lib.vknn_net_message.restype = ctypes.c_char_p
    with Runner(net.path, library=library) as runner:
        handle = runner._net
        assert lib.vknn_set(handle, b"data", b"\0" * 4, ctypes.c_size_t(4)) == 4
        assert lib.vknn_net_message(handle) == b"data has 768 bytes, not 4"
        assert lib.vknn_set(handle, b"nothing", b"\0" * 4, ctypes.c_size_t(4)) == 4
        assert lib.vknn_net_message(handle) == b"there is no input nothing; there are: data"


def test_a_name_that_is_cut_is_no_half_a_letter(net: Made, library: Path) -> None:
    lib = ctypes.CDLL(str(library))
    lib.vknn_net_message.restype = ctypes.c_char_p
    port = ctypes.create_string_buffer(1024)
    with Runner(net.path, library=library) as runner:
        for letter in "é猫\U0001f600":
            for before in ("", "x", "xx", "xxx"):
                name = (before + letter * 60).encode()
                assert lib.vknn_find(runner._net, 0, name, port) == 4
                text = lib.vknn_net_message(runner._net).decode()
                assert f"no input {before}{letter}" in text
                assert text.count("?") <= 3
