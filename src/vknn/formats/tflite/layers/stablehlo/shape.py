"""Reshapes, broadcasts, slices, concatenation, transposes, padding and counting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.padding import padded, padded_shape
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.movement.shape import Concat, Expand, Slice

#: Elements of an output that the file has to declare.
_LARGE = 1 << 20
_INT32_END = 1 << 31


def declared_shape(c: Context, known: Sequence[int | None] | None = None) -> tuple[int, ...]:
    """Shape of the output, which the file alone says; what it leaves open is taken from ``known``.

    Raises Malformed for what neither says.
    """
    shape = list(c.target().shape)
    if known is not None and len(known) == len(shape):
        shape = [k if d is None else d for d, k in zip(shape, known, strict=True)]
    c.require(None not in shape, f"has an output of unknown shape {c.target().shape}")
    return tuple(d for d in shape if d is not None)


def hold_to_declared(c: Context, dims: Sequence[int]) -> None:
    """Check: Malformed for an output that is large without the file saying so.

    TensorFlow Lite works most shapes out itself, so that a file may have other ones; but a few
    bytes of it must not ask for gigabytes.
    """
    declared, size = c.target().shape, math.prod(d for d in dims if d)
    free = c.target().unranked or None in declared or tuple(dims) == declared
    c.require(free or size < _LARGE, f"makes {list(dims)}, but its output is {list(declared)}")


@operator("STABLEHLO_RESHAPE", takes_quantized=True)
def reshape(c: Context) -> Value:
    """The operand in the shape of the output; one open dimension is worked out."""
    shape, size = c.target().shape, c.x.type.size
    rest = math.prod(d for d in shape if d is not None)
    fits = (
        size == rest if None not in shape else shape.count(None) == 1 and size % max(rest, 1) == 0
    )
    c.require(fits and (rest > 0 or size == 0), f"{size} elements to the shape {list(shape)}")
    return c.reshape(c.x, [size // max(rest, 1) if d is None else d for d in shape])


@operator("STABLEHLO_BROADCAST_IN_DIM", takes_quantized=True)
def broadcast_in_dim(c: Context) -> Value:
    """The operand with axis i as axis ``broadcast_dimensions[i]`` of the output, sizes of 1
    repeated; axes that are not named repeat it all."""
    dims, named = c.x.type.dims, tuple(c.options["broadcast_dimensions"])
    rank = len(c.target().shape)
    good = len(named) == len(dims) == len(set(named)) and all(0 <= a < rank for a in named)
    c.require(good, f"makes axes {list(named)} of {rank} ones of {c.x.type}")
    own = dict(zip(named, dims, strict=True))
    shape = declared_shape(c, [own.get(a) for a in range(rank)])
    fits = all(size in (1, shape[a]) for a, size in own.items())
    c.require(fits, f"makes {list(shape)} of {c.x.type} along {list(named)}")
    x = c.transpose(c.x, sorted(range(len(dims)), key=lambda i: named[i]))
    x = c.reshape(x, [own.get(a, 1) for a in range(rank)])
    return x if x.type.dims == shape else c.add(Expand(shape), x)


@operator("STABLEHLO_CONCATENATE", inputs=(1, None), takes_quantized=True)
def concatenate(c: Context) -> Value:
    """The operands joined along an axis."""
    rank, axis = c.x.type.rank, c.options["dimension"]
    c.require(0 <= axis < rank, f"joins along axis {axis} of {c.x.type}")
    values = [c.value(i) for i in range(len(c.inputs))]
    quants = {_quant(c, i) for i in range(len(c.inputs))}
    c.require(len(quants) == 1, "joins quantized tensors of several scales")
    return c.add(Concat(axis), *values) if len(values) > 1 else c.x


def _quant(c: Context, number: int) -> tuple[bytes, bytes] | None:
    source = c.source(number)
    found = source.quant if source.is_quantized else None
    return None if found is None else (found.scale.tobytes(), found.zero_point.tobytes())


@operator("STABLEHLO_SLICE", takes_quantized=True)
def slice_(c: Context) -> Value:
    """Elements from ``start_indices`` up to before ``limit_indices``, ``strides`` apart."""
    starts, limits, steps = (
        tuple(c.options[name]) for name in ("start_indices", "limit_indices", "strides")
    )
    dims = c.x.type.dims
    what = f"slices {c.x.type} from {list(starts)} to {list(limits)} by {list(steps)}"
    c.require(len(starts) == len(limits) == len(steps) == len(dims), what)
    inside = all(
        0 <= a <= b <= d and s > 0 for a, b, s, d in zip(starts, limits, steps, dims, strict=True)
    )
    c.require(inside, what)
    return c.add(Slice(starts, limits, tuple(range(len(dims))), steps), c.x) if dims else c.x


@operator("STABLEHLO_TRANSPOSE", takes_quantized=True)
def transpose(c: Context) -> Value:
    """Axis i of the output is axis ``permutation[i]`` of the operand."""
    perm = tuple(c.options["permutation"])
    good = sorted(perm) == list(range(c.x.type.rank))
    c.require(good, f"permutes {c.x.type} by {list(perm)}")
    return c.transpose(c.x, perm)


@operator("STABLEHLO_PAD", inputs=2, takes_quantized=True)
def pad(c: Context) -> Value:
    """The operand with places of the second operand, a scalar, between its elements and around
    them; negative edges cut off what the places between have made."""
    value = c.value(1)
    good = value.type.size == 1 and value.type.dtype is c.x.type.dtype
    c.require(good, f"pads {c.x.type} with {value.type}")
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = (c.options[name] for name in names)
    if len(low) == len(high) == len(interior) == c.x.type.rank and min(interior, default=0) >= 0:
        sizes = padded_shape(c.x.type.dims, low, high, interior)
        near = max((abs(n) for n in (*low, *high, *interior, *sizes)), default=0) < _INT32_END
        c.require(near, f"pads {c.x.type} by {list(low)}, {list(high)} and {list(interior)}")
        if min(sizes, default=1) <= 0:  # TensorFlow Lite leaves nothing along the other axes either
            return c.add(Expand((0,) * len(sizes)), c.reshape(value, ()))
        hold_to_declared(c, sizes)
    return padded(c, c.x, low, high, interior, c.reshape(value, ()))


@operator("STABLEHLO_IOTA", inputs=0)
def iota(c: Context) -> Value:
    """Numbers from 0 on along an axis of the output."""
    shape, axis, dtype = declared_shape(c), c.options["iota_dimension"], c.target().dtype
    c.require(0 <= axis < len(shape), f"counts along axis {axis} of {list(shape)}")
    c.require(dtype.is_float or dtype.is_integer or dtype is DType.BOOL, f"counts in {dtype.value}")
    numbers = np.arange(c.makeable(shape[axis]), dtype=np.int64).astype(dtype.numpy)
    rows = c.constant(numbers.reshape(-1, *[1] * (len(shape) - axis - 1)), "numbers")
    return rows if rows.type.dims == shape else c.add(Expand(shape), rows)
