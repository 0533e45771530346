"""Arrays of .npy and .npz files, whose rows are read as they are needed."""

from __future__ import annotations

import contextlib
import io
import math
import zipfile
from collections.abc import Collection, Iterator
from typing import IO, Any

import numpy as np

from vknn.errors import VknnError
from vknn.npy_header import read_checked_header
from vknn.scale.sources import DATA, RecordSource, opened

#: Ending of an array's file, in an archive as well.
NPY = ".npy"
#: Bytes that are read together where nothing is kept of them.
_STEP = 1 << 18
#: Bytes of an archive that is read as a whole.
_SMALL = 1 << 16


class RowStream:
    """Rows of an array in a file that is read from its beginning to its end.

    Args:
        file: The file, at its beginning; it can be sought forwards.
        size: Its bytes.

    Attributes:
        shape: Of the array; its first axis counts rows.
        dtype: Of its elements.

    Raises ValueError and others for what is no array, is cut off or holds objects.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.shape, self._is_fortran, self.dtype = read_checked_header(file, size)
        self._begin = file.tell()
        self._row = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._whole: np.ndarray | None = None

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Some rows, none of which lies before those of an earlier call."""
        begin, end, _ = rows.indices(self.shape[0])
        if self._is_fortran:  # a row lies all over the file
            if self._whole is None:
                flat = np.frombuffer(self._read(self._begin, self._row * self.shape[0]), self.dtype)
                self._whole = flat.reshape(self.shape, order="F")
            return self._whole[begin:end]
        data = self._read(self._begin + begin * self._row, (end - begin) * self._row)
        return np.frombuffer(data, self.dtype).reshape((end - begin, *self.shape[1:]))

    def _read(self, begin: int, size: int) -> bytes:
        if self._file.tell() != begin:
            self._file.seek(begin)
        data = self._file.read(size)
        if len(data) < size:
            raise ValueError(f"it is cut off: {len(data)} of {size} bytes of some rows")
        return data


@contextlib.contextmanager
def arrays_of(source: RecordSource, path: str, wanted: Collection[str]) -> Iterator[dict[str, Any]]:
    """Block with the arrays of a file by name, each with a shape and rows by slices, forwards.

    Of a .npz those that are ``wanted`` are read once before, as only their ends tell whether they
    are what was written. A .npy of this machine is mapped. Raises VknnError where it is damaged.
    """
    with contextlib.ExitStack() as stack, _errors(path):
        if _is_npy(path) and source.is_local:
            yield {DATA: np.load(source.place(path), mmap_mode="r", allow_pickle=False)}
        else:
            yield _streams(stack.enter_context(opened(source, path)), path, wanted, stack)


def heads_of(source: RecordSource, path: str) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and element type of the arrays of a file by name, as their headers tell.

    Raises VknnError.
    """
    with contextlib.ExitStack() as stack, _errors(path):
        found = _streams(stack.enter_context(opened(source, path)), path, (), stack)
        return {name: (array.shape, array.dtype) for name, array in found.items()}


def _streams(
    file: Any, path: str, wanted: Collection[str], stack: contextlib.ExitStack
) -> dict[str, RowStream]:
    """The arrays of an open file; of a .npz those that are wanted are read once."""
    size = file.size()
    if _is_npy(path):
        return {DATA: RowStream(file, size)}
    # Of one that has hardly a byte zipfile seeks a place before its beginning.
    given = io.BytesIO(file.read()) if size < _SMALL else file
    archive = stack.enter_context(zipfile.ZipFile(given))
    members = {info.filename.removesuffix(NPY): info for info in archive.infolist()}
    for name in wanted:
        if name in members:
            _check(archive, members[name])
    return {
        name: RowStream(stack.enter_context(archive.open(info)), info.file_size)
        for name, info in members.items()
    }


def _check(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Check that a file in an archive has the bytes that the archive says it has."""
    size = 0
    with archive.open(info) as member:
        while data := member.read(_STEP):
            size += len(data)
    if size != info.file_size:
        raise ValueError(f"{info.filename} in it has {size} of {info.file_size} bytes")


def _is_npy(path: str) -> bool:
    return path.lower().endswith(NPY)


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    """Block whose errors are VknnErrors that name a file: readers of damaged ones raise any."""
    try:
        yield
    except VknnError:
        raise
    except Exception as error:
        raise VknnError(f"{path} is no NumPy file: {error}") from None
