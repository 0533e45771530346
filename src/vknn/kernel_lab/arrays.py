"""Arrays of a lab's folder: written as .npy, read with every size checked before it is taken."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import numpy as np

from vknn import bfloat16
from vknn.errors import VknnError
from vknn.named_files import named
from vknn.npy_header import read_checked_header

_NUMPY = {"bfloat16": "uint16", "bool": "bool"}


def storage(dtype: str) -> np.dtype:
    """The NumPy dtype in which elements lie in files and buffers."""
    return np.dtype(_NUMPY.get(dtype, dtype))


def floats(array: np.ndarray, dtype: str) -> np.ndarray:
    """Elements as numbers: bfloat16 as float32, others as they are."""
    return bfloat16.floats_of(array) if dtype == "bfloat16" else array


def write_array(path: Path, array: np.ndarray) -> None:
    """Writing of a .npy file, in folders that are made where they are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with named(path):
        np.save(path, array, allow_pickle=False)


def regular_file(folder: Path, name: str) -> Path:
    """The path of a file below a folder; raises VknnError where it is no plain file, or a link on
    the way leads elsewhere."""
    path = folder
    for part in name.split("/"):
        path = path / part
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError) as error:
            raise VknnError(f"{path}: {getattr(error, 'strerror', error)}") from None
        if stat.S_ISLNK(mode):
            raise VknnError(f"{path}: a link; a kernel lab has none")
    if not stat.S_ISREG(mode):
        raise VknnError(f"{path}: this is no plain file")
    return path


def read_array(folder: Path, name: str, dtype: np.dtype, count: int) -> np.ndarray:
    """The ``count`` elements of a file below a folder, flat; nothing in it is unpickled.

    Raises VknnError for another dtype or number of elements, before memory is taken for them.
    """
    path = regular_file(folder, name)
    try:
        with open(path, "rb") as file:
            shape, fortran, found = read_checked_header(file, os.fstat(file.fileno()).st_size)
            if found != dtype or fortran or math.prod(shape) != count:
                raise ValueError(
                    f"it holds {found}{list(shape)}, where {count} elements of {dtype} are expected"
                )
            return np.fromfile(file, dtype, count)
    except (ValueError, TypeError, EOFError, SyntaxError) as error:
        raise VknnError(f"{path}: {error}") from error
