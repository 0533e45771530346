"""Bilinear resizing of quantized integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import places
from vknn.ops.common.checks import arguments, require

#: Bits of a weight.
WEIGHT_BITS = 10
_ONE = 1 << WEIGHT_BITS


@attributes
class QuantizedResize(Op):
    """Bilinear interpolation of x [N, C, h, w], integers of at most 16 bits.

    Places and weights have 10 fractional bits. With the step of an axis
    s = (1024 in + out / 2) / out (integer division; "align_corners" and out > 1: in - 1 and
    out - 1), output i is at i s, with "half_pixel" at i s + s / 2 - 512. The sum of four products,
    with 20 fractional bits, is rounded half away from zero. ``floating``: places, weights and sums
    are float32 instead, and the sum is rounded, halves up. Formulas: the kernels of TensorFlow
    Lite.
    """

    sizes: tuple[int, int]
    coordinates: str = "half_pixel"
    floating: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        small = x.dtype in (DType.INT8, DType.UINT8, DType.INT16)
        require(small, f"QuantizedResize: takes integers of at most 16 bits, not {x}")
        known = self.coordinates in ("half_pixel", "align_corners", "asymmetric")
        require(known, f"QuantizedResize: no coordinates {self.coordinates!r}")
        require(x.rank == 4 and len(self.sizes) == 2, f"QuantizedResize: {x} is no image")
        require(min(self.sizes) >= 1, f"QuantizedResize: sizes {self.sizes} below 1")
        require(0 not in x.shape[2:], f"QuantizedResize: {x} has an empty spatial axis")
        return (x.with_shape((*x.shape[:2], *self.sizes)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        y = np.empty((*x.shape[:2], *self.sizes), x.dtype)
        down, across = self.taps(0, x.shape[2]), self.taps(1, x.shape[3])
        for part in places(y.shape, 64):
            vertical = [tap[part[2]] for tap in down]
            y[part] = self._rows(x[part[:2]], vertical, [tap[part[3]] for tap in across])
        return (y,)

    def _rows(self, x: np.ndarray, vertical: Any, horizontal: Any) -> np.ndarray:
        """Rows of the result, by their taps; not yet in x's dtype."""
        (top, bottom, down), (left, right, across) = vertical, horizontal
        corners = [x.take(row, 2).take(column, 3) for column in (left, right)
                   for row in (top, bottom)]  # fmt: skip
        down = down.reshape(-1, 1)
        if not self.floating:
            a, b, c, d = (corner.astype(np.int64) for corner in corners)
            a, b = a * (_ONE - down) + b * down, c * (_ONE - down) + d * down
            y = a * (_ONE - across) + b * across
            rounded = (np.abs(y) + (1 << 2 * WEIGHT_BITS - 1)) >> (2 * WEIGHT_BITS)
            return np.asarray(np.sign(y) * rounded)
        up, back = 1 - down, 1 - across
        a, b, c, d = (corner.astype(np.float32) for corner in corners)
        total = a * up * back + b * down * back + c * up * across + d * down * across
        down = np.floor(total)
        whole = down + (total - down >= 0.5)
        return np.asarray(np.clip(whole, *self._range(x)))

    def taps(self, axis: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both neighbours of every output along a spatial axis, and the weight of the second one.

        Before the first and behind the last element both neighbours are the same.
        """
        out, index = self.sizes[axis], np.arange(self.sizes[axis], dtype=np.int64)
        last = int(self.coordinates == "align_corners" and out > 1)
        if self.floating:
            return self._float_taps(index, size, np.float32(size - last) / np.float32(out - last))
        step = (_ONE * (size - last) + (out - last) // 2) // (out - last)
        place = index * step
        if self.coordinates == "half_pixel":
            place = place + step // 2 - _ONE // 2
        first = np.clip(place // _ONE, 0, size - 1)
        second = np.clip(-(-place // _ONE), 0, size - 1)
        return first, second, np.where(first == second, 0, place - _ONE * first)

    def _float_taps(
        self, index: np.ndarray, size: int, step: np.float32
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        half = np.float32(0.5 if self.coordinates == "half_pixel" else 0.0)
        place = (index.astype(np.float32) + half) * step - half
        first = np.clip(np.floor(place), 0, size - 1)
        second = np.clip(np.ceil(place), 0, size - 1)
        return first.astype(np.int64), second.astype(np.int64), place - first

    @staticmethod
    def _range(x: np.ndarray) -> tuple[int, int]:
        info = np.iinfo(x.dtype)
        return info.min, info.max
