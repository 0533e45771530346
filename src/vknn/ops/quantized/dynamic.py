"""Dynamic quantization: rounding of rows to 8 bits, each with a scale of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import arguments, normal_axis, require, require_float

#: Kinds of rounding, defined by :class:`DynamicRound`.
ROUNDINGS = ("none", "symmetric", "asymmetric")


@attributes
class DynamicRound(Op):
    """Floats rounded to multiples of a step, of which each row has at most 256.

    A row is all elements along the axes from ``axis`` on, by default along the last.

    ``rounding``: "symmetric": the step is the row's largest magnitude / 127; "asymmetric": it is
    (max - min) / 255, where the row's range is widened to contain 0 and shifted so that an integer
    stands for 0. Halves are rounded away from zero, in float32 arithmetic. Products of float inputs
    with 8-bit weights round their input so (TensorFlow Lite's SymmetricQuantizeFloats and
    AsymmetricQuantizeFloats).

    A row whose step is below the smallest normal float32 counts as zeros.
    A NaN or an infinity makes NaN of its whole row: the step is NaN, the numbers of steps are 0.

    ``counts``: three outputs instead: the elements as numbers of steps; for each row (the axes from
    ``axis`` on have size 1) its step, 1 where the row is 0, and the integer that stands for 0.
    """

    rounding: str = "symmetric"
    axis: int = -1
    counts: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        require(x.rank > 0, "DynamicRound: a scalar has no rows")
        known = self.rounding in ROUNDINGS[1:]
        require(known, f"DynamicRound: no rounding {self.rounding!r}")
        axis = normal_axis(self, self.axis, x.rank)
        if not self.counts:
            return (x,)
        row = TensorType((*x.dims[:axis], *(1,) * (x.rank - axis)), x.dtype)
        return x, row, row

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        lead = x.shape[: self.axis % x.ndim]
        rows = x.reshape(*lead, math.prod(x.shape[len(lead) :]))
        if not self.counts:
            return (rounded(rows, self.rounding).astype(x.dtype).reshape(x.shape),)
        whole, *steps = _in_steps(rows, self.rounding)
        row = (*lead, *(1,) * (x.ndim - len(lead)))
        return (whole.reshape(x.shape).astype(x.dtype),
                *(number.reshape(row).astype(x.dtype) for number in steps))  # fmt: skip


def rounded(rows: Any, rounding: str) -> Any:
    """``rows`` rounded along the last axis, as float64; unchanged for the rounding "none"."""
    if rounding == "none":
        return rows
    whole, size, _ = _in_steps(rows, rounding)
    with np.errstate(all="ignore"):  # a range beyond float32: 0 steps of infinity
        return whole * size


#: The least step: what is below float32's normal numbers is 0 on devices, and has no reciprocal.
_SMALLEST = np.finfo(np.float32).tiny

#: Elements as numbers of steps; step and zero point of each row.
_Steps = tuple[np.ndarray, np.ndarray, np.ndarray]


def _in_steps(rows: Any, rounding: str) -> _Steps:
    with np.errstate(all="ignore"):
        known = np.isfinite(rows).all(axis=-1, keepdims=True)
        rows = np.where(known, rows, 0).astype(np.float32)
        whole, size, zero = (_symmetric if rounding == "symmetric" else _asymmetric)(rows)
        return whole, np.where(known, size, np.nan), zero


def _symmetric(rows: np.ndarray) -> _Steps:
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0)
    there = largest >= 127 * _SMALLEST
    whole = np.clip(_away(rows * (np.float32(127) / largest)), -127, 127)
    size = np.where(there, largest.astype(np.float64) / 127, 1.0)
    return np.where(there, whole, 0.0), size, np.zeros_like(size)


def _asymmetric(rows: np.ndarray) -> _Steps:
    low = rows.min(axis=-1, keepdims=True, initial=0)
    high = rows.max(axis=-1, keepdims=True, initial=0)
    step = (high - low).astype(np.float64) / 255
    from_low, from_high = -128 - low / step, 127 - high / step
    nearer = 128 + np.abs(low / step) < 127 + np.abs(high / step)
    zero = _away(np.clip(np.where(nearer, from_low, from_high), -128, 127))
    size = step.astype(np.float32)
    whole = np.clip(_away(rows * (np.float32(1) / size)) + zero, -128, 127) - zero
    there = high - low >= 255 * _SMALLEST
    size = np.where(there, size.astype(np.float64), 1.0)
    return np.where(there, whole, 0.0), size, np.where(there, zero, 0.0)


def _away(x: np.ndarray) -> np.ndarray:
    """The nearest integer, halves away from zero, as float64."""
    wide = x.astype(np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(wide) + 0.5), wide))
