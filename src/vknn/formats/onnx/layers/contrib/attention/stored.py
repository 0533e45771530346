"""Caches that hold integers, or floats of a byte, with a scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vknn.formats.onnx.context import Context
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.casting import LowPrecisionCast
from vknn.ops.movement.shape import Concat, Slice

#: The largest float8_e4m3fn.
_MOST = 448.0


@dataclass(frozen=True)
class Stored:
    """Form in which a cache holds its entries: divided by ``scale``, and rounded to ``dtype``.

    ``halves``: two entries of 4 bits a byte, from -8 on, the first of them in the lower half.
    """

    dtype: DType
    scale: Value | None = None
    halves: bool = False

    def pack(self, c: Context, x: Value) -> Value:
        """Floats [..., D] as the cache holds them."""
        if self.scale is None:
            return c.cast(x, self.dtype)
        x = c.add(ew.Div(), c.cast(x, DType.FLOAT32), self.scale)
        if self.dtype is DType.FLOAT8E4M3FN:
            return c.add(LowPrecisionCast(self.dtype), c.add(ew.Clip(-_MOST, _MOST), x))
        low, high = (-8, 7) if self.halves else (-128, 127)
        x = c.add(ew.Clip(low, high), c.add(ew.Round(), x))
        if not self.halves:
            return c.cast(x, self.dtype)
        *lead, width = x.type.dims
        c.require(width % 2 == 0, f"packs rows of {width} into bytes")
        pairs = c.reshape(c.add(ew.Add(), x, c.scalar(8)), (*lead, width // 2, 2))
        axis = len(lead) + 1
        first, second = (c.add(Slice((n,), (n + 1,), (axis,)), pairs) for n in (0, 1))
        joined = c.add(ew.Add(), first, c.add(ew.Mul(), second, c.scalar(16)))
        return c.cast(c.reshape(joined, (*lead, width // 2)), self.dtype)

    def unpack(self, c: Context, x: Value) -> Value:
        """Entries of a cache as floats [..., D]."""
        if self.scale is None:
            return x
        found = c.cast(x, DType.FLOAT32)
        if self.halves:
            *lead, width = found.type.dims
            pairs = c.reshape(found, (*lead, width, 1))
            second = c.add(ew.Floor(), c.add(ew.Mul(), pairs, c.scalar(1 / 16)))
            first = c.add(ew.Sub(), pairs, c.add(ew.Mul(), second, c.scalar(16)))
            both = c.add(Concat(len(lead) + 1), first, second)
            found = c.reshape(both, (*lead, 2 * width))
            found = c.add(ew.Sub(), found, c.scalar(8))
        return c.add(ew.Mul(), found, self.scale)


def stored_as(c: Context, name: str, past: Value | None, groups: int, depth: int) -> Stored:
    """Form in which the cache of "k" or "v" holds its entries."""
    number = 12 if name == "k" else 13
    kinds = ("NONE", "PER_TENSOR", "PER_CHANNEL")
    kind = c.text(f"{name}_quant_type", "NONE", kinds)
    if kind == "NONE":
        return Stored(c.x.type.dtype if past is None else past.type.dtype)
    scale = c.cast(c.value(number), DType.FLOAT32)
    count = 1 if kind == "PER_TENSOR" else groups * depth
    c.require(math.prod(scale.type.dims) == count, f"has {scale.type} scales, not {count}")
    scale = c.reshape(scale, (1, 1, 1, 1) if count == 1 else (1, groups, 1, depth))
    bits = c.int("kv_cache_bit_width", 8) or 8
    c.require(bits in (4, 8), f"has a cache of {bits} bits")
    dtype = (DType.UINT8 if bits == 4 else DType.INT8) if past is None else past.type.dtype
    known = (DType.UINT8,) if bits == 4 else (DType.INT8, DType.FLOAT8E4M3FN)
    c.require(dtype in known, f"has a cache of {bits} bits of {dtype.value}")
    return Stored(dtype, scale, bits == 4)
