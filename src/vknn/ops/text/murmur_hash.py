"""MurmurHash3 of numbers and of text, which lives on the host."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require

_M1, _M2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


@attributes
class MurmurHash3(Op):
    """MurmurHash3 (x86, 32 bits) of the bytes of each element of x, in UTF-8 of each string.

    uint32, or not ``positive`` int32. Formula: Austin Appleby's MurmurHash3_x86_32.
    """

    seed: int = 0
    positive: bool = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(0 <= self.seed < 1 << 32, f"MurmurHash3: seed {self.seed}")
        known = x.dtype is DType.STRING or x.dtype.itemsize % 4 == 0
        require(known, f"MurmurHash3: {x} has elements of another size than 4 or 8 bytes")
        return (x.with_dtype(DType.UINT32 if self.positive else DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        kind = np.uint32 if self.positive else np.int32
        if x.dtype == object:
            hashes = [self._of_bytes(_encoded(text)) for text in x.reshape(-1)]
            return (np.asarray(hashes, np.uint32).reshape(x.shape).view(kind),)
        words = np.ascontiguousarray(x).reshape(x.size, 1).view(np.uint32)
        with np.errstate(over="ignore"):
            state = self._mixed(words.astype(np.uint32))
            found = _final(state ^ np.uint32(x.dtype.itemsize))
        return (found.reshape(x.shape).view(kind),)

    def _mixed(self, words: np.ndarray) -> np.ndarray:
        """The state of each row of words."""
        state = np.full(len(words), self.seed, np.uint32)
        for column in words.T:
            state = _rotated(state ^ _scrambled(column), 13) * np.uint32(5) + np.uint32(0xE6546B64)
        return state

    def _of_bytes(self, data: bytes) -> int:
        whole = len(data) // 4 * 4
        with np.errstate(over="ignore"):
            words = np.frombuffer(data[:whole], "<u4").reshape(1, whole // 4)
            state = self._mixed(words.astype(np.uint32))
            rest = int.from_bytes(data[whole:], "little")
            if rest:
                state = state ^ _scrambled(np.asarray([rest], np.uint32))
            return int(_final(state ^ np.uint32(len(data)))[0])


def _encoded(text: object) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def _scrambled(words: np.ndarray) -> np.ndarray:
    return _rotated(words * _M1, 15) * _M2


def _rotated(words: np.ndarray, by: int) -> np.ndarray:
    return np.asarray((words << np.uint32(by)) | (words >> np.uint32(32 - by)))


def _final(state: np.ndarray) -> np.ndarray:
    """The last mixing of a state."""
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.asarray(state ^ (state >> np.uint32(16)))
