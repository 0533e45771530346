"""String tensors: a count, count + 1 offsets from the start of the buffer, then the bytes.

All numbers are little-endian int32 (the layout is that of TensorFlow Lite's string_util.h).
"""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.tflite.verifier import Damaged


def unpack_strings(raw: memoryview, shape: tuple[int, ...], what: str, position: int) -> np.ndarray:
    """Object array of bytes from a string tensor's buffer. Raises Damaged at ``position``."""
    count = int(np.frombuffer(raw[:4], "<i4")[0]) if len(raw) >= 4 else -1
    if count < 0 or 4 * (count + 2) > len(raw):
        raise Damaged(f"{what} holds {count} strings in {len(raw)} bytes", position)
    if count != math.prod(shape):
        raise Damaged(f"{what}, {list(shape)}, holds {count} strings", position)
    offsets = np.frombuffer(raw[4 : 4 * (count + 2)], "<i4").astype(np.int64)
    if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > len(raw):
        raise Damaged(f"{what} has strings that lie outside its buffer", position)
    result = np.empty(count, object)
    for index in range(count):
        result[index] = bytes(raw[offsets[index] : offsets[index + 1]])
    return result.reshape(shape)
