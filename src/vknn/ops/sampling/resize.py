"""Resize of the spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require, require_float


@attributes
class Resize(Op):
    """x [N, C, spatial...] sampled to ``sizes``, one axis after the other.

    Place of output i in x, with the axis' ``step`` (by default in/out): "half_pixel"
    (i + 0.5) * step - 0.5, "asymmetric" i * step, "align_corners" i * (in - 1) / (out - 1)
    whatever the step. Coordinates are rounded to float32; beyond the ends the edge repeats.

    ``mode`` "nearest" takes floor(i * step) (asymmetric), floor((i + 0.5) * step) (half_pixel) or
    the place rounded, halves up (align_corners); "linear" interpolates two neighbours, "cubic" four
    with Keys' kernel of parameter ``cubic_a``.
    """

    sizes: tuple[int, ...]
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    steps: tuple[float, ...] | None = None
    cubic_a: float = -0.75

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(self.mode in ("nearest", "linear", "cubic"), f"Resize: no mode {self.mode!r}")
        known = self.coordinates in ("half_pixel", "align_corners", "asymmetric")
        require(known, f"Resize: no coordinates {self.coordinates!r}")
        if self.mode != "nearest":
            require_float(self, x)
        axes = len(self.sizes)
        require(x.rank == axes + 2, f"Resize: {x} should have {axes} spatial axes")
        require(min(self.sizes, default=1) >= 1, f"Resize: sizes {self.sizes} below 1")
        if self.steps is not None and (len(self.steps) != axes or not min(self.steps) > 0):
            raise ShapeError(f"Resize: steps {self.steps} should be {axes} positive numbers")
        require(0 not in x.shape[2:], f"Resize: {x} has an empty spatial axis")
        return (x.with_shape((*x.shape[:2], *self.sizes)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        y = np.empty((*x.shape[:2], *self.sizes), x.dtype)
        with np.errstate(all="ignore"):
            for image, channels in self._parts(x):
                self._resize(x[image, channels], y[image, channels])
        return (y,)

    def _parts(self, x: np.ndarray) -> Iterator[tuple[slice, slice]]:
        """Images and channels that are resized together."""
        plane = max(math.prod(x.shape[2:]), math.prod(self.sizes))
        for n in range(x.shape[0]):
            for channels in blocks(x.shape[1], 32 * plane):
                yield slice(n, n + 1), channels

    def _resize(self, x: np.ndarray, y: np.ndarray) -> None:
        """x resized into y, some of its rows (the first spatial axis) at a time."""
        lines = zip(x.shape[3:], self.sizes[1:], strict=True)
        row = math.prod(x.shape[:2]) * math.prod(map(max, lines))
        taps = [self.taps(k, size) for k, size in enumerate(x.shape[2:])]
        for rows in blocks(self.sizes[0], 32 * row):
            part = self._axis(x, 0, [(at[rows], weight[rows]) for at, weight in taps[0]])
            for k in range(1, len(self.sizes)):
                part = self._axis(part, k, taps[k])
            y[:, :, rows] = part

    def step(self, axis: int, size: int) -> float:
        """The distance in x between two outputs along spatial ``axis``, ``size`` long in x."""
        if self.coordinates == "align_corners":
            return (size - 1) / max(1, self.sizes[axis] - 1)
        return size / self.sizes[axis] if self.steps is None else self.steps[axis]

    def taps(self, axis: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Places of x and their weights, of which outputs along spatial ``axis`` are made.

        One entry for each neighbour: its index along the axis (``size`` long in x) and its weight,
        for all outputs.
        """
        step, index = self.step(axis, size), np.arange(self.sizes[axis])
        if self.mode == "nearest":
            return [(self._nearest(index, step, size), np.ones(len(index)))]
        half = 0.5 if self.coordinates == "half_pixel" else 0.0
        place = ((index + half) * step - half).astype(np.float32)
        whole = np.floor(place)
        fraction = (place - whole).astype(np.float64)
        if self.mode == "linear":
            first, weights = 0, [1.0 - fraction, fraction]
        else:
            first, weights = -1, keys_weights(fraction, self.cubic_a)
        shifted = [whole.astype(np.int64) + first + n for n in range(len(weights))]
        return [(np.clip(at, 0, size - 1), w) for at, w in zip(shifted, weights, strict=True)]

    def _axis(
        self, x: np.ndarray, axis: int, taps: list[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """x along a spatial axis at the places of ``taps``; but for "nearest" in float64."""
        if self.mode == "nearest":
            return x.take(taps[0][0], axis=axis + 2)
        shape = (-1, *[1] * (x.ndim - axis - 3))
        total = np.zeros(1)
        for at, weight in taps:
            total = total + x.take(at, axis=axis + 2) * weight.reshape(shape)
        return total

    def _nearest(self, index: np.ndarray, step: float, size: int) -> np.ndarray:
        half = np.float32(0.5 if self.coordinates == "half_pixel" else 0.0)
        place = (index.astype(np.float32) + half) * np.float32(step)
        if self.coordinates == "align_corners":
            place = place + np.float32(0.5)
        return np.minimum(place.astype(np.int64), size - 1)


def keys_weights(t: np.ndarray, a: float) -> list[np.ndarray]:
    """Weights of the neighbours -1, 0, 1, 2 at fraction ``t`` (Keys 1981, cubic convolution)."""

    def near(d: np.ndarray) -> np.ndarray:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

    def far(d: np.ndarray) -> np.ndarray:
        return a * (((d - 5.0) * d + 8.0) * d - 4.0)

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
