"""Random numbers, each a function of a seed, of the number of the draw, and of its own place.

Words of 32 random bits come from Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011), with the seed as key. Element e takes word e % 4 of the
block with the counter (e // 4, draw, 0, 0), so that it is known without the elements before it and
every backend has the same.
"""

from __future__ import annotations

import math

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require, require_dtype, require_float

_ROUNDS = 10
_FACTORS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
#: Increments of the two halves of the key from round to round.
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
#: Bits of a word that make a number from 0 to 1: as many as float32 holds.
BITS = 24


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Four random words for each counter: uint32 [n, 4] -> uint32 [n, 4]."""
    a, b, c, d = (counters[:, i].astype(np.uint64) for i in range(4))
    low, shift = np.uint64(_WORD), np.uint64(32)
    for number in range(_ROUNDS):
        first, second = (
            np.uint64((k + number * s) & _WORD) for k, s in zip(key, KEY_STEPS, strict=True)
        )
        left, right = a * _FACTORS[0], c * _FACTORS[1]
        a, b, c, d = (
            (right >> shift) ^ b ^ first,
            right & low,
            (left >> shift) ^ d ^ second,
            left & low,
        )
    return np.stack((a, b, c, d), axis=1).astype(np.uint32)


def key_of(seed: int) -> tuple[int, int]:
    """The low and the high word of a seed of 64 bits."""
    return seed & _WORD, (seed >> 32) & _WORD


def words(count: int, seed: int, draw: np.ndarray, first: int = 0) -> np.ndarray:
    """Random words of so many elements, from the block ``first`` on: uint32 [ceil(count / 4), 4].

    ``draw``: int32 (1,).
    """
    counters = np.zeros((-(-count // 4), 4), np.uint32)
    counters[:, 0] = np.arange(first, first + len(counters), dtype=np.uint32)
    counters[:, 1] = draw.astype(np.uint32)
    return philox(counters, key_of(seed))


@attributes
class _Draw(Op):
    """Base of random ops: ``shape`` numbers of ``seed``; the input int32 (1,) numbers the draw."""

    shape: tuple[int, ...]
    seed: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (draw,) = arguments(self, inputs, 1)
        _check_draw(self, draw)
        require(min(self.shape, default=0) >= 0, f"{self.type_name}: {self.shape} is no shape")
        return (TensorType(self.shape),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (draw,) = arguments(self, inputs, 1)
        result = np.empty(math.prod(self.shape), np.float32)
        for part in blocks(-(-len(result) // 4), 512):
            kept = result[4 * part.start : 4 * part.stop]
            found = words(len(kept), self.seed, draw, part.start)
            kept[:] = self._numbers(found).reshape(-1)[: len(kept)]
        return (result.reshape(self.shape),)

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        """The number that each random word makes; of some ops two make two."""
        raise NotImplementedError


def _check_draw(op: Op, draw: TensorType) -> None:
    require_dtype(op, DType.INT32, draw)
    require(draw.shape == (1,), f"{op.type_name}: the number of the draw is {draw}")


def fractions(found: np.ndarray) -> np.ndarray:
    """Words as float32 numbers of 24 bits, from 0 to less than 1."""
    return (found >> np.uint32(32 - BITS)).astype(np.float32) * np.float32(2.0**-BITS)


@attributes
class RandomUniform(_Draw):
    """Numbers from ``low`` to less than ``high``, all as likely; in steps of 2^-24 of the range."""

    low: float = 0.0
    high: float = 1.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        good = math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high
        require(good, f"RandomUniform: from {self.low} to {self.high}")
        return super().infer(*inputs)

    def largest(self) -> float:
        """The largest number: the float32 below ``high``, which rounding must not reach."""
        low, high = np.float32(self.low), np.float32(self.high)
        return float(np.nextafter(high, low))

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        low, high = np.float32(self.low), np.float32(self.high)
        numbers = fractions(found) * (high - low) + low
        return np.minimum(numbers, np.float32(self.largest()))


@attributes
class RandomNormal(_Draw):
    """Normally distributed numbers, two from two words (Box and Muller, 1958).

    sqrt(-2 ln u) times cos and sin of 2 pi v, u from above 0 to 1 and v from 0 to below 1; times
    ``deviation``, plus ``mean``.
    """

    mean: float = 0.0
    deviation: float = 1.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        good = math.isfinite(self.mean) and 0 <= self.deviation < math.inf
        require(good, f"RandomNormal: mean {self.mean}, deviation {self.deviation}")
        return super().infer(*inputs)

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        numbers = fractions(found).astype(np.float64).reshape(-1, 2)
        radius = np.sqrt(-2.0 * np.log(numbers[:, 0] + 2.0**-BITS))
        angle = 2.0 * np.pi * numbers[:, 1]
        pairs = radius[:, None] * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        return pairs * self.deviation + self.mean


@attributes
class RandomBernoulli(_Draw):
    """1 with probability ``probability``, else 0."""

    probability: float = 0.5

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        good = 0 <= self.probability <= 1
        require(good, f"RandomBernoulli: a probability of {self.probability}")
        return super().infer(*inputs)

    def below(self) -> int:
        """Count of the 2^24 numbers that give 1."""
        return math.ceil(self.probability * 2**BITS)

    def _numbers(self, found: np.ndarray) -> np.ndarray:
        return (found >> np.uint32(32 - BITS)) < self.below()


@attributes
class RandomCategorical(Op):
    """``samples`` classes drawn for each row of weights, int32 [..., samples].

    Inputs weights [..., n], finite, none below 0 (they need not add up to 1), and the number of the
    draw, int32 (1,). A sample is the first class up to which the weights, added up one by one
    in float32, exceed a random part of their sum.
    """

    samples: int
    seed: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        weights, draw = arguments(self, inputs, 2)
        require_float(self, weights)
        _check_draw(self, draw)
        good = weights.rank > 0 and weights.shape[-1] != 0 and self.samples >= 0
        require(good, f"RandomCategorical: {self.samples} samples of {weights}")
        return (TensorType((*weights.shape[:-1], self.samples), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        weights, draw = arguments(self, inputs, 2)
        *lead, classes = weights.shape
        rows = weights.reshape(math.prod(lead), classes).astype(np.float32)
        sums = np.add.accumulate(rows, axis=1, dtype=np.float32)
        chosen = np.zeros(len(rows) * self.samples, np.int32)
        for part in blocks(len(chosen), 64):
            before = part.start % 4  # words of the first block that belong to the part before
            found = words(part.stop - part.start + before, self.seed, draw, part.start // 4)
            parts = fractions(found).reshape(-1)[before:]
            for row in range(part.start // self.samples, -(-part.stop // self.samples)):
                begin = max(row * self.samples, part.start)
                end = min((row + 1) * self.samples, part.stop)
                drawn = parts[begin - part.start : end - part.start] * sums[row, -1]
                place = np.searchsorted(sums[row], drawn, "right")
                chosen[begin:end] = np.minimum(place, classes - 1)
        return (chosen.reshape(*lead, self.samples),)
