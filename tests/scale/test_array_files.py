"""Arrays of files, whose rows are read as they are needed."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn.errors import InputError
from vknn.scale.archives import UnreadError
from vknn.scale.reading import read
from vknn.scale.sources import RecordSource, find_source
from vknn.scale.survey import surveyed

pa = pytest.importorskip("pyarrow")
fs = pytest.importorskip("pyarrow.fs")

ROWS, SIDE = 512, 64
COLUMNS = ["row", "data", "more"]
#: Bytes of both arrays.
BYTES = ROWS * (4 * SIDE * SIDE + 8)
_Save = Callable[..., None]


def arrays() -> dict[str, np.ndarray]:
    """Two arrays of as many rows, one large, and one that nobody reads."""
    data = np.arange(ROWS * SIDE * SIDE, dtype=np.float32).reshape(ROWS, SIDE, SIDE)
    return {"data": data, "more": np.arange(ROWS), "unread": np.zeros(ROWS, np.uint8)}


def source_of(path: Path, is_local: bool) -> RecordSource:
    """A file as a source, be it as one that is not of this machine's filesystem."""
    found = find_source(path)
    place = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    return found if is_local else replace(found, filesystem=place)


@pytest.mark.parametrize("is_local", [True, False], ids=["local", "elsewhere"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "deflated"])
def test_an_archive_is_not_held_in_memory(save: _Save, is_local: bool, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **arrays())
    source = source_of(tmp_path / "a.npz", is_local)
    number = 0
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    for rows in read(source, COLUMNS, 8):
        table = rows.table
        assert table.column("row").to_pylist() == [
            f"{source.paths[0]}#{n}" for n in range(number, number + 8)
        ]
        found = table.column("data").combine_chunks().to_numpy_ndarray()
        assert found[:, 0, 0].tolist() == [n * SIDE * SIDE for n in range(number, number + 8)]
        assert table.column("more").to_pylist() == list(range(number, number + 8))
        assert pa.total_allocated_bytes() - before < BYTES / 4
        number += 8
        del rows, table, found
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert number == ROWS and peak < BYTES / 2


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "deflated"])
def test_rows_that_are_left(save: _Save, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **arrays())
    source = find_source(tmp_path)
    wanted = {f"{source.paths[0]}#{n}" for n in (3, 4, 100, ROWS - 1)}
    found = [rows.table for rows in read(source, COLUMNS, 8, wanted.__contains__)]
    assert [n for table in found for n in table.column("more").to_pylist()] == [
        3, 4, 100, ROWS - 1,
    ]  # fmt: skip
    assert {n for table in found for n in table.column("row").to_pylist()} == wanted


def test_a_stream_of_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", arrays()["data"])
    source = source_of(tmp_path / "a.npy", is_local=False)
    tracemalloc.start()
    found = [
        float(rows.table.column("data").combine_chunks().to_numpy_ndarray()[0, 0, 1])
        for rows in read(source, ["row", "data"], 8)
    ]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [n * 8 * SIDE * SIDE + 1 for n in range(ROWS // 8)] and peak < BYTES / 2


def test_columns_first(tmp_path: Path) -> None:
    """Rows of arrays in Fortran's order lie all over the file."""
    data = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    np.savez(tmp_path / "a.npz", data=np.asfortranarray(data))
    tables = [rows.table for rows in read(find_source(tmp_path), ["row", "data"], 2)]
    found = [table.column("data").combine_chunks().to_numpy_ndarray() for table in tables]
    assert np.concatenate(found).tolist() == data.tolist()


def test_an_array_of_the_name_of_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", row=np.zeros((2, 4)), data=np.zeros((2, 4)))
    with pytest.raises(InputError, match="the column 'row' names records: rename that array"):
        surveyed(find_source(tmp_path), "row", ())


def test_no_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", data=np.zeros((0, 3), np.float32))
    source = find_source(tmp_path)
    assert surveyed(source, "row", ()).count == 0
    assert list(read(source, ["row", "data"], 2)) == []


def cut(data: bytes) -> bytes:
    """An array without its last row."""
    return data[:-4]


def longer(data: bytes) -> bytes:
    """An array whose header tells of more rows than there are."""
    return data.replace(b"(4,), ", b"(4000000000,), ")


@pytest.mark.parametrize("change", [cut, longer])
def test_arrays_that_are_shorter_than_they_say(
    change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    file = io.BytesIO()
    np.save(file, np.arange(4, dtype=np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("data.npy", change(file.getvalue()))
    with pytest.raises(Exception, match=r"a\.npz is no NumPy file: it is cut off: "):
        surveyed(find_source(tmp_path), "row", ())


def test_an_archive_that_says_too_much(tmp_path: Path) -> None:
    """Its directory and the header agree; what is packed is less. Nothing is allocated for it."""
    rows = 1 << 29
    head = io.BytesIO()
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": (rows,)}
    np.lib.format.write_array_header_1_0(head, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", head.getvalue() + bytes(64))
        info = archive.infolist()[0]
        info.file_size = len(head.getvalue()) + 4 * rows
    source = find_source(tmp_path)
    assert surveyed(source, "row", ()).count == rows
    tracemalloc.start()
    with pytest.raises(UnreadError, match=r"a\.npz is no NumPy file: "):
        list(read(source, ["row", "data"], rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 26
