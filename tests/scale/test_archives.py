"""Archives of pictures, whole and damaged, and files of every kind that are cut off."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.scale.jobs import (
    answers,
    by_id,
    job,
    picture_net,
    pictures,
    png,
    table,
    vectors,
    write_net,
)

import vknn
from vknn.errors import InputError, VknnError
from vknn.scale.folder import Folder

pa = pytest.importorskip("pyarrow")
pytest.importorskip("PIL")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_net(tmp_path)


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def shard(path: Path, first: int, count: int) -> Path:
    """A WebDataset shard: a picture and its label for each key."""
    members = {}
    for number in range(first, first + count):
        members[f"s/{number:03d}.png"] = png(number)
        members[f"s/{number:03d}.cls"] = str(number).encode()
    return tar(path, members)


def test_archives(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        shard(tmp_path / "in" / f"{number}.tar", 40 * number, 40)
    report = job(tmp_path / "in", picture_net(tmp_path), tmp_path / "out", keep=["cls"])
    assert report.rows == 80
    rows = by_id(tmp_path / "out", "__key__")
    assert list(rows)[:2] == ["s/000", "s/001"] and rows["s/079"]["cls"] == b"79"
    pictures(tmp_path / "files", 2)
    job(tmp_path / "files", picture_net(tmp_path), tmp_path / "of-files")
    expected = [row["out"] for row in answers(tmp_path / "of-files")]
    np.testing.assert_array_equal([rows["s/000"]["out"], rows["s/001"]["out"]], expected)


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".TGZ"])
def test_arrays_in_archives(ending: str, tmp_path: Path, net: Path) -> None:
    def npy(value: object) -> bytes:
        file = io.BytesIO()
        np.save(file, np.asarray(value))
        return file.getvalue()

    whole = npy(np.float32([1, 2, 3, 4]))
    members = {"a.npy": whole, "b.npy": whole[:-3], "c.npy": npy(["text"]), "d.npy": whole}
    members["d.cls"] = b"1"
    huge = b"(2147483647, 1048576), }"
    members["e.npy"] = whole.replace(b"(4,), }".ljust(len(huge)), huge)
    data = tar(tmp_path / "plain", members).read_bytes()
    archive = tmp_path / f"in{ending}"
    archive.write_bytes(data if ending == ".tar" else gzip.compress(data))
    job(archive, net, tmp_path / "out")
    rows = by_id(tmp_path / "out", "__key__")
    for key in "ad":
        np.testing.assert_array_equal(rows[key]["out"], [1, 4, 9, 16])
    for key in "be":
        assert (
            "holds no NumPy array that can be read: it is cut off"
            in (rows[key]["error"]["message"])
        )
    assert "input 'data' takes float32" in rows["c"]["error"]["message"]


def test_outputs_of_archives_are_tensors(tmp_path: Path) -> None:
    """A network of one size of picture gives one shape, wherever pictures come from."""
    shard(tmp_path / "a.tar", 0, 2)
    job(tmp_path / "a.tar", picture_net(tmp_path), tmp_path / "out", keep=["cls", "png"])
    (path,) = (tmp_path / "out").glob("*.parquet")
    schema = pq.read_schema(path)
    assert schema.field("out").type == pa.fixed_shape_tensor(pa.float32(), (5,))
    assert schema.field("__key__").type == pa.string()
    assert answers(tmp_path / "out")[1]["png"] == png(1), "what is read may be kept, too"


def test_a_share_of_errors_among_records_that_are_not_counted(tmp_path: Path) -> None:
    """An archive is not counted before it is read: one error of the first few is not too many."""
    members = {f"{number:03d}.png": png(number) for number in range(300)}
    members["001.png"] = b"broken"
    tar(tmp_path / "a.tar", members)
    report = job(tmp_path / "a.tar", picture_net(tmp_path), tmp_path / "out", errors="1%")
    assert report.rows == 300 and report.error_count == 1
    members |= {f"{number:03d}.png": b"broken" for number in range(2, 6)}
    tar(tmp_path / "b.tar", members)
    with pytest.raises(vknn.scale.JobError, match="5 of 300 records"):
        job(tmp_path / "b.tar", picture_net(tmp_path), tmp_path / "other", errors="1%")


def test_archives_with_records_that_lack_something(tmp_path: Path) -> None:
    members = {"a.png": png(0), "a.txt": b"a", "b.txt": b"b", "c.PNG": png(1), "c.txt": b""}
    job(tar(tmp_path / "a.tar", members), picture_net(tmp_path), tmp_path / "out", keep=["txt"])
    rows = by_id(tmp_path / "out", "__key__")
    assert rows["a"]["error"] is None and rows["c"]["error"] is None
    assert "column 'png' is null" in rows["b"]["error"]["message"]


def test_a_file_that_would_be_the_column_of_keys(tmp_path: Path) -> None:
    """It was the record's name, by which a job that was taken up again did not know it."""
    path = tar(tmp_path / "a.tar", {"a.png": png(0), "a.__KEY__": b"other", "b.png": png(1)})
    with pytest.raises(VknnError, match=r"a\.__KEY__: the column '__key__' names records: rename"):
        job(path, picture_net(tmp_path), tmp_path / "out")


