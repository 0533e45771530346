"""Elementwise functions of one tensor, and softmax."""

from __future__ import annotations

from collections.abc import Callable

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Op, Value
from vknn.ops import reduction
from vknn.ops.elementwise import activation, unary
from vknn.ops.elementwise.binary import Mul

#: Functions that map integers to integers.
_OF_INTEGERS: dict[str, Callable[[], Op]] = {
    "Abs": unary.Abs, "Neg": unary.Neg, "Negative": unary.Neg, "Sign": unary.Sign,
}  # fmt: skip
_ROUNDING: dict[str, Callable[[], Op]] = {
    "Ceiling": unary.Ceil, "Ceil": unary.Ceil, "Floor": unary.Floor, "Round": unary.Round,
}  # fmt: skip
_OF_FLOATS: dict[str, Callable[[], Op]] = {
    "Acos": unary.Acos, "Acosh": unary.Acosh, "Asin": unary.Asin, "Asinh": unary.Asinh,
    "Atan": unary.Atan, "Atanh": unary.Atanh, "Cos": unary.Cos, "Cosh": unary.Cosh,
    "Erf": unary.Erf, "Log": unary.Log, "Reciprocal": unary.Reciprocal, "Sin": unary.Sin,
    "Sinh": unary.Sinh, "Sqrt": unary.Sqrt, "Square": unary.Square, "Tan": unary.Tan,
    "SoftPlus": activation.Softplus, "SoftSign": activation.Softsign, "Mish": activation.Mish,
}  # fmt: skip


def _simple(op: Callable[[], Op]) -> Callable[[Context], Value]:
    return lambda c: c.add(op(), c.float_input())


def _same(op: Callable[[], Op]) -> Callable[[Context], Value]:
    """Converter for functions that map int32 to int32 and floats to float32."""
    return lambda c: c.add(op(), c.float_input() if c.x.type.dtype.is_float else c.int_input())


def _rounding(op: Callable[[], Op]) -> Callable[[Context], Value]:
    """Converter for rounding functions, which leave integers unchanged."""
    return lambda c: c.add(op(), c.x) if c.x.type.dtype.is_float else c.x


for _name, _op in _OF_FLOATS.items():
    layer(_name)(_simple(_op))
for _name, _op in _OF_INTEGERS.items():
    layer(_name)(_same(_op))
for _name, _op in _ROUNDING.items():
    layer(_name)(_rounding(_op))


@layer("HardSigmoid")
def hard_sigmoid(c: Context) -> Value:
    op = activation.HardSigmoid(c.float("alpha", 0.2), c.float("beta", 0.5))
    return c.add(op, c.float_input())


@layer("Selu")
def selu(c: Context) -> Value:
    standard = activation.Selu()
    op = activation.Selu(c.float("alpha", standard.alpha), c.float("gamma", standard.gamma))
    return c.add(op, c.float_input())


@layer("Gelu")
def gelu(c: Context) -> Value:
    """GELU (arXiv:1606.08415), by the error function or approximated by tanh."""
    mode = c.text("approximation_mode", "erf", choices=("erf", "none", "tanh"))
    return c.add(activation.Gelu("tanh" if mode == "tanh" else "none"), c.float_input())


@layer("Swish")
def swish(c: Context) -> Value:
    """x * sigmoid(alpha * x) (arXiv:1710.05941)."""
    alpha, x = c.float("alpha|beta", 1.0), c.float_input()
    if alpha == 1:
        return c.add(activation.Swish(), x)
    inner = c.add(activation.Sigmoid(), c.add(Mul(), x, c.scalar(alpha)))
    return c.add(Mul(), x, inner)


@layer("HSwish", "HardSwish")
def hard_swish(c: Context) -> Value:
    """x * clip(x + 3, 0, 6) / 6 (arXiv:1905.02244)."""
    return c.add(activation.HardSwish(1 / 6, 0.5), c.float_input())


@layer("SoftMax")
def softmax(c: Context) -> Value:
    """Softmax, by default along axis 1, or along the only axis of a vector."""
    return c.add(reduction.Softmax(_along(c, min(1, max(c.rank - 1, 0)))), c.float_input())


@layer("LogSoftmax")
def log_softmax(c: Context) -> Value:
    """Logarithm of softmax, by default along the last axis."""
    return c.add(reduction.LogSoftmax(_along(c, -1)), c.float_input())


def _along(c: Context, default: int) -> int:
    return c.axis(c.int("axis", default), c.rank)
