"""Swept modules, kept on disk beside the compiled ones, by content."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from pathlib import Path

from vknn.runtime.spirv import modules, operands, sweep, words

#: So many are kept at most, some 20 KB each; the older half goes where there are more.
MOST_KEPT = 2048


def kept_sweep(spirv: bytes) -> bytes:
    """``spirv`` without what nothing reaches: from disk, or swept now and kept there.

    As :func:`vknn.runtime.spirv.sweep.swept` gives it; a cache that cannot be read or written is no
    error.
    """
    version = _version()
    if version is None:
        return sweep.swept(spirv)
    folder = modules.cache_folder() / "swept"
    path = folder / f"{hashlib.sha256(version + spirv).hexdigest()}.spv"
    held = modules.read_cached(path)
    if held is None:
        held = sweep.swept(spirv)
        modules.write_cached(path, held)
        _prune(folder)
    return held


@functools.cache
def _version() -> bytes | None:
    """Hash of the code that sweeps, which decides as much as the module; None where it is gone."""
    digest = hashlib.sha256()
    try:
        for part in (sweep, operands, words):
            digest.update(Path(part.__file__ or "").read_bytes())
    except OSError:
        return None
    return digest.digest()


def _prune(folder: Path) -> None:
    """Removal of the older half of too many modules."""
    with contextlib.suppress(OSError):
        files = list(folder.glob("*.spv"))
        if len(files) > MOST_KEPT:
            by_age = sorted(files, key=lambda file: file.stat().st_mtime)
            for file in by_age[: len(files) // 2]:
                file.unlink(missing_ok=True)
