"""Operators that onnxruntime joins when it saves a model."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import cropped, window
from vknn.formats.onnx.layers.convolution import convolved
from vknn.formats.onnx.layers.matmul import gemm, product
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew

_PLAIN: dict[str, Op] = {"Relu": ew.Relu(), "Tanh": ew.Tanh(), "Sigmoid": ew.Sigmoid()}


@operator("FusedConv", 1, inputs=(2, 4), domain=MICROSOFT)
def fused_conv(c: Context) -> Value:
    """Conv, the sum with another tensor, and an activation"""
    weights = c.value(1)
    x, w = cropped(c, c.x, window(c, weights.type.dims[2:], negative=True))
    found = convolved(c, x, weights, c.optional(2), w)
    if c.optional(3) is not None:
        found = c.add(ew.Add(), found, c.value(3))
    return activated(c, found)


def activated(c: Context, x: Value) -> Value:
    """The activation that a fused operator's attributes name."""
    name = c.text("activation", "")
    numbers = c.float_list("activation_params", ())
    if name in _PLAIN:
        return c.add(_PLAIN[name], x)
    if name == "LeakyRelu":
        return c.add(ew.LeakyRelu(*(numbers[:1] or (0.01,))), x)
    if name == "Clip":
        return c.add(ew.Clip(*numbers[:2]), x)
    if name == "HardSigmoid":
        return c.add(ew.HardSigmoid(*(numbers[:2] or (0.2, 0.5))), x)
    if name:
        c.refuse(f"the activation {name!r}")
    return x


@operator("FusedGemm", 1, inputs=(2, 3), domain=MICROSOFT)
def fused_gemm(c: Context) -> Value:
    """Gemm and an activation"""
    found = gemm(c)
    alpha, name = c.float("activation_alpha", 0.01), c.text("activation", "")
    if name == "LeakyRelu":
        return c.add(ew.LeakyRelu(alpha), found)
    return activated(c, found)


@operator("FusedMatMul", 1, inputs=2, domain=MICROSOFT)
@operator("TransposeMatMul", 1, inputs=2, domain=MICROSOFT)
def fused_matmul(c: Context) -> Value:
    """alpha * a @ b, either of them with its last two axes, or its batch axes, moved"""
    a = _moved(c, c.value(0), c.flag("transA"), c.flag("transBatchA"))
    b = _moved(c, c.value(1), c.flag("transB"), c.flag("transBatchB"))
    found, alpha = product(c, a, b), c.float("alpha", 1.0)
    return found if alpha == 1.0 else c.add(ew.Mul(), found, c.scalar(alpha, found.type.dtype))


def _moved(c: Context, x: Value, transposed: bool, batch: bool) -> Value:
    rank = x.type.rank
    if rank < 2:
        return x
    perm = list(range(rank))
    if batch:
        perm = [*range(1, rank - 1), 0, rank - 1]
    if transposed:
        perm[-1], perm[-2] = perm[-2], perm[-1]
    return c.transpose(x, perm)


@operator("ExpandDims", 1, inputs=2, domain=MICROSOFT, any_type=True)
def expand_dims(c: Context) -> Value:
    """A new axis of size 1"""
    axis = c.axis(int(c.number(1, "axis")), c.rank + 1)
    return c.reshape(c.x, (*c.x.type.dims[:axis], 1, *c.x.type.dims[axis:]))


@operator("BiasGelu", 1, inputs=2, domain=MICROSOFT)
def bias_gelu(c: Context) -> Value:
    """Gelu of the sum of both"""
    return c.add(ew.Gelu(), c.add(ew.Add(), c.value(0), c.value(1)))


@operator("FastGelu", 1, inputs=(1, 2), domain=MICROSOFT)
def fast_gelu(c: Context) -> Value:
    """Gelu by tanh, of the sum with a bias"""
    x = c.x if c.optional(1) is None else c.add(ew.Add(), c.x, c.value(1))
    return c.add(ew.Gelu("tanh"), x)


@operator("Gelu", 1, domain=MICROSOFT)
def gelu(c: Context) -> Value:
    """x/2 * (1 + erf(x/sqrt 2))"""
    return c.add(ew.Gelu(), c.x)


@operator("QuickGelu", 1, domain=MICROSOFT)
def quick_gelu(c: Context) -> Value:
    """x * sigmoid(alpha * x)"""
    inner = c.add(ew.Mul(), c.x, c.scalar(c.float("alpha", 1.702), c.x.type.dtype))
    return c.add(ew.Mul(), c.x, c.add(ew.Sigmoid(), inner))
