"""Arrays of NumPy's files, which anybody may have made: sizes are checked, nothing unpickled."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from vknn.npy_header import read_checked_header
from vknn.pictures import UnreadableFileError, refuse_endless

#: Bytes of all arrays of a file at most.
MOST_BYTES = 1 << 34
#: Arrays of a file at most.
MOST_ARRAYS = 1 << 16
#: What NumPy's readers of damaged files raise, and zipfile's.
NPY_ERRORS = (
    ValueError, KeyError, EOFError, OSError, NotImplementedError, RuntimeError, SyntaxError,
    zipfile.BadZipFile, zipfile.LargeZipFile,
)  # fmt: skip
_NPY = ".npy"


def load_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of a .npy file, which stays in the file until it is read.

    Raises UnreadableFileError for a file that is no such or is cut off, and for arrays of objects.
    """
    place = checked_file(path)
    try:
        return np.load(place, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except NPY_ERRORS as error:
        raise UnreadableFileError(f"{place} is no .npy file: {error}") from None


def load_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of a .npz file by name, their sizes checked before memory is taken.

    Raises UnreadableFileError as :func:`load_npy`, and for files with more arrays or bytes than
    are read.
    """
    place = checked_file(path)
    try:
        with zipfile.ZipFile(place) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(_NPY)]
            if len(members) > MOST_ARRAYS:
                raise ValueError(f"it has {len(members)} arrays; at most {MOST_ARRAYS} are read")
            if sum(m.file_size for m in members) > MOST_BYTES:
                raise ValueError(f"its arrays have more than {MOST_BYTES} bytes")
            return dict(_members(archive, members))
    except NPY_ERRORS as error:
        raise UnreadableFileError(f"{place} is no .npz file that can be read: {error}") from None


def npy_array(data: bytes, name: str) -> np.ndarray:
    """The array of a .npy file's contents, its size checked before memory is taken.

    Raises ValueError and others of ``NPY_ERRORS`` for what is none, is cut off or holds objects.
    """
    _check_size(io.BytesIO(data), len(data), name)
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def checked_file(path: str | os.PathLike[str]) -> Path:
    """The path, of a file that is there and has an end."""
    place = Path(path)
    refuse_endless(place)
    if not place.exists():
        raise UnreadableFileError(f"{place}: no such file")
    return place


def _members(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[tuple[str, np.ndarray]]:
    for member in members:
        name = member.filename.removesuffix(_NPY)
        with archive.open(member) as file:
            _check_size(file, member.file_size, name)
        with archive.open(member) as file:
            yield name, np.lib.format.read_array(file, allow_pickle=False)


def _check_size(file: IO[bytes], there: int, name: str) -> None:
    """Check that an array's header asks for what its member has. Raises ValueError."""
    try:
        read_checked_header(file, there)
    except ValueError as error:
        raise ValueError(f"array {name!r}: {error}") from error
