"""A profile's document as a file: JSON in gzip, of which nothing is believed when it is read."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Sequence
from typing import IO, Any

from vknn.errors import VknnError
from vknn.named_files import is_endless, replacing
from vknn.profiling.records import TimedRun
from vknn.profiling.schema import Wrong
from vknn.profiling.vkprof.checks import check
from vknn.profiling.vkprof.plans import with_texts
from vknn.profiling.vkprof.timed_runs import rounded, run_document

FORMAT, VERSION, SUFFIX = "vkprof", 1, ".vkprof"
#: The most bytes of JSON: a profile of 20,000 dispatches and 100 runs has a quarter of them.
MAX_BYTES = 256 << 20
_CHUNK = 1 << 20


def complete_document(
    about: dict[str, Any], runs: Sequence[TimedRun], plain: Sequence[float]
) -> dict[str, Any]:
    """The whole document of a profile; ``about``: all of it but the measured times."""
    return {
        **about,
        "format": FORMAT,
        "version": VERSION,
        "kernels": with_texts(about["kernels"]),
        "runs": [run_document(run) for run in runs],
        "plain": [rounded(seconds) for seconds in plain],
    }


def write_document(path: str | os.PathLike[str], document: dict[str, Any]) -> None:
    """A document (docs/vkprof.md) written to a file, which it replaces as a whole.

    Raises VknnError where it would be too large to be read again.
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > MAX_BYTES:
        raise VknnError(
            f"{os.fspath(path)}: a profile of {len(text) >> 20} MiB is too large for a file "
            f"({MAX_BYTES >> 20} MiB): take fewer runs"
        )
    with replacing(path) as file:
        file.write(gzip.compress(text, compresslevel=6, mtime=0))


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document of a ``.vkprof`` file, checked: its fields are those of docs/vkprof.md.

    Args:
        path: The file. It may come from anywhere: nothing in it is executed.

    Returns:
        The document; times in seconds, sizes in bytes.

    Raises:
        vknn.VknnError: The file is cut off, damaged, no profile, or of a newer version.
        OSError: There is no such file.
    """
    name = os.fspath(path)
    if is_endless(path):
        raise VknnError(f"{name}: this is no plain file")
    with open(path, "rb") as file:
        text = _decompressed(file, name)
    try:
        document = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise VknnError(f"{name}: no profile: damaged JSON ({str(error)[:200]})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise VknnError(f"{name}: no profile: its JSON is not of the format {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise VknnError(f"{name}: version has to be a number from 1 on")
    if version > VERSION:
        raise VknnError(
            f"{name}: written by a newer vknn: version {version} of the format, this vknn reads up "
            f"to {VERSION}: upgrade it (pip install -U vknn)"
        )
    try:
        check(document)
    except Wrong as error:
        raise VknnError(f"{name}: damaged profile: {error}") from None
    return document


def _decompressed(file: IO[bytes], name: str) -> bytes:
    """The text, at most MAX_BYTES, however much the file claims to hold."""
    if file.read(2) != b"\x1f\x8b":
        raise VknnError(f"{name}: no profile: it is not compressed with gzip")
    file.seek(0)
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            while part := unpacked.read(_CHUNK):
                size += len(part)
                if size > MAX_BYTES:
                    raise VknnError(f"{name}: it holds more than {MAX_BYTES >> 20} MiB of text")
                parts.append(part)
    except EOFError:
        raise VknnError(f"{name}: the profile is cut off: copy the file again") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise VknnError(f"{name}: the profile is damaged ({error})") from None
    return b"".join(parts)


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
