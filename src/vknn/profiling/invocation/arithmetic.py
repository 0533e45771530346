"""Arithmetic of an invocation as Python computes it: what generated code calls.

Floats are Python's, 64 bits wide; what Python refuses (a root of -1, a division by zero) is NaN or
infinity, as on a GPU. Integers are kept within their width by the code that calls.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

Value = Any  # bool, int, float, or a tuple of these for vectors, arrays and structs


class TooLong(Exception):
    """An invocation that takes more rounds of loops than are allowed."""


def at(value: tuple[Value, ...], index: int) -> Value:
    """An element; an index out of range means the nearest."""
    return value[min(max(index, 0), len(value) - 1)]


def put(value: Value, path: tuple[int, ...], new: Value) -> Value:
    """``value`` with the element at ``path`` replaced."""
    if not path:
        return new
    index = min(max(path[0], 0), len(value) - 1)
    return (*value[:index], put(value[index], path[1:], new), *value[index + 1 :])


def quotient(a: int, b: int) -> int:
    """``a`` by ``b``, towards 0; 0 where ``b`` is."""
    if not b:
        return 0
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def divided(a: float, b: float) -> float:
    """``a`` by ``b`` by the rules of IEEE 754."""
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a)


def whole(a: float) -> int:
    """``a`` without what is behind the point; 0 for what is no number."""
    return int(a) if math.isfinite(a) else 0


def bits(value: Value, source: str, target: str) -> Value:
    """Bits of a scalar or vector read as another type; formats are those of ``struct``."""
    values = value if isinstance(value, tuple) else (value,)
    data = struct.pack(f"<{len(values)}{source}", *values)
    count = len(data) // struct.calcsize(target)
    found = struct.unpack(f"<{count}{target}", data)
    return found if count > 1 else found[0]


def guarded(function: Callable[..., float]) -> Callable[..., float]:
    """``function`` with NaN instead of an error."""

    def call(*arguments: float) -> float:
        try:
            return function(*arguments)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    return call


def _sign(a: float) -> float:
    return type(a)((a > 0) - (a < 0))


def _clamp(a: float, low: float, high: float) -> float:
    return min(max(a, low), high)


def _lowest_bit(a: int) -> int:
    return (a & -a).bit_length() - 1


def _highest_bit(a: int) -> int:
    return (~a if a < 0 else a).bit_length() - 1


def _packed_halves(a: float, b: float) -> int:
    return _half_bits(a) | _half_bits(b) << 16


def _half_bits(a: float) -> int:
    try:
        return int.from_bytes(struct.pack("<e", a), "little")
    except OverflowError:
        return 0xFC00 if a < 0 else 0x7C00


def _unpacked_half(word: int, place: int) -> float:
    """The half at ``place`` (0 or 1) of a word."""
    return float(struct.unpack("<e", (word >> 16 * place & 0xFFFF).to_bytes(2, "little"))[0])


#: Instructions that pack two components into a word, and that part one.
PACK_HALVES, UNPACK_HALVES = 58, 62
#: Number in GLSL.std.450 -> function of scalars; unsigned integers come as they are, not negative.
EXTENDED: dict[int, Callable[..., float]] = {
    1: guarded(round),
    2: guarded(round),
    3: guarded(math.trunc),
    4: abs,
    5: abs,
    6: _sign,
    7: _sign,
    8: guarded(math.floor),
    9: guarded(math.ceil),
    10: guarded(lambda a: a - math.floor(a)),
    13: guarded(math.sin),
    14: guarded(math.cos),
    21: math.tanh,
    26: guarded(math.pow),
    27: guarded(math.exp),
    28: guarded(math.log),
    29: guarded(lambda a: 2.0**a),
    30: guarded(math.log2),
    31: guarded(math.sqrt),
    32: guarded(lambda a: 1 / math.sqrt(a)),
    37: min,
    38: min,
    39: min,
    40: max,
    41: max,
    42: max,
    43: _clamp,
    44: _clamp,
    45: _clamp,
    46: lambda a, b, t: a + (b - a) * t,
    48: lambda edge, a: float(a >= edge),
    50: lambda a, b, c: a * b + c,
    PACK_HALVES: _packed_halves,
    UNPACK_HALVES: _unpacked_half,
    73: _lowest_bit,
    74: _highest_bit,
    75: _highest_bit,
    79: min,
    80: max,
    81: _clamp,
}
