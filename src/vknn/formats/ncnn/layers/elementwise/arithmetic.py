"""Arithmetic: BinaryOp, UnaryOp, Eltwise, Power, Exp, Log, Bias, Scale, Dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vknn.formats.ncnn.context import Context, per_outermost, rank, shape
from vknn.formats.ncnn.params import P, Params, param, require
from vknn.formats.ncnn.registry import FLOAT_OR_INT8, layer, same_type
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Op, Value, attributes
from vknn.ops import elementwise as ops

#: op_type -> op and whether the operands are swapped.
_BINARY: tuple[tuple[Callable[[], Op], bool], ...] = (
    (ops.Add, False),
    (ops.Sub, False),
    (ops.Mul, False),
    (ops.Div, False),
    (ops.Max, False),
    (ops.Min, False),
    (ops.Pow, False),
    (ops.Sub, True),
    (ops.Div, True),
    (ops.Pow, True),
    (ops.Atan2, False),
    (ops.Atan2, True),
    (ops.Fmod, False),
    (ops.Fmod, True),
    (ops.LogAddExp, False),
    (ops.FloorDiv, False),
    (ops.FloorDiv, True),
    (ops.Remainder, False),
    (ops.Remainder, True),
)

#: op_type -> op.
_UNARY: tuple[Callable[[], Op], ...] = (
    ops.Abs,
    ops.Neg,
    ops.Floor,
    ops.Ceil,
    ops.Square,
    ops.Sqrt,
    ops.Rsqrt,
    ops.Exp,
    ops.Log,
    ops.Sin,
    ops.Cos,
    ops.Tan,
    ops.Asin,
    ops.Acos,
    ops.Atan,
    ops.Reciprocal,
    ops.Tanh,
    ops.Log10,
    ops.Round,
    ops.Trunc,
    ops.Sign,
    ops.Expm1,
    ops.Sinh,
    ops.Asinh,
    ops.Cosh,
    ops.Acosh,
    ops.Atanh,
    ops.Log1p,
)

_NATURAL = -1.0
_FROM_INPUT = -233


@attributes
class BinaryParams(Params):
    """Parameters of BinaryOp."""

    op_type: int = param(0)
    with_scalar: int = param(1)
    b: float = param(2, 0.0)

    def check(self) -> None:
        require(0 <= self.op_type < len(_BINARY), f"unknown op_type {self.op_type}")


@layer("BinaryOp", params=BinaryParams, inputs=(1, 2))
def binary_op(c: Context[BinaryParams]) -> Value:
    """Binary op of two blobs, or of a blob and a number.

    ncnn differs: fmod, floor_divide and remainder multiply by an approximate reciprocal, so that an
    integer quotient (for remainder one with a half) may come out too small; here it is exact.
    ncnn differs: a power of a negative number is near the largest float where four or more are
    computed at a time; here it is the power or NaN.
    """
    make, swapped = _BINARY[c.params.op_type]
    if c.params.with_scalar:
        c.require(len(c.inputs) == 1, "takes a number and a second input")
        a, b = c.x, c.scalar(c.params.b)
    else:
        c.require(len(c.inputs) == 2, "takes two inputs")
        a, b = broadcast_outer(c, c.inputs[0], c.inputs[1])
    return c.add(make(), b, a) if swapped else c.add(make(), a, b)


def broadcast_outer(c: Context[P], a: Value, b: Value) -> tuple[Value, Value]:
    """Both blobs with the rank of the larger, so that NumPy's rules give ncnn's result."""
    return _with_rank_of(c, a, b), _with_rank_of(c, b, a)


def _with_rank_of(c: Context[P], small: Value, large: Value) -> Value:
    """``small`` with inner axes of size 1 appended; with outer ones where it is a 1-D blob whose
    length is not that of the outermost axis (a rule of old files)."""
    missing = rank(large) - rank(small)
    if missing <= 0:
        return small
    own = shape(small)
    if rank(small) == 1 and own[0] != shape(large)[0]:
        return c.reshape(small, (1,) + (1,) * missing + own)
    return c.reshape(small, (1, *own) + (1,) * missing)


@attributes
class UnaryParams(Params):
    """Parameters of UnaryOp."""

    op_type: int = param(0)

    def check(self) -> None:
        require(0 <= self.op_type < len(_UNARY), f"unknown op_type {self.op_type}")


@layer("UnaryOp", params=UnaryParams)
def unary_op(c: Context[UnaryParams]) -> Value:
    """Function of each element, by op_type."""
    return c.add(_UNARY[c.params.op_type](), c.x)


@attributes
class EltwiseParams(Params):
    """Parameters of Eltwise."""

    op_type: int = param(0)
    coeffs: tuple[float, ...] = param(1, ())

    def check(self) -> None:
        require(0 <= self.op_type <= 2, f"unknown op_type {self.op_type}")


@layer("Eltwise", params=EltwiseParams, inputs=(2, None))
def eltwise(c: Context[EltwiseParams]) -> Value:
    """Product, sum (weighted by ``coeffs``) or maximum of equally shaped blobs."""
    first, *others = c.inputs
    for other in others:
        c.require(
            shape(other) == shape(first),
            f"its inputs differ in shape: {list(shape(first))} and {list(shape(other))}",
        )
    op = (ops.Mul, ops.Add, ops.Max)[c.params.op_type]()
    terms = list(c.inputs)
    if isinstance(op, ops.Add) and c.params.coeffs:
        coeffs = c.params.coeffs
        c.require(len(coeffs) == len(terms), f"{len(coeffs)} coefficients for {len(terms)} inputs")
        terms = [scaled(c, x, k) for x, k in zip(terms, coeffs, strict=True)]
    total = terms[0]
    for term in terms[1:]:
        total = c.add(op, total, term)
    return total


def scaled(c: Context[P], x: Value, factor: float, shift: float = 0.0) -> Value:
    """x * factor + shift, without ops for a factor of 1 and a shift of 0."""
    if factor != 1:
        x = c.add(ops.Mul(), x, c.scalar(factor))
    return c.add(ops.Add(), x, c.scalar(shift)) if shift else x


@attributes
class PowerParams(Params):
    """Parameters of Power."""

    power: float = param(0, 1.0)
    scale: float = param(1, 1.0)
    shift: float = param(2, 0.0)


@layer("Power", params=PowerParams)
def power(c: Context[PowerParams]) -> Value:
    """Power (x * scale + shift) ** power."""
    y = scaled(c, c.x, c.params.scale, c.params.shift)
    if c.params.power == 1:
        return y
    return c.add(ops.Pow(), y, c.scalar(c.params.power))


@attributes
class ExpLogParams(Params):
    """Parameters of Exp and Log."""

    base: float = param(0, _NATURAL)
    scale: float = param(1, 1.0)
    shift: float = param(2, 0.0)


@layer("Exp", params=ExpLogParams)
def exp(c: Context[ExpLogParams]) -> Value:
    """Exponential base ** (x * scale + shift)."""
    y = scaled(c, c.x, c.params.scale, c.params.shift)
    if c.params.base == _NATURAL:
        return c.add(ops.Exp(), y)
    return c.add(ops.Pow(), c.scalar(c.params.base), y)


@layer("Log", params=ExpLogParams)
def log(c: Context[ExpLogParams]) -> Value:
    """Logarithm of x * scale + shift to the base."""
    y = c.add(ops.Log(), scaled(c, c.x, c.params.scale, c.params.shift))
    if c.params.base == _NATURAL:
        return y
    with np.errstate(all="ignore"):
        factor = np.float32(1) / np.log(np.float32(c.params.base))
    return scaled(c, y, float(factor))


@attributes
class BiasParams(Params):
    """Parameters of Bias."""

    bias_data_size: int = param(0)


@layer("Bias", params=BiasParams, weights=lambda p: [WeightSpec("bias", (p.bias_data_size,))])
def bias(c: Context[BiasParams]) -> Value:
    """Addition of a value for each channel; 1-D and 2-D blobs are a single channel."""
    values = c.weight("bias")
    if rank(c.x) < 3:
        return c.add(ops.Add(), c.x, c.constant(values[:1].reshape(()), "bias"))
    c.require(values.size == shape(c.x)[0], f"{values.size} values for {shape(c.x)[0]} channels")
    return c.add(ops.Add(), c.x, per_outermost(c, values, c.x, "bias"))


@attributes
class ScaleParams(Params):
    """Parameters of Scale."""

    scale_data_size: int = param(0)
    bias_term: int = param(1)

    @property
    def dynamic(self) -> bool:
        """True where the scale is the second input."""
        return self.scale_data_size == _FROM_INPUT

    def check(self) -> None:
        require(not (self.dynamic and self.bias_term), "a scale from an input takes no bias")


def _scale_weights(p: ScaleParams) -> list[WeightSpec]:
    if p.dynamic:
        return []
    names = ("scale", "bias") if p.bias_term else ("scale",)
    return [WeightSpec(name, (p.scale_data_size,)) for name in names]


@layer("Scale", params=ScaleParams, weights=_scale_weights, inputs=(1, 2), outputs=(1, 2))
def scale(c: Context[ScaleParams]) -> Sequence[Value]:
    """Scale and bias x * scale + bias along the outermost axis; the scale may be the second input.

    A second output is the second input.
    """
    alone = len(c.inputs) == len(c.record.tops) == 1
    c.require(alone or c.params.dynamic, "takes two blobs only with the scale as an input")
    return [_scaled(c), *c.inputs[1:]][: len(c.record.tops)]


def _scaled(c: Context[ScaleParams]) -> Value:
    outermost = shape(c.x)[0]
    if c.params.dynamic:
        c.require(len(c.inputs) == 2, "takes the scale as second input")
        size = c.inputs[1].type.size
        c.require(size == outermost, f"{size} scales for {outermost} channels")
        factor = c.reshape(c.inputs[1], (1, outermost) + (1,) * (rank(c.x) - 1))
        return c.add(ops.Mul(), c.x, factor)
    size = c.params.scale_data_size
    c.require(size == outermost, f"{size} scales for {outermost} channels")
    y = c.add(ops.Mul(), c.x, per_outermost(c, c.weight("scale"), c.x, "scale"))
    if not c.params.bias_term:
        return y
    return c.add(ops.Add(), y, per_outermost(c, c.weight("bias"), c.x, "bias"))


@attributes
class DropoutParams(Params):
    """Parameters of Dropout."""

    scale: float = param(0, 1.0)


@layer("Dropout", params=DropoutParams, accepts=FLOAT_OR_INT8, result=same_type)
def dropout(c: Context[DropoutParams]) -> Value:
    """Multiplication by a factor, as at inference; with 1 any blob is passed through."""
    if c.params.scale != 1.0:
        c.require(c.x.type.dtype is DType.FLOAT32, f"cannot scale {c.x.type.dtype.value}")
    return scaled(c, c.x, c.params.scale)
