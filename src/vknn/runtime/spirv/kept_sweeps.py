"""Modules that were cut and swept, kept on disk beside the compiled ones, by content."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from vknn.runtime.spirv import modules, operands, specialize, sweep, words

#: Constants of a pipeline: id and value.
Integers = tuple[tuple[int, int], ...]
#: Takes a work that is to be done later.
Later = Callable[[Callable[[], None]], object]

#: So many are kept at most, some 20 KB each; the older half goes where there are more.
MOST_KEPT = 2048


def integers_of(constants: Iterable[tuple[int, int | float]]) -> Integers:
    """Those of a pipeline's constants that decide branches."""
    return tuple((number, int(v)) for number, v in constants if not isinstance(v, float))


def kept_sweep(spirv: bytes, constants: Integers, later: Later | None = None) -> bytes:
    """A module with what ``constants`` leave of it: from disk, or cut and swept now and kept there.

    As ``specialized`` and then ``swept`` give it; a cache that cannot be read or written is no
    error. ``later``: takes what writes it; None: it is written at once.
    """
    version = _version()
    if version is None:
        return sweep.swept(specialize.specialized(spirv, constants))
    folder = modules.cache_folder() / "swept"
    key = hashlib.sha256(version + _hash(spirv) + repr(constants).encode()).hexdigest()
    path = folder / f"{key}.spv"
    held = modules.read_cached(path)
    if held is None:
        held = sweep.swept(specialize.specialized(spirv, constants))
        work = functools.partial(_write, path, held)
        work() if later is None else later(work)
    return held


def _write(path: Path, module: bytes) -> None:
    """A new file, whose sum tells whether it is whole; a damaged one is replaced in one step."""
    try:
        with open(path, "xb", opener=_own) as file:
            file.write(modules.with_sum(module))
    except OSError:  # it is there, or its folder is not
        modules.write_cached(path, module)
    _prune(path.parent)


def _own(path: str, flags: int) -> int:
    """A file that nobody else writes, whatever the process gives to new ones."""
    return os.open(path, flags, 0o600)


@functools.lru_cache(maxsize=256)
def _hash(spirv: bytes) -> bytes:
    return hashlib.sha256(spirv).digest()


@functools.cache
def _version() -> bytes | None:
    """Hash of the code that cuts and sweeps, which counts as well; None where it is gone."""
    digest = hashlib.sha256()
    try:
        for part in (specialize, sweep, operands, words):
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
