"""Deformable convolution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import Fusion, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import (
    arguments,
    fits,
    require,
    require_dtype,
    require_float,
    require_vector,
)
from vknn.ops.common.windows import check_window, window_output


@attributes
class DeformConv(Op):
    """y[n, m, p] = bias[m] + sum over c, k of mask[k, p] * x(c, p*stride + k*dilation - pad +
    offset[k, p]) * w[m, c, k], with x sampled bilinearly and 0 outside of the image.

    Inputs x [N, C, H, W], w [M, C/group, kh, kw], offset [N, 2*offset_group*kh*kw, OH, OW] (for
    each group of input channels and tap the shift along H, then that along W), bias [M] (optional),
    mask [N, offset_group*kh*kw, OH, OW] (optional). Positions are float32, of offsets of float64
    float64, sums float64.
    ``clamped``: a place is inside from 0 to the image's size, and one behind the middle of the last
    pixel has that pixel's value.
    """

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    group: int = 1
    offset_group: int = 1
    clamped: bool = False

    fusion = Fusion(operands=1, channel_axis=1)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w, offset, bias, mask = arguments(self, inputs, 3, optional=2)
        require_float(self, x)
        require_dtype(self, x.dtype, w, offset, bias, mask)
        check_window(self, 2, strides=self.strides, pads=self.pads, dilations=self.dilations)
        for what, type_ in (("input", x), ("weight", w), ("offset", offset), ("mask", mask)):
            require(
                type_ is None or type_.rank == 4, f"DeformConv: {what} {type_} is not of rank 4"
            )
        self._check_channels(x, w)
        spatial = window_output(
            self, x.shape[2:], w.dims[2:], self.strides, self.pads, self.dilations
        )
        taps = self.offset_group * w.dims[2] * w.dims[3]
        for what, type_, channels in (("offset", offset, 2 * taps), ("mask", mask, taps)):
            wanted = (x.shape[0], channels, *spatial)
            if type_ is not None and not all(map(fits, type_.shape, wanted)):
                raise ShapeError(f"DeformConv: {what} {type_} should have the shape {wanted}")
        require_vector(self, "bias", bias, w.dims[0])
        return (x.with_shape((x.shape[0], w.dims[0], *spatial)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, w, offset, bias, mask = arguments(self, inputs, 3, optional=2)
        y = np.empty((offset.shape[0], w.shape[0], *offset.shape[2:]), x.dtype)
        # What is gathered for a row of a result, in float64: pixels, their shares, and sums.
        row = 8 * offset.shape[3] * (4 * x.shape[1] + 16 * self.offset_group + 2 * w.shape[0])
        with np.errstate(all="ignore"):
            for image in range(len(y)):
                for rows in blocks(y.shape[2], row):
                    shifts, factors = (
                        None if t is None else t[image, :, rows] for t in (offset, mask)
                    )
                    sums = self._sums(x[image], w, shifts, factors, rows.start)
                    if bias is not None:
                        sums += bias.astype(np.float64).reshape(-1, 1, 1)
                    y[image, :, rows] = sums
        return (y,)

    def _sums(
        self, x: np.ndarray, w: np.ndarray, offset: Any, mask: np.ndarray | None, first: int
    ) -> np.ndarray:
        """Sums of rows of one image's results, from the row ``first`` on: float64 [M, rows, OW]."""
        group, (kh, kw), out = self.group, w.shape[2:], offset.shape[1:]
        y = np.zeros((group, w.shape[0] // group, math.prod(out)))
        weights = w.astype(np.float64).reshape(group, w.shape[0] // group, -1, kh * kw)
        shifts = offset.reshape(self.offset_group, kh * kw, 2, *out)
        factors = None if mask is None else mask.reshape(self.offset_group, kh * kw, *out)
        for tap in range(kh * kw):
            run_limits.check()
            samples = self._sample(x, divmod(tap, kw), shifts[:, tap], first)
            if factors is not None:
                samples *= factors[:, tap, None]
            y += weights[..., tap] @ samples.reshape(group, -1, y.shape[-1])
        return y.reshape(w.shape[0], *out)

    def _check_channels(self, x: TensorType, w: TensorType) -> None:
        group, parts = self.group, self.offset_group
        require(min(w.dims) >= 1, f"DeformConv: empty weight {w}")
        whole = group >= 1 and w.dims[0] % group == 0 and fits(x.shape[1], w.dims[1] * group)
        if not whole or parts < 1 or w.dims[1] * group % parts:
            raise ShapeError(
                f"DeformConv: input {x} has not the channels that weight {w} of {group} group(s) "
                f"and {parts} offset group(s) takes"
            )

    def _sample(
        self, x: np.ndarray, tap: tuple[int, int], shift: np.ndarray, first: int
    ) -> np.ndarray:
        """x [C, H, W] at the places of a tap, ``shift`` [offset_group, 2, rows, OW]: float64
        [offset_group, C / offset_group, rows, OW]."""
        sizes = x.shape[1:]
        begin = (first, 0)
        places = [self._places(axis, tap[axis], shift[:, axis], begin[axis]) for axis in (0, 1)]
        inside = np.ones(places[0].shape, bool)
        for place, size in zip(places, sizes, strict=True):
            inside &= (place >= 0 if self.clamped else place > -1) & (place < size)
        places = [np.where(inside, place, 0) for place in places]
        planes = x.reshape(self.offset_group, -1, *sizes)
        total = np.zeros((self.offset_group, planes.shape[1], *shift.shape[2:]))
        if self.clamped:
            sized = zip(places, sizes, strict=True)
            places = [np.minimum(place, place.dtype.type(size - 1)) for place, size in sized]
        for corner in np.ndindex(2, 2):
            total += _corner(planes, corner, places, inside)
        return total

    def _places(self, axis: int, tap: int, shift: np.ndarray, first: int) -> np.ndarray:
        """Places of a tap along an axis, for outputs from ``first`` on."""
        start = np.arange(first, first + shift.shape[1 + axis]) * self.strides[axis]
        kind = np.float64 if shift.dtype == np.float64 else np.float32
        start = (start - self.pads[axis] + tap * self.dilations[axis]).astype(kind)
        return shift.astype(kind) + start.reshape((-1, 1) if axis == 0 else -1)


def _corner(
    planes: np.ndarray, corner: tuple[int, ...], places: list[np.ndarray], inside: np.ndarray
) -> np.ndarray:
    """The share of one of the four pixels around each place; 0 for pixels outside."""
    share, seen, at = np.ones(inside.shape), inside.copy(), []
    for step, place, size in zip(corner, places, planes.shape[2:], strict=True):
        low = np.floor(place)
        rest = place.astype(np.float64) - low
        share *= rest if step else 1.0 - rest
        index = low.astype(np.int64) + step
        seen &= (index >= 0) & (index < size)
        at.append(index)
    rows, columns = (np.where(seen, index, 0) for index in at)
    groups = np.arange(planes.shape[0])
    found = planes[groups[:, None, None], :, rows, columns]
    found = np.moveaxis(found, -1, 1) * share[:, None]
    return np.where(seen[:, None], found, 0.0)
