"""Size expressions: string parameters such as ``-1,*(0h,2),+(1c,2)``.

A comma-separated list in prefix form. ``0w`` is the width of input 0 (w, h, d, c; n counts its
batch); numbers are ints or floats, and an operation on ints stays in ints (``/`` gives a float).
Floats are float32, and bit by bit they are the bits of one. Results are truncated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from vknn.formats.layer_errors import Malformed
from vknn.formats.ncnn.axes import size_of_axis

_Number = int | float
_TOKEN = re.compile(r"[^(),\s]+")
_SIZE = re.compile(r"(\d)([whdcn])\Z")
#: What C's scanf takes of a token; it passes over the rest of "0h//2", say.
_LITERAL = re.compile(r"(?:([+-]?\d+)|[+-])?(\.\d*)?([eE][+-]?\d+)?")
_INT_LIMIT = 1 << 31


def _floor_div(a: _Number, b: _Number) -> _Number:
    if isinstance(a, int) and isinstance(b, int):
        # C's division truncates.
        return math.trunc(a / b) if abs(a) < 1 << 53 else a // b
    return float(math.floor(_rounded(a / b)))


def _remainder(a: _Number, b: _Number) -> float:
    return math.fmod(a, b) + (b if a * b < 0 else 0)


def _alike(f: Callable[[_Number, _Number], _Number]) -> Callable[[_Number, _Number], _Number]:
    """``f`` of two ints or of two floats: of one of each, the int becomes a float."""
    return lambda a, b: f(a, b) if type(a) is type(b) else f(float(a), float(b))


def _bits(value: _Number) -> int:
    return value if isinstance(value, int) else int(np.float32(value).view(np.int32))


def _whole(f: Callable[[float], int]) -> Callable[[_Number], _Number]:
    return lambda a: a if isinstance(a, int) else f(a)


_BINARY: dict[str, Callable[[_Number, _Number], _Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _floor_div,
    "/": lambda a, b: a / b,
    "max": _alike(max),
    "min": _alike(min),
    "pow": lambda a, b: float(a) ** b,
    "fmod": math.fmod,
    "remainder": _remainder,
    "atan2": math.atan2,
    "logaddexp": lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))),
    "and": lambda a, b: _bits(a) & _bits(b),
    "or": lambda a, b: _bits(a) | _bits(b),
    "xor": lambda a, b: _bits(a) ^ _bits(b),
    "lshift": lambda a, b: _bits(a) << (_bits(b) & 31),
    "rshift": lambda a, b: _bits(a) >> (_bits(b) & 31),
}
#: Functions of the math module under their own names.
_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh"),
    *("erf", "exp", "log", "log10", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_UNARY: dict[str, Callable[[_Number], _Number]] = {
    "abs": abs,
    "neg": lambda a: -a,
    "sign": lambda a: type(a)((a > 0) - (a < 0)),
    "square": lambda a: a * a,
    "trunc": _whole(math.trunc),
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "round": _whole(lambda a: math.trunc(a + math.copysign(0.5, a))),
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    **{name: getattr(math, name) for name in _LIBRARY},
}


def evaluate(
    expression: str, shapes: Sequence[tuple[int, ...]], batches: Sequence[int] = ()
) -> tuple[int, ...]:
    """The listed values for inputs of these shapes (outermost first). Raises Malformed."""
    stack: list[_Number] = []
    try:
        for token in reversed(_TOKEN.findall(expression)):
            if token in _BINARY:
                a, b = stack.pop(), stack.pop()
                stack.append(_rounded(_BINARY[token](a, b)))
            elif token in _UNARY:
                stack.append(_rounded(_UNARY[token](stack.pop())))
            else:
                stack.append(_operand(token, shapes, batches))
            if abs(stack[-1]) >= _INT_LIMIT:
                raise OverflowError("a value beyond 32 bits")
        return tuple(int(value) for value in reversed(stack))
    except (ArithmeticError, ValueError, TypeError, IndexError) as error:
        raise Malformed(f"expression {expression!r}: {error}") from error


def _rounded(value: _Number) -> _Number:
    """Floats as float32."""
    return float(np.float32(value)) if isinstance(value, float) else value


def _operand(token: str, shapes: Sequence[tuple[int, ...]], batches: Sequence[int]) -> _Number:
    size = _SIZE.match(token)
    if not size:
        literal = _LITERAL.match(token)
        value = np.float32(float(literal[0] if literal else token))
        # "2.0" is the int before its point, but "1e2" is not the 1 before its exponent.
        whole = int(literal[1]) if literal and literal[1] else 0
        return whole if value == np.float32(whole) else float(value)
    blob = int(size[1])
    if size[2] == "n":
        return batches[blob] if batches else 1
    return size_of_axis(shapes[blob], size[2])
