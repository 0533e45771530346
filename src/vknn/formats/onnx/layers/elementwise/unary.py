"""Functions of one tensor."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import Convert, operator
from vknn.formats.onnx.small_floats import as_float
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.bits import BitwiseNot
from vknn.ops.elementwise.logic import Equal, Greater, Not, NotEqual, Where
from vknn.ops.movement.shape import Identity


def _plain(op: Op) -> Convert:
    def convert(c: Context) -> Value:
        return c.add(op, c.x)

    convert.__doc__ = type(op).__doc__
    return convert


def _register() -> None:
    tables: tuple[tuple[tuple[int, ...], tuple[type[Op], ...]], ...] = (
        ((1, 6, 13), (ew.Abs, ew.Ceil, ew.Exp, ew.Floor, ew.Log, ew.Neg, ew.Reciprocal, ew.Sigmoid,
                      ew.Sqrt, ew.Tanh)),
        ((7, 22), (ew.Acos, ew.Asin, ew.Atan, ew.Cos, ew.Sin, ew.Tan)),
        ((9, 22), (ew.Acosh, ew.Asinh, ew.Atanh, ew.Cosh, ew.Sinh)),
        ((9, 13), (ew.Sign,)),
        ((1, 22), (ew.Softplus, ew.Softsign)),
        ((1, 6, 13, 14), (ew.Relu,)),
        ((11, 22), (ew.Round,)),
        ((14, 22), (ew.HardSwish,)),
        ((18, 22), (ew.Mish,)),
        ((1,), (Not,)),
        ((18,), (BitwiseNot,)),
    )  # fmt: skip
    for versions, ops in tables:
        for op in ops:
            operator(op.__name__, *versions)(_plain(op()))


_register()


@operator("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25, any_type=True, lists=True)
def identity(c: Context) -> Item:
    """The input itself, a tensor, a sequence or an optional."""
    found = c.item(0)
    return c.add(Identity(), found) if isinstance(found, Value) else found


@operator("Erf", 9, 13)
def erf(c: Context) -> Value:
    """The error function, 2/sqrt(pi) * integral of exp(-t^2) from 0 to x; of integers whole"""
    kind = c.x.type.dtype
    real = c.x if kind.is_float else c.cast(c.x, DType.FLOAT64)
    return c.cast(c.add(ew.Erf(), real), kind)


@operator("Celu", 12, 28)
def celu(c: Context) -> Value:
    """max(x, 0) + min(0, alpha * (e^(x/alpha) - 1))"""
    return c.add(ew.Celu(c.float("alpha", 1.0)), c.x)


@operator("Elu", 1, 6, 22)
def elu(c: Context) -> Value:
    """x, or alpha * (e^x - 1) below 0"""
    return c.add(ew.Elu(c.float("alpha", 1.0)), c.x)


@operator("LeakyRelu", 1, 6, 16)
def leaky_relu(c: Context) -> Value:
    """x, or alpha * x below 0"""
    return c.add(ew.LeakyRelu(c.float("alpha", 0.01)), c.x)


@operator("Selu", 1, 6, 22)
def selu(c: Context) -> Value:
    """gamma * x, or gamma * alpha * (e^x - 1) below 0"""
    defaults = (
        (1.6732, 1.0507) if c.version == 1 else (1.67326319217681884765625, 1.0507010221481323)
    )
    op = ew.Selu(c.float("alpha", defaults[0]), c.float("gamma", defaults[1]))
    return c.add(op, c.x)


@operator("HardSigmoid", 1, 6, 22)
def hard_sigmoid(c: Context) -> Value:
    """clip(alpha * x + beta, 0, 1)"""
    return c.add(ew.HardSigmoid(c.float("alpha", 0.2), c.float("beta", 0.5)), c.x)


@operator("Gelu", 20)
def gelu(c: Context) -> Value:
    """x/2 * (1 + erf(x/sqrt 2)), or its approximation by tanh"""
    return c.add(ew.Gelu(c.text("approximate", "none", ("none", "tanh"))), c.x)


@operator("Swish", 24)
def swish(c: Context) -> Value:
    """x * sigmoid(alpha * x)"""
    alpha = c.float("alpha", 1.0)
    if alpha == 1.0:
        return c.add(ew.Swish(), c.x)
    gate = c.add(ew.Sigmoid(), c.add(ew.Mul(), c.x, c.scalar(alpha, c.x.type.dtype)))
    return c.add(ew.Mul(), c.x, gate)


@operator("ThresholdedRelu", 1, 10, 22)
def thresholded_relu(c: Context) -> Value:
    """x above alpha, else 0"""
    alpha = c.scalar(c.float("alpha", 1.0), c.x.type.dtype)
    return c.add(Where(), c.add(Greater(), c.x, alpha), c.x, c.scalar(0, c.x.type.dtype))


@operator("Shrink", 9)
def shrink(c: Context) -> Value:
    """x - bias above lambd, x + bias below -lambd, else 0, of NaN too; integers go as floats"""
    op = ew.Shrink(c.float("bias", 0.0), c.float("lambd", 0.5))
    kind = c.x.type.dtype
    if kind.is_float:
        # NaN is neither above nor below: 0. The operator keeps it, as other formats want.
        return c.add(Where(), c.add(Equal(), c.x, c.x), c.add(op, c.x), c.scalar(0, kind))
    wide = DType.FLOAT32 if kind.itemsize < 4 else DType.FLOAT64
    return c.cast(c.add(op, c.cast(c.x, wide)), kind)


@operator("IsNaN", 9, 13, 20, any_type=True)
def is_nan(c: Context) -> Value:
    """Whether each element is NaN"""
    x = as_float(c, c.x)
    c.require(x.type.dtype.is_float, f"takes floats, not {c.x.type}")
    return c.add(NotEqual(), x, x)


@operator("IsInf", 10, 20, any_type=True)
def is_inf(c: Context) -> Value:
    """Whether each element is infinite, of the signs asked for"""
    x = as_float(c, c.x)
    kind = x.type.dtype
    c.require(kind.is_float, f"takes floats, not {c.x.type}")
    positive, negative = c.flag("detect_positive", True), c.flag("detect_negative", True)
    if positive and negative:
        return c.add(Equal(), c.add(ew.Abs(), x), c.scalar(float("inf"), kind))
    if positive or negative:
        return c.add(Equal(), x, c.scalar(float("inf" if positive else "-inf"), kind))
    never = c.add(NotEqual(), x, x)
    return c.add(Greater(), c.cast(never, DType.INT32), c.scalar(1, DType.INT32))