def test_hidden_files_of_archives(tmp_path: Path) -> None:
    """macOS packs one beside each file: they would be records of one key, over and over."""
    members = {}
    for number in range(3):
        members |= {f"./s/._{number}.png": b"Mac OS X", f"./s/{number}.png": png(number)}
    tar(tmp_path / "a.tar", {"./._s": b"", **members, "s/.DS_Store": b""})
    report = job(tmp_path / "a.tar", picture_net(tmp_path), tmp_path / "out")
    assert (report.rows, report.errors) == (3, {})
    assert sorted(by_id(tmp_path / "out", "__key__")) == ["./s/0", "./s/1", "./s/2"]


def test_a_key_twice_in_archives(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        tar(tmp_path / "in" / f"{name}.tar", {"x.png": png()})
    with pytest.raises(InputError, match="b.tar has the key 'x' twice"):
        job(tmp_path / "in", picture_net(tmp_path), tmp_path / "out")


def written(kind: str, folder: Path) -> Path:
    if kind == "parquet":
        return table(folder / "a.parquet", vectors(200))
    if kind == "tar":
        return shard(folder / "a.tar", 0, 20)
    path = folder / f"a.{kind}"
    np.save(path, vectors(200)) if kind == "npy" else np.savez(path, data=vectors(200))
    return path


@pytest.mark.parametrize("kind", ["parquet", "npy", "npz", "tar"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.8, 0.97])
def test_files_cut_off(kind: str, share: float, tmp_path: Path) -> None:
    """An error that names the file: what was read until then is kept, and none is left out."""
    path = written(kind, tmp_path)
    size = int(os.path.getsize(path) * share)
    if kind == "tar":
        with tarfile.open(path) as archive:  # behind the last one there are only zeros
            last = archive.getmembers()[-1]
        size = int((last.offset_data + last.size) * share) // 512 * 512 + 77  # between no members
    with open(path, "r+b") as file:
        file.truncate(size)
    model = picture_net(tmp_path) if kind == "tar" else write_net(tmp_path)
    with pytest.raises(VknnError, match=f"a.{kind}"):
        job(path, model, tmp_path / "out", **({"id": "id"} if kind == "parquet" else {}))


def test_an_archive_cut_off_between_and_within_headers(tmp_path: Path) -> None:
    """tarfile takes a header that is cut off or damaged, but for the first, for the end."""
    whole = shard(tmp_path / "whole.tar", 0, 4).read_bytes()
    with tarfile.open(tmp_path / "whole.tar") as archive:
        places = [member.offset for member in archive]
    model = picture_net(tmp_path)
    for name, data in (
        ("cut", whole[: places[4] + 100]),
        ("damaged", whole[: places[4]] + b"x" * 512 + whole[places[4] + 512 :]),
    ):
        path = tmp_path / f"{name}.tar"
        path.write_bytes(data)
        with pytest.raises(VknnError, match=rf"{name}.tar cannot be read as an archive"):
            job(path, model, tmp_path / name)
    bare = tmp_path / "bare.tar"  # no zeros at its end: some programs leave them out
    bare.write_bytes(whole[: places[4]])
    report = job(bare, model, tmp_path / "out")
    assert report.rows == 2
    assert report.notes == [
        f"{bare} has no mark at its end: it may be cut off behind its 2 records"
    ]
    assert job(tmp_path / "whole.tar", model, tmp_path / "of-whole").notes == []


def test_what_was_read_of_a_damaged_file_is_kept(tmp_path: Path) -> None:
    shard(tmp_path / "a.tar", 0, 100)
    data = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(VknnError, match="cannot be read as an archive"):
        job(tmp_path / "a.tar", picture_net(tmp_path), tmp_path / "out", batch_size=8)
    count = len(by_id(tmp_path / "out", "__key__"))
    assert 30 < count < 80
    (tmp_path / "a.tar").write_bytes(data)
    assert job(tmp_path / "a.tar", picture_net(tmp_path), tmp_path / "out").new_rows == 100 - count
    assert len(by_id(tmp_path / "out", "__key__")) == 100


def test_other_archives_than_a_damaged_one(tmp_path: Path) -> None:
    """They are computed, also those behind it; what is damaged is said at the end."""
    (tmp_path / "in").mkdir()
    whole = {}
    for number in range(7):
        path = shard(tmp_path / "in" / f"{number}.tar", 10 * number, 10)
        whole[path] = path.read_bytes()
        if number not in (2, 6):
            path.write_bytes(whole[path][: len(whole[path]) // 4])
    model, out = picture_net(tmp_path), tmp_path / "out"
    with pytest.raises(vknn.scale.JobError) as caught:
        job(tmp_path / "in", model, out, batch_size=4)
    text = str(caught.value)
    assert "0.tar cannot be read as an archive behind its first " in text
    assert "3.tar" in text and "4.tar" not in text and text.endswith("; and 2 more files")
    report = caught.value.report
    assert report is not None and report.state == "stopped"
    rows = by_id(out, "__key__")
    assert report.rows == len(rows) > 20 + 5 and not report.error_count
    assert {f"s/{number:03d}" for number in (*range(20, 30), *range(60, 70))} < set(rows)
    for path, data in whole.items():
        path.write_bytes(data)
    assert job(tmp_path / "in", model, out).new_rows == 70 - len(rows)
    assert len(by_id(out, "__key__")) == 70


def test_a_damaged_archive_behind_a_process_that_ended(tmp_path: Path) -> None:
    """What was under way is computed alone, and then all else that can be read."""
    path = shard(tmp_path / "a.tar", 0, 20)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])
    model, out = picture_net(tmp_path), tmp_path / "out"
    Folder(out).create()
    Folder(out).write_running({"now": ["s/003", "s/004"]})
    with pytest.raises(vknn.scale.JobError, match="behind its first") as caught:
        job(path, model, out)
    assert caught.value.report is not None
    batches = {name: row["batch"] for name, row in by_id(out, "__key__").items()}
    assert len(batches) == caught.value.report.rows > 5
    assert batches["s/003"] != batches["s/004"] and batches["s/001"] == batches["s/005"]


def test_a_damaged_archive_without_a_good_record(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {f"{number}.png": b"broken" for number in range(9)})
    path.write_bytes(path.read_bytes()[: 7 * 1024 + 700])
    with pytest.raises(vknn.scale.JobError, match="behind its first 7 records"):
        job(path, picture_net(tmp_path), tmp_path / "out")
    rows = by_id(tmp_path / "out", "__key__")
    assert len(rows) == 7 and all("no picture" in row["error"]["message"] for row in rows.values())


def test_members_that_are_no_plain_files_of_plain_names(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {"a.png": png(0), "\udcff.png": png(1)})
    with tarfile.open(path, "a") as archive:
        for name, kind in (("c.png", tarfile.LNKTYPE), ("d.png", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.png"
            archive.addfile(info)
    job(path, picture_net(tmp_path), tmp_path / "out")
    rows = by_id(tmp_path / "out", "__key__")
    assert rows["a"]["error"] is rows["\\xff"]["error"] is None
    for name in "cd":
        assert rows[name]["error"]["message"] == "column 'png' is null", "links have no contents"


def test_columns_of_archives_whose_first_record_lacks_some(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {"a.cls": b"1", "b.cls": b"2", "b.png": png(0)})
    job(path, picture_net(tmp_path), tmp_path / "out", keep=["cls"])
    rows = by_id(tmp_path / "out", "__key__")
    assert "null" in rows["a"]["error"]["message"] and rows["b"]["error"] is None


def test_archives_without_files(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        tar(tmp_path / name, {})
    with pytest.raises(InputError, match="a.tar has no files in it"):
        job(str(tmp_path / "*.tar"), picture_net(tmp_path), tmp_path / "out")
    shard(tmp_path / "b.tar", 0, 3)
    assert job(str(tmp_path / "*.tar"), picture_net(tmp_path), tmp_path / "out").rows == 3


def test_archives_whose_compressed_bytes_are_damaged(tmp_path: Path) -> None:
    whole = shard(tmp_path / "whole.tar", 0, 40).read_bytes()
    for number, pack in enumerate((gzip.compress, bz2.compress, lzma.compress)):
        path = tmp_path / f"{number}.tar"
        data = bytearray(pack(whole))
        for place in range(len(data) // 2, len(data) // 2 + 40):
            data[place] ^= 0x55
        path.write_bytes(data)
        with pytest.raises(VknnError, match=rf"{number}.tar cannot be read as an archive"):
            job(path, picture_net(tmp_path), tmp_path / f"out{number}")


def test_files_that_are_not_what_their_names_say(tmp_path: Path, net: Path) -> None:
    for ending in ("parquet", "npy", "npz", "tar"):
        path = tmp_path / f"a.{ending}"
        path.write_bytes(json.dumps({"a": 1}).encode() * 100)
        with pytest.raises(VknnError, match=f"a.{ending}"):
            job(path, net, tmp_path / "out")
