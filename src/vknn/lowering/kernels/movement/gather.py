"""Gather by axes: each element of the output is one of the input's or a constant, in any layouts.

:func:`gather` turns a description by axes into a dispatch of shaders/movement/gather.comp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div

#: Axes that the shader has room for.
MAX_AXES = 6
PAD_MODES = {"none": 0, "constant": 1, "edge": 2, "reflect": 3, "wrap": 4, "symmetric": 5}


@dataclass(frozen=True)
class GatherAxis:
    """An axis of the output: index i < ``size`` is place start + step * i of input axis ``source``.

    ``source`` None: the input has no such axis. ``padded``: places outside the input's axis are
    allowed (step 1; the op's mode says what is there; "wrap" takes places from 0 on only).
    """

    size: int
    source: int | None
    start: int = 0
    step: int = 1
    padded: bool = False


@dataclass(frozen=True)
class GatherMap:
    """Source of each element, by axes. ``fill``: constant of mode "constant"; ``shuffle``: channel
    groups."""

    input: TensorType
    output: TensorType
    axes: tuple[GatherAxis, ...]
    mode: str = "none"
    fill: float = 0.0
    shuffle: int = 0


@dataclass(frozen=True)
class _Dim:
    """An axis as the shader gets it."""

    size: int
    stride: int
    before: int = 0
    extent: int = 1
    free: bool = True  # may be merged with its neighbour

    def joins(self, inner: _Dim) -> bool:
        return self.free and inner.free and self.stride == inner.stride * inner.size


@dataclass(frozen=True)
class _ShaderMap:
    dims: tuple[_Dim, ...]
    base: int
    wide: bool
    channel: int  # index into dims, -1: none
    split: int
    split_step: int


def input_strides(type_: TensorType, layout: Layout) -> list[int]:
    """Elements between neighbours along each axis; along C4's channels, between blocks of four."""
    dims = type_.dims
    inner = [math.prod(dims[a + 1 :]) for a in range(type_.rank)]
    if layout is Layout.LINEAR:
        return inner
    spatial = math.prod(dims[2:])
    blocks = ceil_div(dims[1], 4)
    return [blocks * spatial * 4, spatial * 4, *(4 * s for s in inner[2:])]


def in_vectors(layout: Layout) -> Layout:
    """The layout with vec4s in the places of C4B's words."""
    return Layout.C4 if layout is Layout.C4B else layout


def can_gather(what: GatherMap, source: Layout, target: Layout) -> bool:
    """True where the shader has room for the axes (after merging what can be merged)."""
    return len(_shader_map(what, source, target, False).dims) <= MAX_AXES


def gather(
    emitter: Emitter,
    what: GatherMap,
    source: Layout,
    target: Layout,
    values: Ref | None = None,
) -> None:
    """One dispatch that makes output 0 from input 0. ``values``: constants by channel.

    ``source`` of an input in C4B is C4.
    """
    wide = is_wide(what, source, target)
    program = _shader_map(what, source, target, wide)
    lead = MAX_AXES - len(program.dims)
    dims = (*[_Dim(1, 0)] * lead, *program.dims)
    channels = what.output.dims[1] if what.output.rank > 1 else 1
    to_c4 = target is Layout.C4
    vectors = math.prod(d.size for d in dims)
    count = vectors if wide or to_c4 else ceil_div(vectors, 4)
    x, y = emitter.input(0), emitter.output()
    one = read4(x) if x.is_bytes else read1(x)  # a word of bytes is read as the vec4 that it is
    spec = {
        "RANK": max(1, len(program.dims)),
        "CHANNEL": program.channel + lead if program.channel >= 0 else -1,
        "OUT_C4": int(to_c4),
        "SPLIT": program.split + lead if program.split >= 0 else -1,
        "PAD": PAD_MODES[what.mode],
        "VALUES": int(values is not None),
        "SHUFFLE": what.shuffle if program.split >= 0 else 0,
        "PADDING_LANES": int(wide and to_c4 and channels % 4 != 0),
        "BYTES_UNSIGNED": int(what.input.dtype is DType.UINT8),
    }
    emitter.dispatch_items(
        "movement/gather",
        [read4(x) if wide else one, one if values is None else read1(values), write(y)],
        grid(emitter.problem.limits, count, vectors),
        push={
            "count": count,
            "elements": what.output.size,
            "base": program.base,
            "channels": channels,
            "split_step": program.split_step,
            "fill": _fill_bits(what.fill, what.output.dtype),
            **by_field(dims, "size", "stride", "before", "extent"),
        },
        spec=spec,
        defines={
            "ELEM": int(not y.is_float),
            "WIDE": int(wide),
            **({"BYTES": 1} if x.is_bytes else {}),
        },
    )


def by_field(axes: Sequence[object], *names: str) -> dict[str, tuple[int, ...]]:
    """Arrays of push constants from axes: the named attribute of each."""
    return {name: tuple(getattr(axis, name) for axis in axes) for name in names}


def _fill_bits(value: float, dtype: DType) -> int:
    if dtype.is_float:
        return int(np.float32(value).view(np.int32))
    return int(dtype.numpy.type(value))


def is_wide(what: GatherMap, source: Layout, target: Layout) -> bool:
    """True where whole vec4s of the input become vec4s of the output."""
    lane_in = 1 if source is Layout.C4 else what.input.rank - 1
    lane_out = 1 if target is Layout.C4 else what.output.rank - 1
    if what.shuffle or not 0 <= lane_out < what.output.rank:
        return False
    axis = what.axes[lane_out]
    if axis.source != lane_in or axis.step != 1 or axis.start % 4:
        return False
    if axis.padded:
        # Whole vec4s repeat.
        return what.mode == "wrap" and source is target and what.input.dims[lane_in] % 4 == 0
    fits_in = source is Layout.C4 or what.input.dims[lane_in] % 4 == 0
    return fits_in and (target is Layout.C4 or axis.size % 4 == 0)


def _shader_map(what: GatherMap, source: Layout, target: Layout, wide: bool) -> _ShaderMap:
    strides = input_strides(what.input, source)
    unit = 4 if wide else 1
    lane_in = 1 if source is Layout.C4 else what.input.rank - 1
    lane_out = 1 if target is Layout.C4 else what.output.rank - 1
    watch_channel = target is Layout.C4 or what.mode == "constant"
    dims: list[_Dim] = []
    base, channel, split, split_step = 0, -1, -1, 1
    for number, axis in enumerate(what.axes):
        by_four = number == lane_out and (wide or target is Layout.C4)
        size = ceil_div(axis.size, 4) if by_four else axis.size
        is_channel = number == 1 and watch_channel
        is_split = axis.source == 1 and source is Layout.C4 and not wide
        dim, shift = _dim(what, axis, size, strides, is_split)
        if wide:
            dim, shift = _widened(dim, shift, axis.source == lane_in, source)
        base += shift
        dim = replace(dim, free=dim.free and not is_channel and not is_split)
        if size == 1 and dim.free:
            continue
        if dims and dims[-1].joins(dim):
            dims[-1] = replace(dim, size=dims[-1].size * dim.size)
        else:
            dims.append(dim)
        channel = len(dims) - 1 if is_channel else channel
        if is_split:
            split, split_step = len(dims) - 1, axis.step
    assert base % unit == 0
    return _ShaderMap(tuple(dims), base // unit, wide, channel, split, split_step)


def _dim(
    what: GatherMap, axis: GatherAxis, size: int, strides: Sequence[int], is_split: bool
) -> tuple[_Dim, int]:
    """The axis for the shader, and what it adds to the base address."""
    if axis.source is None:
        return _Dim(size, 0), 0
    stride, extent = strides[axis.source], what.input.dims[axis.source]
    if axis.padded:
        return _Dim(size, stride, -axis.start, extent, free=False), 0
    if is_split:
        # Only with PAD does the shader look at the extent: nothing is outside here.
        return _Dim(size, stride, -axis.start, extent, free=False), 0
    free = what.mode == "none"
    extent = 1 << 30
    return _Dim(size, stride * axis.step, 0, extent, free), stride * axis.start


def _widened(dim: _Dim, shift: int, is_lane: bool, source: Layout) -> tuple[_Dim, int]:
    """Strides in vec4s. Along the lanes' own axis the neighbour is the next vec4 or block."""
    if is_lane:
        dim = replace(dim, extent=dim.extent // 4)
    if is_lane and source is Layout.LINEAR:
        return replace(dim, stride=1), shift
    if is_lane:
        return replace(dim, stride=dim.stride // 4), shift // 4
    return replace(dim, stride=dim.stride // 4), shift
