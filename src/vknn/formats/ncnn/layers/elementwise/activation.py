"""Activation layers.

ncnn differs: Softplus and the exponentials of UnaryOp overflow, to infinity or a number near the
largest one, where exp(x) does; here Softplus is x there and exponentials are infinite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.ncnn.context import Context, per_outermost, shape
from vknn.formats.ncnn.params import Params, param
from vknn.formats.ncnn.registry import FLOAT_OR_INT8, layer, same_type
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Op, Value, attributes
from vknn.ops.elementwise import (
    Abs,
    Cast,
    Celu,
    Clip,
    Elu,
    Erf,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    PRelu,
    Relu,
    Selu,
    Shrink,
    Sigmoid,
    Softplus,
    Swish,
    Tanh,
    Threshold,
)
from vknn.ops.quantized.linear import QuantizeLinear

_FLOAT_MAX = float(np.finfo(np.float32).max)


def _plain(name: str, op: Callable[[], Op]) -> None:
    """Registers a layer without parameters that is one op."""
    layer(name)(lambda c: c.add(op(), c.x))


for _name, _op in {
    "AbsVal": Abs,
    "BNLL": Softplus,
    "Erf": Erf,
    "Mish": Mish,
    "Sigmoid": Sigmoid,
    "Softplus": Softplus,
    "Swish": Swish,
    "TanH": Tanh,
}.items():
    _plain(_name, _op)


@attributes
class ReluParams(Params):
    """Parameters of ReLU."""

    slope: float = param(0, 0.0)


@layer("ReLU", params=ReluParams, accepts=FLOAT_OR_INT8, result=same_type)
def relu(c: Context[ReluParams]) -> Value:
    """ReLU, or leaky ReLU with a slope; int8 blobs stay int8.

    ncnn differs: with a slope an int8 blob is unchanged.
    """
    slope = c.params.slope
    if c.x.type.dtype is not DType.INT8:
        return c.add(LeakyRelu(alpha=slope) if slope else Relu(), c.x)
    if slope:
        return c.x
    y = c.add(Relu(), c.add(Cast(DType.FLOAT32), c.x))
    return c.add(
        QuantizeLinear(dtype=DType.INT8, low=-127, high=127, rounding="half_away", multiply=True),
        y,
        c.scalar(1.0),
        None,
    )


@attributes
class ClipParams(Params):
    """Parameters of Clip."""

    min: float = param(0, -_FLOAT_MAX)
    max: float = param(1, _FLOAT_MAX)


@layer("Clip", params=ClipParams)
def clip(c: Context[ClipParams]) -> Value:
    """Elements clamped to [min, max]."""
    return c.add(Clip(min=c.params.min, max=c.params.max), c.x)


@attributes
class PReluParams(Params):
    """Parameters of PReLU."""

    num_slope: int = param(0)


@layer("PReLU", params=PReluParams, weights=lambda p: [WeightSpec("slope", (p.num_slope,))])
def prelu(c: Context[PReluParams]) -> Value:
    """Parametric ReLU: x where x >= 0, else slope * x, with a slope for all or for each channel."""
    slope = c.weight("slope")
    if slope.size == 1:
        return c.add(LeakyRelu(alpha=float(slope[0])), c.x)
    c.require(slope.size == shape(c.x)[0], f"{slope.size} slopes for {shape(c.x)[0]} channels")
    return c.add(PRelu(), c.x, per_outermost(c, slope, c.x, "slope"))


@attributes
class EluParams(Params):
    """Parameters of ELU."""

    alpha: float = param(0, 0.1)


@layer("ELU", params=EluParams)
def elu(c: Context[EluParams]) -> Value:
    """ELU: x where x > 0, else alpha * (exp(x) - 1)."""
    return c.add(Elu(alpha=c.params.alpha), c.x)


@attributes
class CeluParams(Params):
    """Parameters of CELU."""

    alpha: float = param(0, 1.0)


@layer("CELU", params=CeluParams)
def celu(c: Context[CeluParams]) -> Value:
    """CELU: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    c.require(c.params.alpha != 0, "alpha must not be 0")
    return c.add(Celu(alpha=c.params.alpha), c.x)


@attributes
class SeluParams(Params):
    """Parameters of SELU."""

    alpha: float = param(0, 1.67326324)
    lambda_: float = param(1, 1.050700987)


@layer("SELU", params=SeluParams)
def selu(c: Context[SeluParams]) -> Value:
    """SELU: lambda * (x where x > 0, else alpha * (exp(x) - 1))."""
    return c.add(Selu(alpha=c.params.alpha, gamma=c.params.lambda_), c.x)


@attributes
class GeluParams(Params):
    """Parameters of GELU."""

    fast_gelu: int = param(0)


@layer("GELU", params=GeluParams)
def gelu(c: Context[GeluParams]) -> Value:
    """GELU by the error function, or with fast_gelu by its tanh approximation."""
    return c.add(Gelu(approximate="tanh" if c.params.fast_gelu else "none"), c.x)


@attributes
class HardParams(Params):
    """Parameters of HardSigmoid and HardSwish."""

    alpha: float = param(0, 0.2)
    beta: float = param(1, 0.5)


@layer("HardSigmoid", params=HardParams)
def hard_sigmoid(c: Context[HardParams]) -> Value:
    """Hard sigmoid: alpha * x + beta clamped to [0, 1]."""
    return c.add(HardSigmoid(alpha=c.params.alpha, beta=c.params.beta), c.x)


@layer("HardSwish", params=HardParams)
def hard_swish(c: Context[HardParams]) -> Value:
    """Hard swish: x * (alpha * x + beta clamped to [0, 1])."""
    return c.add(HardSwish(alpha=c.params.alpha, beta=c.params.beta), c.x)


@attributes
class ThresholdParams(Params):
    """Parameters of Threshold."""

    threshold: float = param(0, 0.0)


@layer("Threshold", params=ThresholdParams)
def threshold(c: Context[ThresholdParams]) -> Value:
    """1 where x > threshold, else 0."""
    return c.add(Threshold(threshold=c.params.threshold), c.x)


@attributes
class ShrinkParams(Params):
    """Parameters of Shrink."""

    bias: float = param(0, 0.0)
    lambd: float = param(1, 0.5)


@layer("Shrink", params=ShrinkParams)
def shrink(c: Context[ShrinkParams]) -> Value:
    """Shrinkage: x - bias above lambd, x + bias below -lambd, else 0."""
    return c.add(Shrink(bias=c.params.bias, lambd=c.params.lambd), c.x)
