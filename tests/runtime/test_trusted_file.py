"""Cache files are read where nobody else can have written them; a full disk leaves nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vknn.runtime import cachefile, trusted_file
from vknn.runtime.json_cache import JsonCache
from vknn.runtime.spirv import modules

JSON = JsonCache("a test", 1, "content", lambda content: content, "write it again")


def write_pipelines(path: Path) -> None:
    cachefile.write(path, b"data")


def write_json(path: Path) -> None:
    JSON.store(path, "data")


def write_module(path: Path) -> None:
    modules.write_cached(path, b"data")


#: What writes a cache file, what reads it, and what the latter gives for none.
KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any], Any]] = {
    "pipelines": (write_pipelines, cachefile.read, b""),
    "json": (write_json, JSON.load, None),
    "module": (write_module, modules.read_cached, None),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_file_of_ones_own(kind: str, tmp_path: Path) -> None:
    write, read, _ = KINDS[kind]
    write(tmp_path / "file")
    assert read(tmp_path / "file") in (b"data", "data")


@every_kind
def test_a_file_that_everybody_can_write(kind: str, tmp_path: Path) -> None:
    write, read, nothing = KINDS[kind]
    write(tmp_path / "file")
    (tmp_path / "file").chmod(0o666)
    with pytest.warns(RuntimeWarning, match="file can be written by everybody and is ignored") as w:
        assert [read(tmp_path / "file") for _ in range(2)] == [nothing] * 2
    assert len(w) == 1


@every_kind
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_a_file_of_another_user(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read, nothing = KINDS[kind]
    write(tmp_path / "file")
    real = os.fstat

    def others(descriptor: int) -> os.stat_result:
        values = list(real(descriptor))
        values[4] = os.geteuid() + 1
        return os.stat_result(values)

    monkeypatch.setattr(trusted_file.os, "fstat", others)
    with pytest.warns(RuntimeWarning, match="file belongs to another user and is ignored"):
        assert read(tmp_path / "file") == nothing


@every_kind
@pytest.mark.timeout(60)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe(kind: str, tmp_path: Path) -> None:
    _, read, nothing = KINDS[kind]
    os.mkfifo(tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="file is no regular file and is ignored"):
        assert read(tmp_path / "file") == nothing


@every_kind
def test_a_full_disk_leaves_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fdopen

    class Full:
        def __init__(self, descriptor: int) -> None:
            self._file = real(descriptor, "wb")

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", lambda descriptor, *_: Full(descriptor))
    if kind == "json":
        with pytest.raises(Exception, match="cannot be kept: .*No space left"):
            write_json(tmp_path / "file")
    else:
        KINDS[kind][0](tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
