"""Writer of bundles: what was put in comes out, each thing once, beyond 4 GiB too; a generated
header and page that are up to date."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.bundle.sections import read_sections

from vknn.bundle import schema, writer
from vknn.bundle.tables import Tables
from vknn.bundle.writer import write

ROOT = Path(__file__).resolve().parents[2]
V1 = Path(__file__).parent / "data" / "v1.vkb.gz"


def test_records_are_packed_and_whole() -> None:
    for record in (*schema.RECORDS, schema.HEADER, schema.SECTION):
        sizes = [int(f.kind[1:]) // 8 * f.count for f in record.fields]
        assert record.dtype.itemsize == sum(sizes), record.name
        assert record.dtype.itemsize % 8 == 0, record.name
        at = 0
        for field, size in zip(record.fields, sizes, strict=True):
            assert at % min(8, int(field.kind[1:]) // 8) == 0, (record.name, field.name)
            at += size
    numbers = [part.section for part in (*schema.RECORDS, *schema.BLOBS)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_what_is_there_already_is_not_stored_again(tmp_path: Path) -> None:
    tables = Tables()
    one = np.arange(100, dtype=np.float32)
    assert tables.blob(one) == tables.blob(one.copy()) == tables.blob(one.view(np.uint8)) == 0
    assert tables.blob(one[:99]) == 1
    assert tables.string("a") == tables.string("a") != tables.string("b")
    assert tables.string("") == 0
    assert tables.push(b"1234") == tables.push(b"1234") == 0
    # A record for each amount of shared memory, over the same bytes.
    assert [tables.module(b"spir", n) for n in (4, 9, 4)] == [0, 1, 0]
    assert tables.arrays[0].base is one  # no copy
    write(tmp_path / "x.vkb", tables, b"{}")
    read = read_sections(tmp_path / "x.vkb")
    assert read.blob(0) == one.tobytes() and read.blob(1) == one[:99].tobytes()
    assert read.tables["module"]["shared_memory"].tolist() == [4, 9]
    assert read.parts["spirv"] == b"spir"
    assert read.parts["meta"] == b"{}"


def test_arrays_that_begin_alike_are_told_apart() -> None:
    tables = Tables()
    long = np.zeros(5000, np.uint8)
    ends = [np.concatenate((long, np.uint8([k]))) for k in (1, 2, 1)]
    assert [tables.blob(array) for array in ends] == [0, 1, 0]


def test_nothing_at_all(tmp_path: Path) -> None:
    done = write(tmp_path / "x.vkb", Tables(), b"{}")
    read = read_sections(tmp_path / "x.vkb")
    assert done.nbytes == (tmp_path / "x.vkb").stat().st_size
    assert done.sha256 == read.header["sha256"].tobytes()
    assert not read.header["data_sha256"].any()


def test_texts_with_zeros_and_halves_of_characters(tmp_path: Path) -> None:
    tables = Tables()
    texts = [tables.string(t) for t in ("a\0b", "\ud800", "Grün")]
    write(tmp_path / "x.vkb", tables, b"{}")
    read = read_sections(tmp_path / "x.vkb")
    assert [read.string(t) for t in texts] == ["a b", "?", "Grün"]


class Huge:
    """A stand-in for an array of 3 GiB, of which nothing is there but its size."""

    nbytes = 3 << 30
    data = b""


def test_offsets_beyond_4_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets and sizes of the data need more than 32 bits; the data are left out."""
    tables = Tables()
    for _ in range(2):
        tables.arrays.append(Huge())  # type: ignore[arg-type]
        tables._data_bytes += Huge.nbytes
    last = tables.blob(np.float32([1, 2]))
    row = tables.rows[schema.BLOB][last]
    assert row[0] == 6 << 30
    tables.rows[schema.BLOB][:0] = [row, row]
    monkeypatch.setattr(writer, "_data", lambda tables: iter(()))
    sections = tables.sections(b"{}")
    layout = writer._layout(sections, tables)
    front, _ = writer._front(sections, layout, tables)
    header = np.frombuffer(front[: schema.HEADER.dtype.itemsize], schema.HEADER.dtype)[0]
    table = front[len(header.tobytes()) :][: header["sections"] * schema.SECTION.dtype.itemsize]
    [data] = [e for e in np.frombuffer(table, schema.SECTION.dtype)
              if e["kind"] == schema.DATA.section]  # fmt: skip
    assert data["nbytes"] == (6 << 30) + 8 and data["count"] == 0
    assert header["file_bytes"] == data["offset"] + data["nbytes"] == layout.end > 6 << 30
    assert len(front) == data["offset"]


