"""Pooling over h and w."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vknn.formats.ncnn.context import Context, as_image, shape
from vknn.formats.ncnn.layers.padded import Pads, flat_pads, pad_spatial, same_pads
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value
from vknn.ops.movement import Slice
from vknn.ops.pooling import (
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


@dataclass(frozen=True)
class PoolingParams(Params):
    """Parameters of Pooling."""

    pooling_type: int = param(0)
    kernel_w: int = param(1)
    kernel_h: int = param(11, like="kernel_w")
    stride_w: int = param(2, 1)
    stride_h: int = param(12, like="stride_w")
    pad_left: int = param(3)
    pad_right: int = param(14, like="pad_left")
    pad_top: int = param(13, like="pad_left")
    pad_bottom: int = param(15, like="pad_top")
    global_pooling: int = param(4)
    pad_mode: int = param(5)
    avgpool_count_include_pad: int = param(6)
    adaptive_pooling: int = param(7)
    out_w: int = param(8)
    out_h: int = param(18, like="out_w")

    @property
    def kernel(self) -> tuple[int, int]:
        return self.kernel_h, self.kernel_w

    @property
    def strides(self) -> tuple[int, int]:
        return self.stride_h, self.stride_w

    @property
    def pads(self) -> Pads:
        return (self.pad_top, self.pad_bottom), (self.pad_left, self.pad_right)

    def check(self) -> None:
        require(self.pooling_type in (_MAX, _AVERAGE), f"unknown pooling type {self.pooling_type}")
        if self.global_pooling:
            return
        if self.adaptive_pooling:
            sizes = (self.out_h, self.out_w)
            require(all(n > 0 or n == _KEEP for n in sizes), f"adaptive output size {sizes}")
            return
        require(min(self.kernel) > 0, f"kernel {self.kernel} must be positive")
        require(min(self.strides) > 0, f"stride {self.strides} must be positive")
        require(_FULL <= self.pad_mode <= _SAME_LOWER, f"unknown pad mode {self.pad_mode}")
        require(min(flat_pads(self.pads)) >= 0, f"negative padding {self.pads}")


@layer("Pooling", params=PoolingParams)
def pooling(c: Context[PoolingParams]) -> Value:
    p, x = c.params, as_image(c, c.x)
    if p.global_pooling:
        reduce_all = GlobalMaxPool() if p.pooling_type == _MAX else GlobalAveragePool()
        return c.reshape(c.add(reduce_all, x), x.type.dims[:2])
    if p.adaptive_pooling:
        return _adaptive(c, x)
    if p.pad_mode == _FULL:
        return _windows(c, x, _full_pads(p, shape(x)[1:]), bool(p.avgpool_count_include_pad))
    if p.pad_mode == _VALID:
        return _windows(c, x, p.pads, bool(p.avgpool_count_include_pad))
    return _same(c, x)


def _adaptive(c: Context[PoolingParams], x: Value) -> Value:
    p, sizes = c.params, shape(x)[1:]
    wanted = tuple(
        n if out == _KEEP else out for n, out in zip(sizes, (p.out_h, p.out_w), strict=True)
    )
    if wanted == sizes:
        return c.x
    make = AdaptiveMaxPool if p.pooling_type == _MAX else AdaptiveAveragePool
    return c.add(make(output_size=wanted), x)


def _windows(c: Context[PoolingParams], x: Value, pads: Pads, include_pad: bool) -> Value:
    p = c.params
    padded = tuple(n + sum(pair) for n, pair in zip(shape(x)[1:], pads, strict=True))
    c.require(
        all(n >= k for n, k in zip(padded, p.kernel, strict=True)),
        f"the kernel {list(p.kernel)} is larger than the padded input {list(padded)}",
    )
    if p.pooling_type == _MAX:
        return c.add(MaxPool(kernel=p.kernel, strides=p.strides, pads=flat_pads(pads)), x)
    op = AveragePool(
        kernel=p.kernel, strides=p.strides, pads=flat_pads(pads), count_include_pad=include_pad
    )
    return c.add(op, x)


def _full_pads(p: PoolingParams, sizes: tuple[int, ...]) -> Pads:
    """The explicit pads, the far ends extended so that the last partial window fits."""
    pads = []
    for n, kernel, stride, (begin, end) in zip(sizes, p.kernel, p.strides, p.pads, strict=True):
        # The remainder has the sign of the dividend, as in C, for inputs smaller than the kernel.
        tail = int(math.fmod(n + begin + end - kernel, stride))
        pads.append((begin, end + (stride - tail if tail else 0)))
    return tuple(pads)


def _same(c: Context[PoolingParams], x: Value) -> Value:
    """SAME padding. Averages count its cells in any case, but not what the explicit pads cover."""
    p = c.params
    pads = same_pads(shape(x)[1:], p.kernel, p.strides, lower=p.pad_mode == _SAME_LOWER)
    explicit = any(flat_pads(p.pads))
    if p.pooling_type == _MAX or p.avgpool_count_include_pad or not explicit:
        return _windows(c, x, pads, include_pad=True)
    x = pad_spatial(c, x, pads, 0.0)
    starts = tuple(begin for begin, _ in p.pads)
    ends = tuple(n - end for n, (_, end) in zip(shape(x)[1:], p.pads, strict=True))
    inside = all(s < e for s, e in zip(starts, ends, strict=True))
    c.require(inside, f"the pads {p.pads} leave nothing of the input")
    x = c.add(Slice(starts=starts, ends=ends, axes=(2, 3), steps=(1, 1)), x)
    return _windows(c, x, p.pads, include_pad=False)
