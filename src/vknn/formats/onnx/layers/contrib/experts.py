"""Mixtures of experts: two-layer networks, of which each row takes a few and weighs them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.port_shapes import check_shape
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.topk import TopK
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Identity, Slice
from vknn.ops.quantized.blocks import packed_bytes, unpacked_bits
from vknn.ops.reduction import ReduceSum, Softmax

_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "geglu", "identity")
#: A row's experts are copied out where that moves less than reading all of them does.
_COPIES = 3


@dataclass(frozen=True)
class _Layer:
    """Weights [experts, out, in] and biases [experts, out] of one layer of all experts."""

    weights: Value
    bias: Value | None


@dataclass(frozen=True)
class _Routing:
    """The experts of each row, int32 [rows, k], and their weights [rows, k]."""

    places: Value
    weights: Value


@operator("MoE", 1, inputs=(5, 8), domain=MICROSOFT)
def mixture_of_experts(c: Context) -> Value:
    """Rows through the k experts with the largest softmax of ``router_probs``, weighted by it"""
    third = None if c.optional(6) is None else _Layer(c.value(6), c.optional(7))
    layers = (_Layer(c.value(2), c.optional(3)), _Layer(c.value(4), c.optional(5)), third)
    return _mixture(c, layers, None, c.flag("normalize_routing_weights"))


@operator("QMoE", 1, inputs=(6, 21), domain=MICROSOFT)
def quantized_mixture_of_experts(c: Context) -> Value:
    """MoE with weights of 2 to 8 bits or float8, which become floats when the graph is built"""
    for number in (17, 18, 19, 20):
        if c.optional(number) is not None:
            c.refuse("scales of quantized activations")
    first = _quantized_layer(c, 2, 3, 4, 11, 15, "fc1")
    second = _quantized_layer(c, 5, 6, 7, 12, 16, "fc2")
    third = None if c.optional(8) is None else _quantized_layer(c, 8, 9, 10, 13, 99, "fc3")
    # Without weights of their own onnxruntime's kernel gives the chosen experts a sum of 1.
    normal = c.optional(14) is None or c.flag("normalize_routing_weights")
    return _mixture(c, (first, second, third), c.optional(14), normal)


def _quantized_layer(
    c: Context, number: int, scale: int, bias: int, zero: int, whole: int, name: str
) -> _Layer:
    """A layer whose weights, scales and zero points are these inputs. ``whole``: global scale."""
    if c.int("weights_prepacked", 0) == 1:
        c.refuse("weights in the order of one kernel of onnxruntime (weights_prepacked)")
    kind, block = c.x.type.dtype, max(c.int("block_size", 0), 0)
    c.require(c.rank in (2, 3), f"takes rows, not {c.x.type}")
    codes = c.data(number)
    c.require(codes.ndim == 3, f"has the weights {c.value(number).type}")
    if c.text("quant_type", "int", ("int", "fp8", "fp4", "nvfp4", "mxfp4")) == "int":
        real = _of_integers(c, codes, scale, zero, name, block)
    else:
        real = _of_floats(c, codes, scale, whole, block)
    return _Layer(c.constant(real.astype(kind.numpy), name), c.optional(bias))


def _of_integers(
    c: Context, packed: np.ndarray, scale: int, zero: int, name: str, block: int
) -> np.ndarray:
    bits = c.int(f"{name}_expert_weight_bits", c.int("expert_weight_bits", 4))
    c.require(packed.dtype == np.uint8 and 2 <= bits <= 8, f"has weights of {bits} bits")
    count = packed.shape[-1] * 8 // bits
    if name == "fc1":
        count = c.x.type.dims[-1]
    fits = packed.shape[-1] == packed_bytes(count, bits)
    c.require(fits, f"has weights of {packed.shape[-1]} bytes a row")
    codes = unpacked_bits(packed, bits, count).astype(np.float32)
    scales = c.data(scale).astype(np.float32)
    blocks = -(-count // block) if block else 1
    lead = packed.shape[:-1]
    c.require(scales.size == math.prod(lead) * blocks, f"has the scales {c.value(scale).type}")
    places = np.arange(count) // (block or count)
    if c.optional(zero) is None:
        zeros = np.full(1, 1 << (bits - 1), np.float32)
    else:
        zeros = _zeros(c, zero, bits, lead, blocks)[..., places]
    return np.asarray((codes - zeros) * scales.reshape(*lead, blocks)[..., places])


def _zeros(c: Context, number: int, bits: int, lead: tuple[int, ...], blocks: int) -> np.ndarray:
    """Zero points [experts, out, blocks]; rows with one each have them packed."""
    given, count = c.data(number), blocks
    if blocks == 1 and given.ndim == 2:
        lead, count = lead[:-1], lead[-1]
    width = packed_bytes(count, bits)
    c.require(given.size == math.prod(lead) * width, f"has the zeros {c.value(number).type}")
    found = unpacked_bits(given.reshape(*lead, width), bits, count).astype(np.float32)
    return found if count == blocks and found.ndim == 3 else found[..., None]


def _of_floats(c: Context, codes: np.ndarray, scale: int, whole: int, block: int) -> np.ndarray:
    """Weights of float8: scales of square blocks, or one for each expert."""
    if codes.dtype == np.uint8:
        c.refuse(f"weights of quant_type {c.text('quant_type')!r} in uint8")
    real = codes.astype(np.float32)
    if not block:
        factor = c.data(whole).astype(np.float32).reshape(-1, 1, 1)
        c.require(len(factor) in (1, len(real)), f"has the scales {c.value(whole).type}")
        return np.asarray(real * factor)
    scales = c.data(scale).astype(np.float32)
    rows, columns = (np.arange(n) // block for n in real.shape[1:])
    wanted = (len(real), *(-(-n // block) for n in real.shape[1:]))
    c.require(scales.shape == wanted, f"has the scales {c.value(scale).type}")
    return np.asarray(real * scales[:, rows][:, :, columns])


def _mixture(
    c: Context, layers: tuple[_Layer, _Layer, _Layer | None], mixing: Value | None, normal: bool
) -> Value:
    dims, kind = c.x.type.dims, c.x.type.dtype
    c.require(len(dims) in (2, 3), f"takes rows, not {c.x.type}")
    _check_layers(c, layers, dims[-1])
    experts, rows = layers[0].weights.type.dims[0], math.prod(dims[:-1])
    router = c.value(1)
    c.require(router.type.size == rows * experts, f"has the router_probs {router.type}")
    if c.int("use_sparse_mixer", 0):
        c.refuse("use_sparse_mixer")
    if not rows:
        return c.add(Identity(), c.x)
    route = _routing(c, c.reshape(router, (rows, experts)), mixing, normal)
    count = route.places.type.dims[1]
    if _COPIES * rows * count <= experts:
        x = c.reshape(c.x, (rows, 1, 1, dims[-1]))
        taken = (None if m is None else _picked(c, m, route.places) for m in layers)
        first, second, third = taken
        assert first is not None and second is not None
        found = _through(c, x, first, second, third)
        weights, axis = c.reshape(route.weights, (rows, count, 1, 1)), 1
    else:
        x = c.reshape(c.x, (1, rows, dims[-1]))
        found = _through(c, x, *layers)
        weights = c.transpose(_spread(c, route, experts), (1, 0))
        weights, axis = c.reshape(weights, (experts, rows, 1)), 0
    total = c.add(ReduceSum((axis,), False), c.add(ew.Mul(), found, c.cast(weights, kind)))
    return c.reshape(total, dims)


def _check_layers(c: Context, layers: tuple[_Layer, _Layer, _Layer | None], width: int) -> None:
    """Check of the shapes of all weights and biases, for rows of ``width`` elements."""
    check_shape(c, layers[0].weights, "fc1_experts_weights", (None, None, width))
    experts = layers[0].weights.type.dims[0]
    for number, layer in enumerate(layers, 1):
        if layer is None:
            continue
        form = (experts, width, None) if number == 2 else (experts, None, width)
        check_shape(c, layer.weights, f"fc{number}_experts_weights", form)
        if layer.bias is not None:
            check_shape(c, layer.bias, f"fc{number}_experts_bias", layer.weights.type.dims[:2])


def _routing(c: Context, router: Value, mixing: Value | None, normal: bool) -> _Routing:
    count = c.int("k", 1)
    rows, experts = router.type.dims
    c.require(0 < count <= experts, f"takes {count} of {experts} experts")
    chances = c.add(Softmax(-1), c.cast(router, DType.FLOAT32))
    weights, places = c.add_many(TopK(1, count, True, True), chances)
    if mixing is not None:
        c.require(mixing.type.size == rows * experts, f"has the router_weights {mixing.type}")
        flat = c.cast(c.reshape(mixing, (rows * experts,)), DType.FLOAT32)
        starts = c.constant((np.arange(rows) * experts).astype(np.int32)[:, None], "rows")
        weights = c.add(Gather(0), flat, c.add(ew.Add(), places, starts))
    if normal:
        weights = c.add(ew.Div(), weights, c.add(ReduceSum((1,), True), weights))
    return _Routing(places, weights)


def _spread(c: Context, route: _Routing, experts: int) -> Value:
    """Weights of all experts, [rows, experts]; 0 for those that a row does not take."""
    rows, count = route.places.type.dims
    every = c.constant(np.arange(experts, dtype=np.int32).reshape(1, 1, -1), "experts")
    chosen = c.add(Equal(), c.reshape(route.places, (rows, count, 1)), every)
    weights = c.reshape(route.weights, (rows, count, 1))
    return c.add(ReduceSum((1,), False), c.add(Where(), chosen, weights, c.scalar(0.0)))


def _picked(c: Context, layer: _Layer, places: Value) -> _Layer:
    """The experts of each row: weights [rows, k, out, in], biases [rows, k, out]."""
    bias = None if layer.bias is None else c.add(Gather(0), layer.bias, places)
    return _Layer(c.add(Gather(0), layer.weights, places), bias)


def _through(c: Context, x: Value, first: _Layer, second: _Layer, third: _Layer | None) -> Value:
    """Both layers of experts and the activation between them."""
    name = c.text("activation_type", "relu", _ACTIVATIONS)
    inner = _product(c, x, first)
    gate: Value | None = None
    if name in ("swiglu", "geglu"):
        inner, gate = _halves(c, x, inner, third)
    elif third is not None:
        gate = _product(c, x, third)
    inner = _activated(c, name, inner, gate)
    return _product(c, inner, second)


def _product(c: Context, x: Value, layer: _Layer) -> Value:
    found = c.add(MatMul(transpose_b=True), x, layer.weights)
    if layer.bias is None:
        return found
    *lead, width = layer.bias.type.dims
    return c.add(ew.Add(), found, c.reshape(layer.bias, (*lead, 1, width)))


def _halves(c: Context, x: Value, inner: Value, third: _Layer | None) -> tuple[Value, Value]:
    """The part that is activated and the linear one, of the first layer or of two layers."""
    form, width = c.int("swiglu_fusion", 0), inner.type.dims[-1]
    if form == 0:
        if third is None:
            c.fail("has no fc3_experts_weights for its activation")
        return inner, _product(c, x, third)
    c.require(form in (1, 2) and width % 2 == 0, f"has swiglu_fusion {form} of {width} numbers")
    ends = (
        [(0, width, 2), (1, width, 2)]
        if form == 1
        else [(0, width // 2, 1), (width // 2, width, 1)]
    )
    axis = inner.type.rank - 1
    a, b = (c.add(Slice((s,), (e,), (axis,), (k,)), inner) for s, e, k in ends)
    return a, b


def _activated(c: Context, name: str, x: Value, gate: Value | None) -> Value:
    if name == "swiglu":
        assert gate is not None
        return _swiglu(c, x, gate)
    if name in ("gelu", "geglu"):
        found = c.add(ew.Gelu("tanh"), x)
    elif name == "silu":
        found = c.add(ew.Swish(), x)
    else:
        found = c.add(ew.Relu(), x) if name == "relu" else x
    return found if gate is None else c.add(ew.Mul(), found, gate)


def _swiglu(c: Context, x: Value, linear: Value) -> Value:
    """x * sigmoid(alpha * x) * (linear + beta), both held within a limit."""
    kind, limit = x.type.dtype, c.float("swiglu_limit", math.inf)
    late = c.flag("swiglu_limit_after_activation")
    bounded = limit < math.inf
    if bounded and not late:
        x = c.add(ew.Clip(-math.inf, limit), x)
    if bounded:
        linear = c.add(ew.Clip(-limit, limit), linear)
    alpha, beta = c.float("activation_alpha", 1.0), c.float("activation_beta", 0.0)
    inner = x if alpha == 1.0 else c.add(ew.Mul(), x, c.scalar(alpha, kind))
    found = c.add(ew.Mul(), x, c.add(ew.Sigmoid(), inner))
    if bounded and late:
        found = c.add(ew.Clip(-math.inf, limit), found)
    linear = linear if beta == 0.0 else c.add(ew.Add(), linear, c.scalar(beta, kind))
    return c.add(ew.Mul(), found, linear)
