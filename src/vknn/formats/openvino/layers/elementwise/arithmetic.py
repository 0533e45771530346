"""Elementwise arithmetic, comparison and logic of several tensors, with NumPy's broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.movement.concat import same_dtype
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Op, Value
from vknn.ops.elementwise import binary, logic, unary
from vknn.ops.movement.shape import Expand

Pair = Callable[[Context, Value, Value], Value]


def _plain(op: Callable[[], Op]) -> Pair:
    return lambda c, a, b: c.add(op(), a, b)


def _logical(op: Callable[[], Op]) -> Pair:
    return lambda c, a, b: c.add(op(), as_bool(c, a), as_bool(c, b))


def _squared(c: Context, a: Value, b: Value) -> Value:
    difference = c.add(binary.Sub(), a, b)
    return c.add(binary.Mul(), difference, difference)


def _divided(c: Context, a: Value, b: Value) -> Value:
    """a / b; for integers rounded to the nearest."""
    if a.type.dtype.is_float:
        return c.add(binary.Div(), a, b)
    return c.rounded(c.add(binary.Div(), c.cast(a, DType.FLOAT32), c.cast(b, DType.FLOAT32)))


def _floor_mod(c: Context, a: Value, b: Value) -> Value:
    """a - b * floor(a / b); for floats the quotient is rounded to float32 first."""
    if not a.type.dtype.is_float:
        return c.add(binary.Mod(), a, b)
    return c.add(binary.Sub(), a, c.add(binary.Mul(), b, c.add(binary.FloorDiv(), a, b)))


_ARITHMETIC: dict[str, Pair] = {
    "sum": _plain(binary.Add),
    "sub": _plain(binary.Sub),
    "mul": _plain(binary.Mul),
    "div": _divided,
    "max": _plain(binary.Max),
    "min": _plain(binary.Min),
    "squared_diff": _squared,
    "floor_mod": _floor_mod,
    "pow": _plain(binary.Pow),
}
_TRUTHS: dict[str, Pair] = {
    "logical_and": _logical(logic.And),
    "logical_or": _logical(logic.Or),
    "logical_xor": _logical(logic.Xor),
    "less": _plain(logic.Less),
    "less_equal": _plain(logic.LessOrEqual),
    "greater": _plain(logic.Greater),
    "greater_equal": _plain(logic.GreaterOrEqual),
    "equal": _plain(logic.Equal),
    "not_equal": _plain(logic.NotEqual),
}
#: Other names in files; an empty name is a sum.
_ALIASES = {
    "": "sum", "add": "sum", "subtract": "sub", "prod": "mul",
    "mean": "mean", "and": "logical_and", "or": "logical_or", "xor": "logical_xor",
}  # fmt: skip


def as_bool(c: Context, x: Value) -> Value:
    """Whether elements differ from 0."""
    if x.type.dtype is DType.BOOL:
        return x
    return c.add(logic.NotEqual(), x, c.scalar(0, x.type.dtype))


@layer("Eltwise", inputs=(1, None))
def eltwise(c: Context) -> Value:
    """The operation, applied in turn for more than two inputs. Comparisons give 0 and 1."""
    names = (*_ARITHMETIC, *_TRUTHS, *_ALIASES)
    name = c.text("operation", "sum", choices=names)
    name = _ALIASES.get(name, name)
    values = _operands(c, arithmetic=name not in _TRUTHS)
    coefficients = c.floats("coeff", ()) if name in ("sum", "sub") else ()
    if coefficients:
        values = _weighted(c, values, coefficients)
    if name in _TRUTHS:
        c.require(len(values) == 2, f"{name} takes 2 inputs, not {len(values)}")
        return _TRUTHS[name](c, *values)
    return _folded(c, name, values)


def _folded(c: Context, name: str, values: Sequence[Value]) -> Value:
    pair = _ARITHMETIC["sum" if name == "mean" else name]
    result = functools.reduce(functools.partial(pair, c), values)
    if name == "mean":
        result = _divided(c, result, c.scalar(len(values), result.type.dtype))
    return result


def _operands(c: Context, arithmetic: bool) -> list[Value]:
    """The inputs in one dtype: int32 or float32 for arithmetic.

    It is float32 for arithmetic whose result is a float in the file.
    """
    values = list(c.inputs)
    if arithmetic:
        floats = c.port().dtype.is_float or any(v.type.dtype.is_float for v in values)
        return [c.cast(v, DType.FLOAT32 if floats else DType.INT32) for v in values]
    return same_dtype(c, values)


def _weighted(c: Context, values: Sequence[Value], coefficients: Sequence[float]) -> list[Value]:
    """The inputs times their coefficients."""
    count = len(values)
    c.require(len(coefficients) == count, f"has {len(coefficients)} coeff for {count} inputs")
    if all(k == 1 for k in coefficients):
        return list(values)
    reals = [c.cast(v, DType.FLOAT32) for v in values]
    return [
        v if k == 1 else c.add(binary.Mul(), v, c.scalar(k))
        for v, k in zip(reals, coefficients, strict=True)
    ]


@layer("Power")
def power(c: Context) -> Value:
    """(shift + scale * x) ** power; for integers rounded to the nearest."""
    exponent, scale = c.float("power", 1.0), c.float("scale", 1.0)
    shift = c.float("shift", 0.0)
    whole = c.dtype().is_integer and c.x.type.dtype.is_integer
    if exponent == 1 and whole and scale.is_integer() and shift.is_integer():
        return _affine(c, c.int_input(), int(scale), int(shift))
    y = _raised(c, _affine(c, c.float_input(), scale, shift), exponent)
    return c.rounded(y) if whole else y


def _affine(c: Context, x: Value, scale: float, shift: float) -> Value:
    if scale != 1:
        x = c.add(binary.Mul(), x, c.scalar(scale, x.type.dtype))
    return c.add(binary.Add(), x, c.scalar(shift, x.type.dtype)) if shift else x


def _raised(c: Context, x: Value, exponent: float) -> Value:
    """x ** exponent, by exact ops for exponents that have such."""
    if exponent == 0:
        return c.add(Expand(x.type.dims), c.constant(np.ones((1,) * c.rank, np.float32)))
    if exponent == 1:
        return x
    exact: dict[float, Callable[[], Op]] = {
        2.0: unary.Square, 0.5: unary.Sqrt, -1.0: unary.Reciprocal, -0.5: unary.Rsqrt,
    }  # fmt: skip
    if exponent in exact:
        return c.add(exact[exponent](), x)
    return c.add(binary.Pow(), x, c.scalar(exponent))


@layer("Select", inputs=3)
def select(c: Context) -> Value:
    """The second input where the first is not 0, else the third."""
    return c.add(logic.Where(), as_bool(c, c.x), *same_dtype(c, c.inputs[1:]))
