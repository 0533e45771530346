"""Random numbers of generators that go on, as TensorFlow Lite's and StableHLO's do.

A generator is a row of groups of four random words, by Philox4x32-10 (:mod:`vknn.ops.random`):
group n of the row with the key k and the stream s has the counter (n low, n high, s low, s high).
Ops here take the number of the first group, its position, and give the position behind the groups
that they took, so that the next op goes on from there. Positions are int32 (2,): the low and the
high word of 64 bits.
"""

from __future__ import annotations

import math

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require, require_dtype
from vknn.ops.random import key_of, philox

POSITION_TYPE = TensorType((2,), DType.INT32)
_ALL = (1 << 64) - 1
_WORD = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


def number_of(position: np.ndarray) -> int:
    """The number that a position stands for."""
    low, high = (int(word) & 0xFFFFFFFF for word in position)
    return low | high << 32


def position_of(number: int) -> np.ndarray:
    """A number, of which 64 bits count, as a position."""
    return np.array(key_of(number), np.uint32).view(np.int32)


def group_words(first: int, count: int, key: int, stream: int) -> np.ndarray:
    """The words of ``count`` groups from number ``first`` on: uint32 [count, 4]."""
    numbers = np.uint64(first & _ALL) + np.arange(count, dtype=np.uint64)
    counters = np.empty((count, 4), np.uint32)
    counters[:, 0], counters[:, 1] = numbers & _WORD, numbers >> _HIGH
    counters[:, 2:] = key_of(stream)
    return philox(counters, key_of(key))


def unit_floats(found: np.ndarray) -> np.ndarray:
    """Words as float32 from 0 to below 1: their low 23 bits are the mantissa of a number from 1."""
    bits = (found & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)
    return bits.view(np.float32) - np.float32(1)


@attributes
class _Generated(Op):
    """Base of ops that give ``shape`` numbers of a generator, and its new position."""

    shape: tuple[int, ...]
    key: int = 0
    stream: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (position,) = arguments(self, inputs, 1)
        _check_position(self, position)
        require(min(self.shape, default=0) >= 0, f"{self.type_name}: {self.shape} is no shape")
        return TensorType(self.shape), POSITION_TYPE

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (position,) = arguments(self, inputs, 1)
        first, result = number_of(position), np.empty(math.prod(self.shape), np.float32)
        groups = -(-len(result) // 4)
        for part in blocks(groups, 512):
            found = group_words(first + part.start, part.stop - part.start, self.key, self.stream)
            kept = result[4 * part.start : 4 * part.stop]
            kept[:] = self._numbers(found).reshape(-1)[: len(kept)]
        return result.reshape(self.shape), position_of(first + groups)

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        """The numbers that groups of words make."""
        raise NotImplementedError


def _check_position(op: Op, position: TensorType) -> None:
    require(position == POSITION_TYPE, f"{op.type_name}: the position is {position}")


@attributes
class GeneratorUniform(_Generated):
    """Numbers from 0 to below 1 in steps of 2^-23, four of each group of a generator.

    Input position, int32 (2,); gives float32 ``shape`` and the position behind them.
    """

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        return unit_floats(found)


@attributes
class GeneratorNormal(_Generated):
    """Normally distributed numbers, four of each group of a generator (Box and Muller, 1958).

    sqrt(-2 ln u) times sin and cos of 2 pi v, for words that make u (at least 1e-7) and v. Input
    position, int32 (2,); gives float32 ``shape`` and the position behind them.
    """

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        pairs = unit_floats(found).astype(np.float64).reshape(-1, 2)
        radius = np.sqrt(-2.0 * np.log(np.maximum(pairs[:, 0], 1e-7)))
        angle = 2.0 * np.pi * pairs[:, 1]
        return radius[:, None] * np.stack((np.sin(angle), np.cos(angle)), axis=1)


@attributes
class GeneratorCategorical(Op):
    """``samples`` classes drawn for each row by the logarithms of their probabilities, int32.

    Inputs logits float32 [rows, classes], those that are not finite for classes that are never
    drawn, and position; gives [rows, samples] and the new position, 512 groups further for each
    row's samples, rounded up to fours. A class is the first up to which the probabilities, added up
    in float64, exceed a random part of their sum; where no logit is finite it is ``classes``.
    """

    samples: int
    key: int = 0
    stream: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        logits, position = arguments(self, inputs, 2)
        require_dtype(self, DType.FLOAT32, logits)
        _check_position(self, position)
        good = logits.rank == 2 and logits.shape[-1] != 0 and self.samples >= 0
        require(good, f"GeneratorCategorical: {self.samples} samples of {logits}")
        return TensorType((logits.shape[0], self.samples), DType.INT32), POSITION_TYPE

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        logits, position = arguments(self, inputs, 2)
        rows, first = len(logits), number_of(position)
        chosen = np.zeros(rows * self.samples, np.int32)
        for part in blocks(rows * self.samples, 512):
            fractions = self._fractions(first, part.start, part.stop - part.start)
            for row in range(part.start // self.samples, -(-part.stop // self.samples)):
                begin = max(row * self.samples, part.start)
                end = min((row + 1) * self.samples, part.stop)
                sums = _summed(logits[row])
                wanted = fractions[begin - part.start : end - part.start] * sums[-1]
                chosen[begin:end] = np.searchsorted(sums, wanted, "right")
        groups = rows * -(-self.samples // 4) * 4 * 512
        return chosen.reshape(rows, self.samples), position_of(first + groups)

    def _fractions(self, first: int, draw: int, count: int) -> np.ndarray:
        """Numbers from 0 to below 1 of ``count`` draws from ``draw`` on, float64.

        A draw takes two words: 20 bits of one and 32 of the next are the mantissa of 52 bits.
        """
        begin, odd = draw // 2, draw % 2
        found = group_words(first + begin, (odd + count + 1) // 2, self.key, self.stream)
        pairs = found.reshape(-1, 2)[odd : odd + count].astype(np.uint64)
        mantissa = (pairs[:, 0] & np.uint64(0xFFFFF)) << _HIGH | pairs[:, 1]
        return np.asarray(mantissa.astype(np.float64) * 2.0**-52)


def _summed(logits: np.ndarray) -> np.ndarray:
    """Probabilities of a row, not normalised, added up one by one; float64."""
    wide, finite = logits.astype(np.float64), np.isfinite(logits)
    largest = wide[finite].max() if finite.any() else 0.0
    return np.add.accumulate(np.where(finite, np.exp(wide - largest), 0.0))
