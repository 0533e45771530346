"""Shapes, slices, concatenation, padding, broadcasts, ranges and CAST."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import (
    all_values,
    scale_of,
    table_lookup,
    zero_of,
)
from vknn.formats.tflite.records import Quant
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.movement.shape import Concat, Expand, Identity, Pad, Slice

#: Axes that BROADCAST_TO makes at most.
_MOST_AXES = 8


@operator("RESHAPE", inputs=(1, 2), takes_quantized=True)
def reshape(c: Context) -> Value:
    """The input in the shape of the second input or, without it, of the options; -1 is inferred.

    A second input that is not a vector of int32 is ignored.
    """
    given = c.optional(1)
    if given is not None and given.type.rank == 1 and given.type.dtype is DType.INT32:
        wanted = c.ints(1, "the new shape")
    else:
        wanted = list(c.options["new_shape"])
        if wanted == [0]:  # a scalar in old files
            wanted = []
    return c.reshape(c.x, _resolved(c, wanted, c.x.type.dims))


def _resolved(c: Context, wanted: Sequence[int], dims: tuple[int, ...]) -> tuple[int, ...]:
    """``wanted`` with -1 inferred; for empty tensors by the sizes that are not 0."""
    c.require(wanted.count(-1) <= 1 and min(wanted, default=0) >= -1, f"to the shape {wanted}")
    size, rest = math.prod(dims), math.prod(d for d in wanted if d != -1)
    fits = rest > 0 and size % rest == 0 if -1 in wanted else rest == size
    hole = size // max(rest, 1)
    if -1 in wanted and rest == size == 0:
        others = math.prod(d for d in wanted if d > 0)
        hole, fits = math.prod(d for d in dims if d) // others, True
    c.require(fits, f"{size} elements to the shape {wanted}")
    return tuple(hole if d == -1 else d for d in wanted)


@operator("SQUEEZE", takes_quantized=True)
def squeeze(c: Context) -> Value:
    """The input without the named axes of size 1, or without all such axes."""
    dims = c.x.type.dims
    named = {c.axis(a, len(dims)) for a in c.options["squeeze_dims"]}
    c.require(all(dims[a] == 1 for a in named), f"squeezes axes {sorted(named)} of {c.x.type}")
    drop = named or {a for a, d in enumerate(dims) if d == 1}
    return c.reshape(c.x, [d for a, d in enumerate(dims) if a not in drop])


@operator("EXPAND_DIMS", inputs=2, takes_quantized=True)
def expand_dims(c: Context) -> Value:
    """The input with an axis of size 1 inserted."""
    axis = c.number(1, "the axis")
    dims = list(c.x.type.dims)
    dims.insert(c.axis(axis, len(dims) + 1), 1)
    return c.reshape(c.x, dims)


@operator("TRANSPOSE", inputs=2, takes_quantized=True)
def transpose(c: Context) -> Value:
    """Transposition: axis i of the output is axis perm[i] of the input."""
    perm = [c.axis(a, c.x.type.rank) for a in c.ints(1, "the permutation")]
    c.require(sorted(perm) == list(range(c.x.type.rank)), f"permutes {c.x.type} by {perm}")
    return c.transpose(c.x, perm)


@operator("CONCATENATION", inputs=(1, None), takes_quantized=True)
def concatenation(c: Context) -> Value:
    """The inputs joined along an axis; uint8 inputs are requantized to the output's scale."""
    ranks = {v.type.rank for v in c.inputs if v is not None}
    c.require(len(ranks) == 1, f"joins tensors of the ranks {sorted(ranks)}")
    code = c.options["fused_activation_function"]
    c.require(code == 0, f"has the fused activation number {code}")
    values = [_requantized(c, i) for i in range(len(c.inputs))]
    axis = c.axis(c.options["axis"], c.x.type.rank)
    filled = [v for v in values if v.type.size] or values[:1]
    return c.add(Concat(axis), *filled) if len(filled) > 1 else filled[0]


