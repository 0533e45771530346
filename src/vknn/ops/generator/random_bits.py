"""Random bits of StableHLO's generators, which are functions of a state that is handed on.

A generator counts blocks: Philox4x32-10 makes four words of each, Threefry2x32-20 two (both of
Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require, require_dtype
from vknn.ops.generator.numbers import group_words

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_ROUNDS_OF_FOUR = 5
_PARITY = np.uint32(0x1BD11BDA)
_DTYPES = (DType.INT32, DType.UINT32, DType.INT64, DType.UINT64)


def threefry(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Two random words for each counter: uint32 [n, 2] -> uint32 [n, 2]."""
    words = [np.uint32(word) for word in key]
    words.append(words[0] ^ words[1] ^ _PARITY)
    a, b = counters[:, 0] + words[0], counters[:, 1] + words[1]
    for number in range(_ROUNDS_OF_FOUR):
        for places in _ROTATIONS[number % 2]:
            a = a + b
            b = (b << np.uint32(places) | b >> np.uint32(32 - places)) ^ a
        a = a + words[(number + 1) % 3]
        b = b + words[(number + 2) % 3] + np.uint32(number + 1)
    return np.stack((a, b), axis=1)


def _threefry_words(first: int, count: int, key: int, stream: int) -> np.ndarray:
    """The words of ``count`` blocks from number ``first`` on: uint32 [count, 2]."""
    numbers = np.uint64(first) + np.arange(count, dtype=np.uint64)
    counters = numbers.astype("<u8").view("<u4").reshape(-1, 2).astype(np.uint32)
    return threefry(counters, (key & 0xFFFFFFFF, key >> 32))


#: Algorithm -> words of blocks (first, count, key, stream), words of a block, lengths of the state.
_ALGORITHMS: dict[str, tuple[Callable[[int, int, int, int], np.ndarray], int, tuple[int, ...]]] = {
    "philox": (group_words, 4, (2, 3)),
    "threefry": (_threefry_words, 2, (2,)),
}


@attributes
class RandomBits(Op):
    """Integers of ``shape`` and ``dtype`` in which all bits are random; the new state comes first.

    Input state, uint64: a key, the number of the next block, and, for Philox alone, what all its
    counters have as upper half (without it: the key). ``algorithm``: "philox" or "threefry". A
    block of which not all words are taken is used up.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.UINT32
    algorithm: str = "philox"

    def __post_init__(self) -> None:
        if self.algorithm not in _ALGORITHMS:
            raise ShapeError(f"RandomBits: {self.algorithm!r} is not philox or threefry")

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (state,) = arguments(self, inputs, 1)
        require_dtype(self, DType.UINT64, state)
        lengths = _ALGORITHMS[self.algorithm][2]
        if state.rank != 1 or state.shape[0] not in (None, *lengths):
            wanted = " or ".join(str(n) for n in lengths)
            raise ShapeError(f"RandomBits: {self.algorithm} wants a state of {wanted}, not {state}")
        require(self.dtype in _DTYPES, f"RandomBits: makes no {self.dtype.value}")
        require(min(self.shape, default=0) >= 0, f"RandomBits: {self.shape} is no shape")
        return state, TensorType(self.shape, self.dtype)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (state,) = arguments(self, inputs, 1)
        make, each, _ = _ALGORITHMS[self.algorithm]
        key, first, stream = (int(n) for n in (*state, state[0])[:3])
        result = np.empty(math.prod(self.shape) * self.dtype.itemsize // 4, np.uint32)
        count = -(-len(result) // each)
        for part in blocks(count, 512):
            block = (first + part.start) % (1 << 64)
            found = make(block, part.stop - part.start, key, stream).reshape(-1)
            kept = result[each * part.start : each * part.stop]
            kept[:] = found[: len(kept)]
        after = state.copy()
        after[1] = (first + count) % (1 << 64)
        return after, _numbers(result, self.dtype).reshape(self.shape)


def _numbers(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Integers made of words, the low word of 64 bits first."""
    little = words.astype("<u4").view(dtype.numpy.newbyteorder("<"))
    return little.astype(dtype.numpy, copy=False)
