"""Shape expressions: string parameters such as ``-1,*(0h,2),+(1c,2)``.

An expression is a comma-separated list of values in prefix notation. ``0w`` is the width of input 0
(w, h, d or c; n is its batch). Numbers are ints or floats; operations on ints give ints, but ``/``
gives a float. Floats are float32; bitwise operations take the bits of a float32. Results are
truncated.
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
#: The part of a token that C's scanf reads as a number; it ignores the rest, as in "0h//2".
_LITERAL = re.compile(r"(?:([+-]?\d+)|[+-])?(\.\d*)?([eE][+-]?\d+)?")
_INT_LIMIT = 1 << 31


def _floor_div(a: _Number, b: _Number) -> _Number:
    if isinstance(a, int) and isinstance(b, int):
        # C's division truncates.
        return math.trunc(a / b) if abs(a) < 1 << 53 else a // b
    return float(math.floor(_rounded(a / b)))


def _remainder(a: _Number, b: _Number) -> float:
    return math.fmod(a, b) + (b if a * b < 0 else 0)


def _promoted(f: Callable[[_Number, _Number], _Number]) -> Callable[[_Number, _Number], _Number]:
    """``f`` with both operands as floats where one of them is a float."""
    return lambda a, b: f(a, b) if type(a) is type(b) else f(float(a), float(b))


def _bits(value: _Number) -> int:
    """An int itself, or the bits of a float32."""
    return value if isinstance(value, int) else int(np.float32(value).view(np.int32))


def _to_int(f: Callable[[float], int]) -> Callable[[_Number], _Number]:
    """``f`` for floats; ints stay as they are."""
    return lambda a: a if isinstance(a, int) else f(a)


_BINARY: dict[str, Callable[[_Number, _Number], _Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _floor_div,
    "/": lambda a, b: a / b,
    "max": _promoted(max),
    "min": _promoted(min),
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
#: Functions that the math module has by the same names.
_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh"),
    *("erf", "exp", "log", "log10", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_UNARY: dict[str, Callable[[_Number], _Number]] = {
    "abs": abs,
    "neg": lambda a: -a,
    "sign": lambda a: type(a)((a > 0) - (a < 0)),
    "square": lambda a: a * a,
    "trunc": _to_int(math.trunc),
    "ceil": _to_int(math.ceil),
    "floor": _to_int(math.floor),
    "round": _to_int(lambda a: math.trunc(a + math.copysign(0.5, a))),
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    **{name: getattr(math, name) for name in _LIBRARY},
}


def evaluate(
    expression: str, shapes: Sequence[tuple[int, ...]], batches: Sequence[int] = ()
) -> tuple[int, ...]:
    """Values of the list for inputs of these shapes (outermost axis first) and batches.

    Raises Malformed.
    """
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
    """A float rounded to float32; an int as it is."""
    return float(np.float32(value)) if isinstance(value, float) else value


def _operand(token: str, shapes: Sequence[tuple[int, ...]], batches: Sequence[int]) -> _Number:
    size = _SIZE.match(token)
    if not size:
        literal = _LITERAL.match(token)
        value = np.float32(float(literal[0] if literal else token))
        # "2.0" counts as the int 2, but "1e2" stays a float: its digits before the "e" are 1.
        whole = int(literal[1]) if literal and literal[1] else 0
        return whole if value == np.float32(whole) else float(value)
    blob = int(size[1])
    if size[2] == "n":
        return batches[blob] if batches else 1
    return size_of_axis(shapes[blob], size[2])
