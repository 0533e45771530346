"""Files that are replaced as a whole: what was there stays where writing fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO

import pytest
from tests.training import models

import vknn
from vknn.named_files import replacing


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half(file: IO[bytes]) -> None:
    file.write(b"half")
    full()


def test_a_model_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models.written(models.regressor(), tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", full)
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(OSError, match=r"No space left on device: .*model\.mlmodel"),
    ):
        session.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_half_a_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left.*new"), replacing(tmp_path / "new") as file:
        half(file)
    assert list(tmp_path.iterdir()) == []


def test_links_and_modes_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    with replacing(tmp_path / "other") as file:
        file.write(b"new")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "other").stat().st_mode == (tmp_path / "plain").stat().st_mode


def no_file_beside(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """No new file can be made, for this reason."""

    def refused(path: str, flags: int, mode: int = 0o777, **rest: object) -> int:
        assert flags & os.O_EXCL
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "open", refused)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EIO])
def test_a_disk_without_room_for_a_new_file(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No inodes left: writing in place would empty what is there, and then fail."""
    path = tmp_path / "net"
    path.write_bytes(b"good")
    no_file_beside(monkeypatch, number)
    with pytest.raises(OSError, match="'.*/net'$"), replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"good"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_in_which_no_file_can_be_made(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net"
    path.write_bytes(b"good")
    no_file_beside(monkeypatch, number)
    with pytest.raises(OSError, match="'.*/net'$"), replacing(path, whole=True) as file:
        file.write(b"new")
    assert path.read_bytes() == b"good"
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    with replacing(os.devnull, whole=True) as file:
        file.write(b"new")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_devices_are_written_to(tmp_path: Path) -> None:
    with replacing(os.devnull) as file:
        file.write(b"x")
    failure = pytest.raises(OSError, match="No space left on device: '/dev/full'")
    with failure, replacing("/dev/full") as file:
        file.write(b"x")
    assert not os.path.isfile("/dev/full")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
@pytest.mark.parametrize("whole", [False, True])
def test_pipes_are_written_to(whole: bool) -> None:
    """As /dev/stdout is; no name leads to it but its own."""
    out, into = os.pipe()
    with replacing(f"/dev/fd/{into}", whole=whole) as file:
        file.write(b"through")
    os.close(into)
    with open(out, "rb") as read:
        assert read.read() == b"through"


@pytest.mark.parametrize("name", ["", "no/such/folder"])
def test_errors_name_the_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=str(tmp_path / name)), replacing(tmp_path / name):
        pass


def test_a_file_that_cannot_be_replaced_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where nothing takes the place of a file that is mapped."""

    def denied(source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, "Access is denied", source, None, target)

    path = tmp_path / "net.bin"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", denied)
    with pytest.raises(PermissionError, match=r"Access is denied: '.*net\.bin'$"), replacing(path):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["net.bin"]