def _requantized(c: Context, number: int) -> Value:
    """Input ``number`` in the output's scale; int8 inputs must have it already.

    uint8 is requantized as TensorFlow Lite's kernel does it: round(x * s + b) with s = s_in / s_out
    (by the reciprocal) and b = -zero_in * s.
    """
    value, own, out = c.value(number), c.source(number).quant, c.target().quant
    if value.type.dtype not in (DType.INT8, DType.UINT8) or own is None or out is None:
        return value
    if scale_of(own) == scale_of(out) and zero_of(own) == zero_of(out):
        return value
    other = f"({scale_of(own):.6g}, {zero_of(own)} and {scale_of(out):.6g}, {zero_of(out)})"
    c.require(value.type.dtype is DType.UINT8, f"joins int8 of other scales than its own {other}")
    scale = scale_of(own) * (np.float32(1) / scale_of(out))
    bias = np.float32(-zero_of(own)) * scale
    scaled = all_values(DType.UINT8).astype(np.float32) * scale + bias
    whole = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)) + zero_of(out)
    return table_lookup(c, np.clip(whole, 0, 255).astype(np.int64), value)


@operator("PACK", inputs=(1, None), takes_quantized=True)
def pack(c: Context) -> Value:
    """The inputs stacked along a new axis."""
    rank = c.x.type.rank + 1
    axis = c.axis(c.options["axis"], rank)
    count = c.options["values_count"]
    c.require(count == len(c.inputs), f"stacks {count} of {len(c.inputs)} inputs")
    stacked = []
    for number in range(len(c.inputs)):
        value = c.value(number)
        c.require(value.type.dims == c.x.type.dims, f"stacks {value.type} on {c.x.type}")
        stacked.append(c.reshape(value, (*value.type.dims[:axis], 1, *value.type.dims[axis:])))
    return c.add(Concat(axis), *stacked) if len(stacked) > 1 else stacked[0]


@operator("UNPACK", outputs=(1, None), takes_quantized=True)
def unpack(c: Context) -> list[Value]:
    """Slices of size 1 along an axis, without that axis."""
    axis = c.axis(c.options["axis"], c.x.type.rank)
    size = c.x.type.dims[axis]
    c.require(c.options["num"] == size, f"unpacks {c.options['num']} of {size}")
    _check_output_count(c, size)
    kept = (*c.x.type.dims[:axis], *c.x.type.dims[axis + 1 :])
    return [c.reshape(_slice_axis(c, c.x, axis, i, i + 1), kept) for i in range(size)]


def _check_output_count(c: Context, count: int) -> None:
    named = len(c.operator.outputs)
    c.require(named == count, f"has {named} outputs for {count} parts")


def _slice_axis(c: Context, x: Value, axis: int, start: int, end: int) -> Value:
    return c.add(Slice((start,), (end,), (axis,)), x)


@operator("SPLIT", inputs=2, outputs=(1, None), takes_quantized=True)
def split(c: Context) -> list[Value]:
    """Equal parts along the axis that the first input names."""
    axis = c.number(0, "the axis")
    x = c.value(1)
    axis = c.axis(axis, x.type.rank)
    count, size = c.options["num_splits"], x.type.dims[axis]
    c.require(count > 0 and size % count == 0, f"splits {size} into {count}")
    _check_output_count(c, count)
    step = size // count
    return [_slice_axis(c, x, axis, i * step, (i + 1) * step) for i in range(count)]


@operator("SPLIT_V", inputs=3, outputs=(1, None), takes_quantized=True)
def split_v(c: Context) -> list[Value]:
    """Parts of the given sizes along an axis; one size may be -1."""
    axis = c.number(2, "the axis")
    axis = c.axis(axis, c.x.type.rank)
    sizes, whole = c.ints(1, "the sizes"), c.x.type.dims[axis]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = whole - sum(s for s in sizes if s != -1)
    c.require(sum(sizes) == whole and min(sizes, default=0) >= 0, f"splits {whole} into {sizes}")
    _check_output_count(c, len(sizes))
    ends = np.cumsum(sizes).tolist()
    return [_slice_axis(c, c.x, axis, e - s, e) for s, e in zip(sizes, ends, strict=True)]


