"""Rows rounded to the steps of 8-bit integers, whose size each row has for itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.checks import arguments, normal_axis, require, require_float

#: How rows are rounded; DynamicRound says what they mean.
ROUNDINGS = ("none", "symmetric", "asymmetric")


@attributes
class DynamicRound(Op):
    """Rows rounded to as many steps as 8 bits have; still floats.

    A row is all that lies along the axes from ``axis`` on, by default along the last.

    ``rounding``: "symmetric": whole multiples of the row's largest magnitude / 127; "asymmetric":
    of (max - min) / 255, where the row's range is widened to hold 0 and shifted so that a whole
    number stands for 0. Halves go away from zero, the arithmetic is that of float32. What a product
    with 8-bit weights sees of its input whose type is float (TensorFlow Lite's
    SymmetricQuantizeFloats and AsymmetricQuantizeFloats). ``counts``: how many steps, instead.
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
        normal_axis(self, self.axis, x.rank)
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        lead = x.shape[: self.axis % x.ndim]
        rows = x.reshape(*lead, math.prod(x.shape[len(lead) :]))
        return (rounded(rows, self.rounding, self.counts).astype(x.dtype).reshape(x.shape),)


def rounded(rows: Any, rounding: str, counts: bool = False) -> Any:
    """``rows`` rounded along the last axis, as float64; themselves where ``rounding`` is "none".

    ``counts``: the whole numbers of steps.
    """
    if rounding == "none":
        return rows
    rows = rows.astype(np.float32)
    with np.errstate(all="ignore"):
        whole, size = _symmetric(rows) if rounding == "symmetric" else _asymmetric(rows)
        return whole if counts else whole * size


def _symmetric(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0)
    whole = _away(rows * (np.float32(127) / largest))
    whole = np.clip(np.where(largest > 0, whole, 0), -127, 127)
    return whole, largest.astype(np.float64) / 127


def _asymmetric(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low = rows.min(axis=-1, keepdims=True, initial=0)
    high = rows.max(axis=-1, keepdims=True, initial=0)
    step = (high - low).astype(np.float64) / 255
    from_low, from_high = -128 - low / step, 127 - high / step
    nearer = 128 + np.abs(low / step) < 127 + np.abs(high / step)
    zero = _away(np.clip(np.where(nearer, from_low, from_high), -128, 127))
    size = step.astype(np.float32)
    whole = np.clip(_away(rows * (np.float32(1) / size)) + zero, -128, 127) - zero
    there = high > low
    return np.where(there, whole, 0.0), np.where(there, size.astype(np.float64), 0.0)


def _away(x: np.ndarray) -> np.ndarray:
    """The nearest whole number, halves away from zero, as float64."""
    wide = x.astype(np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(wide) + 0.5), wide))
