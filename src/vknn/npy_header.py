"""Headers of .npy files: what an array is, before memory is taken for it.

NumPy Enhancement Proposal 1 "A Simple File Format for NumPy Arrays".
"""

from __future__ import annotations

import math
from typing import IO

import numpy as np

#: Bytes of a header at most.
MAX_HEADER = 10_000


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the order is Fortran's, and dtype of a .npy file, read from its beginning.

    Raises ValueError, TypeError, EOFError or SyntaxError for what is none.
    """
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"a .npy file of version {version[0]}.{version[1]} is not known")
    shape, fortran, dtype = readers[version](file, max_header_size=MAX_HEADER)
    return shape, fortran, dtype


def read_checked_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """:func:`read_header` of a file of ``size`` bytes, whose array is there and may be read.

    Raises what that does, and ValueError for what is cut off or holds objects.
    """
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds objects, which are never unpickled")
    needed, left = math.prod(shape) * dtype.itemsize, size - file.tell()
    if left < needed:
        raise ValueError(f"it is cut off: {left} of {needed} bytes for {dtype}{list(shape)}")
    return shape, fortran, dtype