@operator("SLICE", inputs=3, takes_quantized=True)
def slice_(c: Context) -> Value:
    """Slice of ``size`` elements from ``begin`` along each axis; a size of -1 is up to the end."""
    begin, size = c.ints(1, "the begin"), c.ints(2, "the size")
    dims = c.x.type.dims
    c.require(len(begin) == len(size) == len(dims), f"slices {c.x.type} at {begin}, {size}")
    ends = [d if s == -1 else b + s for b, s, d in zip(begin, size, dims, strict=True)]
    inside = all(0 <= b <= e <= d for b, e, d in zip(begin, ends, dims, strict=True))
    c.require(inside, f"slices {c.x.type} at {begin}, {size}")
    return c.add(Slice(tuple(begin), tuple(ends), tuple(range(len(dims)))), c.x)


def pad_pairs(c: Context, number: int) -> list[tuple[int, int]]:
    """Pads or crops (begin, end) of each axis, from an input [axes, 2]."""
    array = c.data(number)
    good = array.ndim == 2 and array.shape[1] == 2 and array.dtype.kind in "iu"
    c.require(good, f"has pads of {array.dtype}{list(array.shape)}")
    return [(int(a), int(b)) for a, b in array]


def _pads(c: Context) -> tuple[int, ...]:
    found = pad_pairs(c, 1)
    c.require(len(found) == c.x.type.rank, f"pads {c.x.type} by {found}")
    c.require(all(a >= 0 and b >= 0 for a, b in found), f"pads {c.x.type} by {found}")
    return (*(a for a, _ in found), *(b for _, b in found))


def _quant_of_padding(c: Context) -> Quant | None:
    """Quantization of the output, if padding heeds it: not of floats, nor of plain integers.

    Those of int8 and int16 are plain where the input has no scale, whatever the output has.
    """
    y = c.target()
    plain = y.dtype is not DType.UINT8 and c.source(0).quant is None
    return y.quant if y.is_quantized and not plain else None


@operator("PAD", inputs=2, takes_quantized=True)
def pad(c: Context) -> Value:
    """Padding with zeros, or with the zero point of a quantized output."""
    quant = _quant_of_padding(c)
    value = float(zero_of(quant)) if quant is not None else 0.0
    return c.add(Pad(_pads(c), "constant", value), c.x)


@operator("PADV2", inputs=3, takes_quantized=True)
def pad_v2(c: Context) -> Value:
    """Padding with a given value; quantized like the tensor."""
    value = c.data(2)
    good = value.size == 1 and value.dtype == c.x.type.dtype.numpy
    c.require(good, f"pads {c.x.type} with {value.size} values of {value.dtype}")
    given, wanted = c.source(2).quant, _quant_of_padding(c)
    if given is not None and wanted is not None:
        same = scale_of(given) == scale_of(wanted) and zero_of(given) == zero_of(wanted)
        c.require(same, "pads with a value of another scale")
    return c.add(Pad(_pads(c), "constant", value.reshape(-1)[0].item()), c.x)


@operator("SHAPE", takes_quantized=True)
def shape(c: Context) -> Value:
    """Sizes of the input's axes, a constant."""
    return c.constant(np.array(c.x.type.dims, c.target().dtype.numpy), "shape")


@operator("RANK", takes_quantized=True)
def rank(c: Context) -> Value:
    """Number of the input's axes, a constant."""
    return c.constant(np.array(c.x.type.rank, np.int32), "rank")


@operator("FILL", inputs=2, takes_quantized=True)
def fill(c: Context) -> Value:
    """A tensor of the shape in the first input, filled with the second."""
    dims = c.ints(0, "the shape")
    c.require(min(dims, default=0) >= 0, f"fills the shape {dims}")
    value = c.value(1)
    c.require(c.x.type.rank == 1 and value.type.rank == 0, f"fills {c.x.type} with {value.type}")
    return c.add(Expand(tuple(dims)), value)


