"""Cache files of pipelines: header, checksum, atomic replacement."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vknn.runtime import trusted_file

if TYPE_CHECKING:  # setup.py compiles the shaders by this module, where there is no NumPy yet
    from vknn.runtime.snapshot import Snapshot

MAGIC = b"VKNNPC1\n"
_HEADER = struct.Struct("<8sQ32s")  # magic, bytes of data, their SHA-256
MAX_BYTES = 256 << 20


def device_key(snapshot: Snapshot) -> str:
    """The name of a device with its driver version, for files: 32 hexadecimal digits."""
    identity = hashlib.sha256()
    for part in (
        snapshot.uuid,
        snapshot.pipeline_cache_uuid,
        snapshot.driver_version.to_bytes(4, "little"),
        f"{snapshot.vendor_id}.{snapshot.device_id}.{snapshot.driver_info}".encode(),
    ):
        identity.update(len(part).to_bytes(4, "little") + part)
    return identity.hexdigest()[:32]


def cache_file(folder: Path, snapshot: Snapshot) -> Path:
    """Path of the cache of this device with this driver version."""
    return folder / "pipelines" / f"{device_key(snapshot)}.bin"


def pack(data: bytes) -> bytes:
    """``data`` behind its header."""
    return _HEADER.pack(MAGIC, len(data), hashlib.sha256(data).digest()) + data


def unpack(raw: bytes) -> bytes | None:
    """The data, or None for anything that :func:`pack` did not make."""
    if len(raw) < _HEADER.size:
        return None
    magic, length, digest = _HEADER.unpack_from(raw)
    data = raw[_HEADER.size :]
    if magic != MAGIC or length != len(data) or hashlib.sha256(data).digest() != digest:
        return None
    return data


def read(path: Path) -> bytes:
    """The cached data; empty where there is none, or it is damaged or not to be trusted."""
    try:
        return unpack(trusted_file.read(path, MAX_BYTES)) or b""
    except (OSError, ValueError):
        return b""


def write(path: Path, data: bytes) -> None:
    """Replacement of the file in one step; a cache that cannot be written is no error."""
    if not data or len(data) > MAX_BYTES - _HEADER.size:
        return
    with contextlib.suppress(OSError):
        replace(path, pack(data))


def replace(path: Path, raw: bytes) -> None:
    """Writing of a file in one step: readers see all of it or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
