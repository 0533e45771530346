"""Kernels with their includes in them, read again only where a file of theirs has changed.

Like ``glsl``, this module also runs while the package is built.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from vknn.runtime.spirv import glsl
from vknn.runtime.spirv.glsl import Variant

#: Nanoseconds. File systems count a file's times in steps of up to two seconds: one changed so
#: shortly before it was read may have been changed behind that with no trace in its times.
_SETTLED = 3_000_000_000

_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class ExpandedKernel:
    """A kernel.

    Attributes:
        text: Its GLSL with all includes in it, as of :func:`vknn.runtime.spirv.glsl.expand`.
        variants: The variants that it lists.
    """

    text: str
    variants: tuple[Variant, ...]


_kept: dict[tuple[Path, str], tuple[dict[str, _Stamp], ExpandedKernel]] = {}


def expanded_kernel(root: Path, kernel: str) -> ExpandedKernel:
    """The kernel ("<family>/<name>") under a folder of sources.

    Raises :class:`ShaderError` where there is none, or one of its includes is not there.
    """
    stamps, source = _kept.get((root, kernel), ({}, None))
    if source is not None and all(_stamp(path) == stamp for path, stamp in stamps.items()):
        return source
    begin = time.time_ns()
    name, files = f"{kernel}.comp", set[str]()
    text = glsl.read_kernel(root, kernel)
    expanded = glsl.expand(text, name, root, files)
    source = ExpandedKernel(expanded, tuple(glsl.variants(text, kernel)))
    stamps = {path: _stamp(path) for path in (f"{root}/{file}" for file in (name, *files))}
    if all(0 <= changed < begin - _SETTLED for changed, _, _ in stamps.values()):
        _kept[root, kernel] = stamps, source
    return source


def _stamp(path: str) -> _Stamp:
    """When a file was changed (-1: it is not there), its size and its number."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
