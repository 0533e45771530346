"""Random blobs: the same numbers in all runs for a seed from 0 on, else others in each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.sources import requested_shape
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew
from vknn.ops.random import RandomBernoulli, RandomCategorical, RandomNormal, RandomUniform
from vknn.ops.reduction import Softmax

_EPSILON = 1e-10


def _uniform(c: Context, shape: tuple[int, ...]) -> Op:
    p = c.params
    return RandomUniform(shape, p.seed, p.minVal, p.maxVal)


def _normal(c: Context, shape: tuple[int, ...]) -> Op:
    p = c.params
    return RandomNormal(shape, p.seed, p.mean, p.stdDev)


def _bernoulli(c: Context, shape: tuple[int, ...]) -> Op:
    p = c.params
    return RandomBernoulli(shape, p.seed, p.prob)


_KINDS: dict[str, Callable[[Context, tuple[int, ...]], Op]] = {
    "randomUniform": _uniform,
    "randomNormal": _normal,
    "randomBernoulli": _bernoulli,
}


def _draw(c: Context) -> Value:
    """The number of draws so far; always 0 for a seed from 0 on."""
    if c.params.seed < 0:
        return c.counter()
    return c.constant(np.zeros(1, np.int32), "draw")


def _random(c: Context, ending: str, shape: Sequence[int]) -> Value:
    make = _KINDS[c.layer.type.removesuffix(ending)]
    return c.add(make(c, requested_shape(c, list(shape), "the shape")), _draw(c))


@layer(*(f"{kind}Like" for kind in _KINDS))
def random_like(c: Context) -> Value:
    """Random numbers in the shape of the input."""
    return _random(c, "Like", c.x.type.dims)


@layer(*(f"{kind}Static" for kind in _KINDS), inputs=0)
def random_static(c: Context) -> Value:
    """Random numbers in a shape of the file."""
    return _random(c, "Static", c.params.outputShape)


@layer(*(f"{kind}Dynamic" for kind in _KINDS))
def random_dynamic(c: Context) -> Value:
    """Random numbers in the shape that the input holds."""
    return _random(c, "Dynamic", c.ints(0, "the shape"))


@layer("categoricalDistribution")
def categorical_distribution(c: Context) -> Value:
    """Classes drawn by probabilities along the last axis, or by the softmax of logits.

    Logits, and the logarithms of probabilities (at least about ``eps``), are divided by the
    temperature; eps 0 means 1e-10, temperature 0 means 1.
    """
    p = c.params
    temperature = p.temperature or 1.0
    c.require(temperature > 0, f"has a temperature of {temperature}")
    c.require(p.numSamples > 0, f"draws {p.numSamples} samples")
    c.require(0 not in c.x.type.dims, f"has no classes to draw from in {c.x.type}")
    requested_shape(c, [*c.x.type.dims[:-1], p.numSamples], "numSamples")
    weights = c.x
    if not p.isLogits:
        weights = c.add(ew.Add(), weights, c.scalar(p.eps or _EPSILON))
    if p.isLogits or temperature != 1.0:
        logits = weights if p.isLogits else c.add(ew.Log(), weights)
        if temperature != 1.0:
            logits = c.add(ew.Mul(), logits, c.scalar(1.0 / temperature))
        weights = c.add(Softmax(-1), logits)
    return c.add(RandomCategorical(int(p.numSamples), p.seed), weights, _draw(c))
