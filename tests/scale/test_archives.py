"""Archives of pictures, whole and damaged, and files of every kind that are cut off."""

from __future__ import annotations

import io
import json
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
    assert job(bare, model, tmp_path / "out").rows == 2


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


def test_files_that_are_not_what_their_names_say(tmp_path: Path, net: Path) -> None:
    for ending in ("parquet", "npy", "npz", "tar"):
        path = tmp_path / f"a.{ending}"
        path.write_bytes(json.dumps({"a": 1}).encode() * 100)
        with pytest.raises(VknnError, match=f"a.{ending}"):
            job(path, net, tmp_path / "out")
