"""Random numbers: with a seed the same ones in each session, otherwise others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.formats.onnx.small_floats import as_float
from vknn.graph import DType, Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.casting import LowPrecisionCast
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.movement.shape import Expand, Identity
from vknn.ops.random import RandomCategorical, RandomNormal, RandomUniform
from vknn.ops.reduction import Softmax

_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.BFLOAT16)


def drawn(c: Context, make: Callable[[int], Op], *inputs: Value) -> Value:
    """The result of an op for the node's seed, of ``inputs`` and the number of the draw."""
    found = c.attribute("seed")
    if found is None:
        return c.add(make(0), *inputs, c.draw(False))
    bits = np.float32(found.value).view(np.uint32) if found.kind == "float" else found.value
    return c.add(make(int(bits) & ((1 << 64) - 1)), *inputs, c.draw(True))


def _normal(c: Context, dims: tuple[int, ...], kind: DType) -> Value:
    mean, deviation = c.float("mean", 0.0), c.float("scale", 1.0)
    return _numbers(c, dims, kind, lambda seed: RandomNormal(dims, seed, mean, deviation))


def _uniform(c: Context, dims: tuple[int, ...], kind: DType) -> Value:
    low, high = c.float("low", 0.0), c.float("high", 1.0)
    return _numbers(c, dims, kind, lambda seed: RandomUniform(dims, seed, low, high))


def _numbers(c: Context, dims: tuple[int, ...], kind: DType, make: Callable[[int], Op]) -> Value:
    c.require(min(dims, default=0) >= 0, f"{list(dims)} is no shape")
    c.require(kind in _FLOATS, f"makes numbers of {kind.value}, which are no floats")
    return c.cast(drawn(c, make), kind)


@operator("RandomNormal", 1, 22, inputs=0, any_type=True)
def random_normal(c: Context) -> Value:
    """Normally distributed numbers in a shape of the file"""
    return _normal(c, c.int_list("shape"), c.dtype("dtype", DType.FLOAT32))


@operator("RandomUniform", 1, 22, inputs=0, any_type=True)
def random_uniform(c: Context) -> Value:
    """Numbers from ``low`` to below ``high``, all as likely, in a shape of the file"""
    return _uniform(c, c.int_list("shape"), c.dtype("dtype", DType.FLOAT32))


@operator("RandomNormalLike", 1, 22, any_type=True)
def random_normal_like(c: Context) -> Value:
    """Normally distributed numbers in the shape of the input"""
    return _normal(c, c.x.type.dims, c.dtype("dtype", c.x.type.dtype))


@operator("RandomUniformLike", 1, 22, any_type=True)
def random_uniform_like(c: Context) -> Value:
    """Numbers from ``low`` to below ``high``, all as likely, in the shape of the input"""
    return _uniform(c, c.x.type.dims, c.dtype("dtype", c.x.type.dtype))


@operator("Bernoulli", 15, 22, any_type=True)
def bernoulli(c: Context) -> Value:
    """1 with the probability that the input says, else 0"""
    chosen = happens(c, c.cast(c.x, DType.FLOAT32))
    return c.cast(chosen, c.dtype("dtype", c.x.type.dtype))


def happens(c: Context, probability: Value) -> Value:
    """Truths, each with its probability of float32."""
    dims = probability.type.dims
    numbers = drawn(c, lambda seed: RandomUniform(dims, seed))
    return c.add(Less(), numbers, probability)


@operator("Multinomial", 7, 22)
def multinomial(c: Context) -> Value:
    """Classes drawn for each row by the logarithms of their probabilities"""
    count, kind = c.int("sample_size", 1), c.dtype("dtype", DType.INT32)
    c.require(c.rank == 2 and c.x.type.dims[1] > 0, f"takes rows of classes, not {c.x.type}")
    c.require(count > 0, f"draws {count} samples")
    c.require(kind in (DType.INT32, DType.INT64), f"makes classes of {kind.value}")
    weights = c.add(Softmax(-1), c.cast(c.x, DType.FLOAT32))
    return c.cast(drawn(c, lambda seed: RandomCategorical(count, seed), weights), kind)


def _dropped(c: Context, ratio: float) -> tuple[Value, Value]:
    """The first input with such a part of its elements 0, the others larger; which are kept."""
    x = as_float(c, c.x)
    kind = x.type.dtype
    part = c.constant(np.asarray(1.0 - ratio, np.float32), "part")
    kept = happens(c, c.add(Expand(x.type.dims), part))
    scaled = c.add(ew.Mul(), x, c.scalar(1.0 / (1.0 - ratio), kind))
    found = c.add(Where(), kept, scaled, c.scalar(0.0, kind))
    if c.x.type.dtype is not kind:
        found = c.add(LowPrecisionCast(c.x.type.dtype), found)
    return found, kept


@operator("Dropout", 1, 6, 7, 10, 12, 13, 22, inputs=(1, 3), outputs=(1, 2), any_type=True)
def dropout(c: Context) -> tuple[Value, ...]:
    """The input; in training mode with a part of it 0, drawn anew in each run"""
    if c.version >= 12 and c.optional(2) is not None and bool(c.number(2, "training_mode")):
        ratio = 0.5 if c.optional(1) is None else float(c.number(1, "ratio"))
        c.require(0.0 <= ratio < 1.0, f"drops a part of {ratio}")
        if ratio != 0.0:
            return _dropped(c, ratio)
    kind = DType.BOOL if c.version >= 10 else c.x.type.dtype
    ones = c.constant(np.ones((), kind.numpy), "one")
    found = c.add(Identity(), c.x)
    return (found, c.add(Expand(c.x.type.dims), ones)) if c.wants(1) else (found,)
