"""Ops that select, scatter and find for the tests of lowering: op, inputs, constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vknn.graph import DType, Op
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.generator.numbers import GeneratorNormal, GeneratorUniform
from vknn.ops.indexing.gather import GatherND, SearchSorted
from vknn.ops.indexing.nonzero import NonZero, Unique
from vknn.ops.indexing.scatter import REDUCTIONS, ScatterND
from vknn.ops.movement.rearrange import ReverseSequence
from vknn.ops.random import (
    RandomBernoulli,
    RandomCategorical,
    RandomNormal,
    RandomUniform,
)

I8, I32 = np.int8, np.int32
IMAGE = (1, 13, 9, 11)


def cases() -> Iterator[tuple[Op, tuple[Any, ...], tuple[int, ...]]]:
    """Small ones of each kernel and variant."""
    for batch in (0, 1):
        yield GatherND(batch), (IMAGE, ((1, 5, 2), I32)), ()
        yield GatherND(batch), (((3, 5, 8), I8), ((3, 2, 1), I32)), ()
    for dtype in (np.float32, I32):
        yield SearchSorted(), (((7,), dtype), ((3, 5), dtype)), ()
    for reduction in REDUCTIONS:
        yield ScatterND(reduction), (IMAGE, ((3, 2), I32), (3, 9, 11)), ()
        yield ScatterND(reduction), (((5, 8), I8), ((4, 1), I32), ((4, 8), I8)), ()
    for batch, time in ((0, 1), (3, 1), (1, 2)):
        yield ReverseSequence(batch, time), (IMAGE, ((IMAGE[batch],), I32)), ()
        yield ReverseSequence(0, 1), ((3, 5, 8), ((3,), I32)), ()
    for given in (IMAGE, ((5, 7), I8)):
        yield NonZero(), (given,), ()
        yield NonZero(DType.FLOAT32), (given,), ()
    for given in ((37,), ((200,), I32)):
        yield Unique(), (given,), ()
    for sigma in (0.0, 0.5):
        yield NonMaxSuppression(5, 0.5, soft_sigma=sigma), ((2, 41, 4), (2, 3, 41)), ()
    for kind in (RandomUniform, RandomNormal, RandomBernoulli):
        for shape in (IMAGE, (37,)):
            yield kind(shape), (((1,), I32),), ()
    for numbers in (GeneratorUniform, GeneratorNormal):
        for shape in (IMAGE, (37,)):
            yield numbers(shape), (((2,), I32),), ()
    for weights in ((41,), (5, 7)):
        yield RandomCategorical(11), (weights, ((1,), I32)), ()