@operator("BROADCAST_TO", inputs=2, takes_quantized=True)
def broadcast_to(c: Context) -> Value:
    """The input broadcast to a given shape."""
    dims = c.ints(1, "the shape")
    c.require(c.value(1).type.rank == 1, f"has the shape {c.value(1).type}")
    c.require(len(dims) <= _MOST_AXES, f"makes {len(dims)} axes; there may be {_MOST_AXES}")
    c.require(min(dims, default=0) >= 0, f"makes {dims}; sizes should be 0 or more")
    few = math.prod(d for d in dims if d) < MAX_ELEMENTS
    c.require(few, f"makes {dims}, which is absurdly large: fewer than {MAX_ELEMENTS} may be")
    c.require(_broadcast(c, c.x.type.dims, dims) == tuple(dims), f"makes {dims} of {c.x.type}")
    return c.add(Expand(tuple(dims)), c.x)


@operator("BROADCAST_ARGS", inputs=2)
def broadcast_args(c: Context) -> Value:
    """Shape that two shapes broadcast to."""
    a, b, types = c.ints(0, "a shape"), c.ints(1, "a shape"), (c.x.type, c.value(1).type)
    good = types[0].rank == types[1].rank == 1 and types[0].dtype is types[1].dtype
    c.require(good, f"has the shapes {types[0]} and {types[1]}")
    return c.constant(np.array(_broadcast(c, a, b), c.target().dtype.numpy), "shape")


def _broadcast(c: Context, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        c.fail(f"has the shapes {list(a)} and {list(b)}")


@operator("ZEROS_LIKE", takes_quantized=True)
def zeros_like(c: Context) -> Value:
    """Zeros of the input's shape and type."""
    zero = c.constant(np.zeros((), c.x.type.dtype.numpy), "zero")
    return c.add(Expand(c.x.type.dims), zero)


@operator("RANGE", inputs=3)
def range_(c: Context) -> Value:
    """The sequence start, start + delta, ... below limit (above, for a negative delta)."""
    c.require(all(c.value(i).type.size == 1 for i in range(3)), "has no single numbers")
    start, limit, delta = (c.data(i).reshape(-1)[0] for i in range(3))
    c.require(delta != 0, "counts in steps of 0")
    dtype = c.x.type.dtype
    if dtype.is_integer:
        away = int(delta) * (int(limit) - int(start)) < 0
        c.require(not away, f"counts from {start} to {limit} by {delta}")
        count = max(-((int(start) - int(limit)) // int(delta)), 0)
    else:
        count = max(int(np.ceil(np.abs((limit - start) / delta))), 0)
        c.require(delta * (limit - start) >= 0, f"counts from {start} to {limit} by {delta}")
    steps = np.arange(c.makeable(count))
    return c.constant((start + steps * delta).astype(dtype.numpy), "range")


@operator("CAST", takes_quantized=True)
def cast(c: Context) -> Value:
    """Conversion to another element type; sub-byte types only from float32 (clamped) and to it."""
    given, wanted = c.source(0), c.target()
    to = wanted.dtype
    if given.sub_byte is not None or wanted.sub_byte is not None:
        other = wanted if given.sub_byte is not None else given
        if other.dtype is not DType.FLOAT32:
            c.refuse(f"{given.type_name} as {wanted.type_name}")
        x = c.x if wanted.sub_byte is None else c.add(ew.Clip(*wanted.limits), c.x)
        return c.add(ew.Cast(to), x)
    return c.x if to is c.x.type.dtype else c.add(ew.Cast(to, nan_to_most=True), c.x)


@operator("DENSIFY", takes_quantized=True)
def densify(c: Context) -> Value:
    """The input itself: the reader has made sparse constants dense."""
    c.require(c.x.constant is not None, "takes a constant")
    return c.add(Identity(), c.x)
