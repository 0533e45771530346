"""Pooling of windows: Pooling, Pooling1D, Pooling3D, and SPP (spatial pyramid pooling).

ncnn differs: SAME padding that is positive along one axis and negative along another (a stride
longer than the kernel) writes outside of its memory; here the latter axis is not padded.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from vknn.formats.ncnn.context import Context, as_image, rank, shape
from vknn.formats.ncnn.layers.common.padding import applicable_pads, pad_spatial
from vknn.formats.ncnn.layers.common.windows import WindowParams, check_extents, padded_sizes
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.windows import Pads, flat_pads, same_pads
from vknn.graph import Op, Value, attributes
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)

_MAX, _AVERAGE = 0, 1
_FULL, _VALID, _SAME_UPPER, _SAME_LOWER = range(4)
_KEEP = -233
#: Limit of the levels of SPP, of which level n has 4^n bins in each channel.
_MOST_LEVELS = 12

Sizes = tuple[int, ...]
P = TypeVar("P", bound="Pooling1DParams")


@attributes
class Pooling1DParams(WindowParams):
    """Parameters of Pooling1D."""

    pooling_type: int = param(0)
    kernel_w: int = param(1)
    stride_w: int = param(2, 1)
    pad_left: int = param(3)
    pad_right: int = param(14, like="pad_left")
    global_pooling: int = param(4)
    pad_mode: int = param(5)
    avgpool_count_include_pad: int = param(6)
    adaptive_pooling: int = param(7)
    out_w: int = param(8)

    @property
    def sizes(self) -> Sizes:
        """Size of the output of adaptive pooling."""
        return self.by_axis("out")

    def check(self) -> None:
        require(self.pooling_type in (_MAX, _AVERAGE), f"unknown pooling type {self.pooling_type}")
        if self.global_pooling:
            return
        if self.adaptive_pooling:
            keeps = len(self.sizes) > 1  # ncnn loads no Pooling1D that keeps its size
            good = all(n > 0 or (keeps and n == _KEEP) for n in self.sizes)
            require(good, f"adaptive output size {self.sizes}")
            return
        require(min(self.kernel) > 0, f"kernel {self.kernel} must be positive")
        require(min(self.strides) > 0, f"stride {self.strides} must be positive")
        require(_FULL <= self.pad_mode <= _SAME_LOWER, f"unknown pad mode {self.pad_mode}")
        require(min(flat_pads(self.pads)) >= 0, f"negative padding {self.pads}")


@attributes
class PoolingParams(Pooling1DParams):
    """Parameters of Pooling."""

    axes = "hw"

    kernel_h: int = param(11, like="kernel_w")
    stride_h: int = param(12, like="stride_w")
    pad_top: int = param(13, like="pad_left")
    pad_bottom: int = param(15, like="pad_top")
    out_h: int = param(18, like="out_w")


@attributes
class Pooling3DParams(PoolingParams):
    """Parameters of Pooling3D."""

    axes = "dhw"

    kernel_d: int = param(21, like="kernel_w")
    stride_d: int = param(22, like="stride_w")
    pad_front: int = param(23, like="pad_left")
    pad_behind: int = param(16, like="pad_front")
    out_d: int = param(28, like="out_w")


@attributes
class SppParams(Params):
    """Parameters of SPP."""

    pooling_type: int = param(0)
    pyramid_height: int = param(1, 1)

    def check(self) -> None:
        require(self.pooling_type in (_MAX, _AVERAGE), f"unknown pooling type {self.pooling_type}")
        good = 1 <= self.pyramid_height <= _MOST_LEVELS
        require(good, f"pyramid_height {self.pyramid_height} should be 1 to {_MOST_LEVELS}")


@layer("Pooling", params=PoolingParams)
def pooling(c: Context[PoolingParams]) -> Value:
    """Pooling of (c, h, w) over h and w."""
    return _pooled(c, as_image(c, c.x))


@layer("Pooling1D", params=Pooling1DParams)
def pooling_1d(c: Context[Pooling1DParams]) -> Value:
    """Pooling of (c, w) over w."""
    c.require(rank(c.x) <= 2, f"takes at most two axes, not {list(shape(c.x))}")
    return _pooled(c, c.reshape(c.x, (1,) * (2 - rank(c.x)) + c.x.type.dims))


@layer("Pooling3D", params=Pooling3DParams)
def pooling_3d(c: Context[Pooling3DParams]) -> Value:
    """Pooling of (c, d, h, w) over d, h and w.

    ncnn differs: with pad_mode 3 (SAME_LOWER) the odd cell of the depth axis goes to its end.
    ncnn differs: a padded depth adds channels to a blob of three axes; vknn refuses it.
    """
    if rank(c.x) == 4:
        return _pooled(c, c.x)
    flat = as_image(c, c.x)
    return _pooled(c, c.reshape(flat, (*flat.type.dims[:2], 1, *flat.type.dims[2:])))


@layer("SPP", params=SppParams)
def spp(c: Context[SppParams]) -> Value:
    """Spatial pyramid pooling (He et al. 2014): level n pools to 2^n x 2^n bins; levels are joined.

    ncnn differs: its output has the shape (bins, 1, 2) for any number of bins; here it is a vector.
    """
    p, x = c.params, as_image(c, c.x)
    channels, sizes = x.type.dims[1], x.type.dims[2:]
    levels = []
    for level in range(p.pyramid_height):
        bins = 1 << level
        kernel = tuple(-(-n // bins) for n in sizes)
        missing = tuple(k * bins - n for k, n in zip(kernel, sizes, strict=True))
        padded = pad_spatial(c, x, tuple(((m + 1) // 2, m // 2) for m in missing), 0.0)
        none = (0,) * 4
        op: Op = MaxPool(kernel, kernel, none)
        if p.pooling_type == _AVERAGE:
            op = AveragePool(kernel, kernel, none, count_include_pad=True)
        levels.append(c.reshape(c.add(op, padded), (1, channels * bins * bins)))
    return c.add(Concat(1), *levels) if len(levels) > 1 else levels[0]


def _pooled(c: Context[P], x: Value) -> Value:
    """``x`` [1, channels, spatial...] pooled by the parameters."""
    p = c.params
    if p.global_pooling:
        reduce_all = GlobalMaxPool() if p.pooling_type == _MAX else GlobalAveragePool()
        return c.reshape(c.add(reduce_all, x), x.type.dims[:2])
    if p.adaptive_pooling:
        return _adaptive(c, x)
    if p.pad_mode in (_SAME_UPPER, _SAME_LOWER):
        return _same(c, x)
    counted = p.pooling_type == _MAX or p.avgpool_count_include_pad
    c.require(
        bool(counted) or applicable_pads(c, p.pads) == p.pads, "pads axes that its input lacks"
    )
    pads = (_full_pads if p.pad_mode == _FULL else _valid_pads)(p, shape(x)[1:])
    return _windows(c, x, applicable_pads(c, pads), bool(counted))


def _adaptive(c: Context[P], x: Value) -> Value:
    p, sizes = c.params, shape(x)[1:]
    wanted = tuple(n if out == _KEEP else out for n, out in zip(sizes, p.sizes, strict=True))
    if wanted == sizes:
        return c.x
    make = AdaptiveMaxPool if p.pooling_type == _MAX else AdaptiveAveragePool
    return c.add(make(output_size=wanted), x)


def _windows(c: Context[P], x: Value, pads: Pads, include_pad: bool) -> Value:
    p = c.params
    check_extents(c, padded_sizes(shape(x)[1:], pads), p.kernel)
    if p.pooling_type == _MAX:
        return c.add(MaxPool(kernel=p.kernel, strides=p.strides, pads=flat_pads(pads)), x)
    op = AveragePool(
        kernel=p.kernel, strides=p.strides, pads=flat_pads(pads), count_include_pad=include_pad
    )
    return c.add(op, x)


def _full_pads(p: Pooling1DParams, sizes: Sizes) -> Pads:
    """Pads of pad_mode 0 (full): explicit ones, with ends extended to complete the last window."""
    pads = []
    for n, kernel, stride, (begin, end) in zip(sizes, p.kernel, p.strides, p.pads, strict=True):
        # The remainder has the sign of the dividend, as in C, for inputs smaller than the kernel.
        tail = int(math.fmod(n + begin + end - kernel, stride))
        pads.append((begin, end + (stride - tail if tail else 0)))
    return tuple(pads)


def _valid_pads(p: Pooling1DParams, sizes: Sizes) -> Pads:
    """Pads of pad_mode 1 (valid): explicit ones, and for averages without pads an extended end.

    The first window may exceed the padded input by less than a stride, as C's division gives 0
    there. Averages of the cells inside are defined then; others would read beyond the input.
    """
    if p.pooling_type == _MAX or p.avgpool_count_include_pad:
        return p.pads
    pads = []
    for n, kernel, stride, (begin, end) in zip(sizes, p.kernel, p.strides, p.pads, strict=True):
        missing = kernel - (n + begin + end)
        pads.append((begin, end + (missing if 0 < missing < stride else 0)))
    return tuple(pads)


def _same(c: Context[P], x: Value) -> Value:
    """Pooling with SAME padding. Averages count its cells, but not cells that explicit pads cover;
    where these cover all, the averages are NaN."""
    p = c.params
    lower = p.pad_mode == _SAME_LOWER
    pads = same_pads(shape(x)[1:], p.kernel, p.strides, larger_first=lower)
    if lower and len(pads) == 3:
        pads = (pads[0][::-1], *pads[1:])
    pads = applicable_pads(c, pads)
    explicit = any(flat_pads(p.pads))
    if p.pooling_type == _MAX or p.avgpool_count_include_pad or not explicit:
        return _windows(c, x, pads, include_pad=True)
    x = pad_spatial(c, x, pads, 0.0)
    starts = tuple(begin for begin, _ in p.pads)
    ends = tuple(n - end for n, (_, end) in zip(shape(x)[1:], p.pads, strict=True))
    if any(s >= e for s, e in zip(starts, ends, strict=True)):
        check_extents(c, shape(x)[1:], p.kernel)
        sizes = zip(shape(x)[1:], p.kernel, p.strides, strict=True)
        out = [(n - kernel) // stride + 1 for n, kernel, stride in sizes]
        return c.constant(np.full((*x.type.dims[:2], *out), np.nan, np.float32), "NaN")
    axes = tuple(range(2, x.type.rank))
    x = c.add(Slice(starts=starts, ends=ends, axes=axes, steps=(1,) * len(axes)), x)
    return _windows(c, x, p.pads, include_pad=False)
