"""Files that only claim to be large models are refused before they are read into memory."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from tests.coreml_writer import layer, model

import vknn

WHOLE = model([layer("softmaxND", axis=-1)], {"x": (3,)}).SerializeToString()


def holey(folder: Path, begin: bytes, size: int) -> Path:
    path = folder / "net.mlmodel"
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(size)
    return path


@pytest.mark.parametrize(
    ("begin", "size", "words"),
    [
        (WHOLE, 3 << 30, "more than a Core ML model has"),
        (WHOLE, 15 << 27, f"byte {len(WHOLE)}: .*damaged or truncated"),
        (WHOLE[:40], 15 << 27, "damaged or truncated"),
    ],
)
def test_holes_are_not_read(begin: bytes, size: int, words: str, tmp_path: Path) -> None:
    path = holey(tmp_path, begin, size)
    if path.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("this file system has no holes")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(vknn.VknnError, match=rf"net\.mlmodel.*{words}"):
        vknn.Session(path, device="numpy")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # 256 MiB in KiB


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (b"\x00", 0),  # a field 0
        (b"\x0b", 0),  # a group
        (b"\xff\x07", 0),  # of a wire type that there is not
        (b"\x80", 0),  # a tag that is cut
        (b"\xfa\x7c\x05abcd", 0),  # a value that is cut
        (b"\xd8\x7d\x07\xff", 3),  # an unknown field, and a tag that is cut
        (b"\x80" * 11, 0),  # a number without an end
    ],
)
def test_the_place_is_told(more: bytes, where: int, tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(WHOLE + more)
    with pytest.raises(vknn.ModelFormatError, match="damaged or truncated") as caught:
        vknn.Session(path, device="numpy")
    assert caught.value.offset == len(WHOLE) + where


@pytest.mark.parametrize("more", [b"", b"\xd8\x7d\x07", b"\xfa\x7c\x02ab", b"\xd9\x7d" + bytes(8)])
def test_unknown_fields_pass(more: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(WHOLE + more)
    vknn.Session(path, device="numpy").close()