@pytest.mark.slow
def test_a_file_beyond_4_gib(tmp_path: Path) -> None:
    """Weights of a sparse file, of which memory holds no copy."""
    sparse = tmp_path / "weights"
    with sparse.open("wb") as file:
        file.truncate(4 << 30)
    tables = Tables()
    tracemalloc.start()
    first = tables.blob(np.memmap(sparse, np.uint8, "r"))
    last = tables.blob(np.float32([1, 2, 3]))
    done = write(tmp_path / "x.vkb", tables, b"{}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (first, last) == (0, 1) and done.nbytes > 4 << 30
    assert peak < 1 << 23
    with (tmp_path / "x.vkb").open("rb") as file:
        file.seek(-12, 2)
        assert np.frombuffer(file.read(), np.float32).tolist() == [1, 2, 3]


def test_no_copies_are_held_while_writing(tmp_path: Path) -> None:
    tables = Tables()
    array = np.random.default_rng(0).integers(0, 255, 1 << 24, np.uint8)
    tracemalloc.start()
    tables.blob(array)
    write(tmp_path / "x.vkb", tables, b"{}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(array) // 8


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "x.vkb"
    path.write_bytes(b"old")
    tables = Tables()
    tables.blob(np.zeros(3))
    monkeypatch.setattr(writer, "_front", broken)  # the data are written by then
    with pytest.raises(OSError, match="No space"):
        write(path, tables, b"{}")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_header_and_the_page_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "bundle_format.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_bundle_of_version_1_stays_readable() -> None:
    """Kept as it was written; records only grow with the version."""
    data = gzip.decompress(V1.read_bytes())
    read = read_sections(data)
    assert read.header["version"] == 1 <= schema.VERSION
    [plan] = read.tables["plan"]
    assert read.string(plan["target"]) == "generic"
    assert [read.string(p["name"]) for p in read.tables["port"]] == ["data", "out"]
    assert read.tables["example"]["port"].tolist() == [0, 1]
    assert len(read.tables["blob"]) > 3 and len(read.tables["module"]) > 1


def test_a_pipe_gets_what_a_file_does(tmp_path: Path) -> None:
    """It cannot be gone back in."""
    tables = Tables()
    tables.blob(np.arange(100_000, dtype=np.float32))
    tables.blob(np.float32([1, 2, 3]))
    done = write(tmp_path / "x.vkb", tables, b"{}")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(pipe.read_bytes)
        assert write(pipe, tables, b"{}") == done
        assert reading.result() == (tmp_path / "x.vkb").read_bytes()


def test_sums_are_those_of_the_bytes(tmp_path: Path) -> None:
    arrays = [np.random.default_rng(k).random(k * 1000) for k in (1, 7, 3)]
    tables = Tables()
    for array in arrays:
        tables.blob(array)
    done = write(tmp_path / "x.vkb", tables, b"{}")
    whole = (tmp_path / "x.vkb").read_bytes()
    assert hashlib.sha256(whole[:32] + bytes(32) + whole[64:]).digest() == done.sha256
    read = read_sections(whole)
    crcs = [zlib.crc32(array.tobytes()) for array in arrays]
    assert read.tables["blob"]["crc"].tolist() == crcs
