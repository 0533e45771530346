"""Activation and unary function layers."""

from __future__ import annotations

from typing import Any

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merges_batch_axes
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops.elementwise import activation as ops
from vknn.ops.elementwise import unary as functions
from vknn.ops.elementwise.binary import Add, Max, Mul, Pow, PRelu
from vknn.ops.elementwise.logic import GreaterOrEqual, Where

#: Activations without parameters.
_PLAIN: dict[str, Op] = {
    "ReLU": ops.Relu(),
    "tanh": functions.Tanh(),
    "sigmoid": ops.Sigmoid(),
    "softsign": ops.Softsign(),
    "softplus": ops.Softplus(),
}
#: Factor of the argument in the sigmoid approximation of GELU (arXiv:1606.08415).
_GELU_SIGMOID = 1.702


@layer("activation")
@merges_batch_axes
def activation(c: Context) -> Value:
    """Activation function, one of 13."""
    kind = c.params.WhichOneof("NonlinearityType")
    if kind is None:
        c.fail("names no function")
    if kind in _PLAIN:
        return c.add(_PLAIN[kind], c.x)
    a = getattr(c.params, kind)
    if kind == "linear":
        return scaled(c, c.x, a.alpha, a.beta)
    if kind == "leakyReLU":
        return c.add(ops.LeakyRelu(alpha=a.alpha), c.x)
    if kind == "thresholdedReLU":
        above = c.add(GreaterOrEqual(), c.x, c.scalar(a.alpha))
        return c.add(Where(), above, c.x, c.scalar(0.0))
    if kind == "scaledTanh":
        inner = c.add(functions.Tanh(), scaled(c, c.x, a.beta, 0.0))
        return scaled(c, inner, a.alpha, 0.0)
    if kind == "sigmoidHard":
        return c.add(ops.HardSigmoid(alpha=a.alpha, beta=a.beta), c.x)
    if kind == "ELU":
        return c.add(ops.Elu(alpha=a.alpha), c.x)
    if kind == "PReLU":
        return c.add(PRelu(), c.x, _by_channel(c, a.alpha, "alpha"))
    alpha, beta = _by_channel(c, a.alpha, "alpha"), _by_channel(c, a.beta, "beta")
    inner = c.add(ops.Softplus(), c.add(Mul(), c.x, beta))
    return c.add(Mul(), inner, alpha)


@layer("unary")
@merges_batch_axes
def unary(c: Context) -> Value:
    """Function of scale * x + shift; a scale or epsilon of 0 stands for the default.

    LOG has an epsilon only where the file gives one (coremltools' conversions do).
    """
    p, kinds = c.params, pb.UnaryFunctionLayerParams
    x = scaled(c, c.x, p.scale or 1.0, p.shift)
    epsilon = p.epsilon or 1e-6
    if p.type == kinds.RSQRT:
        return c.add(functions.Rsqrt(), c.add(Add(), x, c.scalar(epsilon)))
    if p.type == kinds.INVERSE:
        return c.add(functions.Reciprocal(), c.add(Add(), x, c.scalar(epsilon)))
    if p.type == kinds.LOG and p.epsilon:
        x = c.add(Add(), x, c.scalar(p.epsilon))
    if p.type == kinds.POWER:
        return c.add(Pow(), x, c.scalar(p.alpha))
    if p.type == kinds.THRESHOLD:
        return c.add(Max(), x, c.scalar(p.alpha))
    rest: dict[int, Op] = {
        kinds.SQRT: functions.Sqrt(),
        kinds.EXP: functions.Exp(),
        kinds.LOG: functions.Log(),
        kinds.ABS: functions.Abs(),
    }
    c.require(p.type in rest, f"there is no function of type {p.type}")
    return c.add(rest[p.type], x)


@layer("clampedReLU")
@merges_batch_axes
def clamped_relu(c: Context) -> Value:
    """min(beta, x), or min(beta, alpha * x) below 0."""
    y = c.add(ops.LeakyRelu(alpha=c.params.alpha), c.x)
    return c.add(ops.Clip(max=c.params.beta), y)


@layer("gelu")
@merges_batch_axes
def gelu(c: Context) -> Value:
    """GELU (arXiv:1606.08415): x times the normal distribution function, or an approximation."""
    kinds, mode = pb.GeluLayerParams, c.params.mode
    if mode == kinds.SIGMOID_APPROXIMATION:
        share = c.add(ops.Sigmoid(), scaled(c, c.x, _GELU_SIGMOID, 0.0))
        return c.add(Mul(), c.x, share)
    c.require(mode in (kinds.EXACT, kinds.TANH_APPROXIMATION), f"there is no mode {mode}")
    return c.add(ops.Gelu("none" if mode == kinds.EXACT else "tanh"), c.x)


def scaled(c: Context, x: Value, factor: float, shift: float) -> Value:
    """factor * x + shift."""
    if factor != 1.0:
        x = c.add(Mul(), x, c.scalar(factor))
    return x if shift == 0.0 else c.add(Add(), x, c.scalar(shift))


def _by_channel(c: Context, message: Any, what: str) -> Value:
    """Numbers, one or one per index of axis -3, in a shape that broadcasts to the input."""
    dims = c.x.type.dims
    channels = dims[-3] if len(dims) >= 3 else 1
    array = c.weight(message, 1 if _is_single(message, channels) else channels, what)
    return c.constant(array.reshape(-1, 1, 1) if array.size > 1 else array[0], what)


def _is_single(message: Any, channels: int) -> bool:
    """Whether a WeightParams holds one number although it could hold one per channel."""
    bits = message.quantization.numberOfBits
    lengths = {
        len(message.floatValue): (1, channels),
        len(message.float16Value): (2, 2 * channels),
        len(message.rawValue): ((bits + 7) // 8, (channels * bits + 7) // 8),
    }
    return any(length and length == one != many for length, (one, many) in lengths.items())
