"""Reductions, normalisations and selections for the tests of lowering: op, inputs, constants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vknn.graph import Op
from vknn.ops.elementwise.glu import Glu
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.ops.normalization import (
    GroupNormalization,
    InstanceNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)
from vknn.ops.reduction import (
    CumProd,
    CumSum,
    LogSoftmax,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)

IMAGE = (1, 13, 9, 11)
EVEN = (2, 8, 6, 4)
ALL: tuple[type[Reduction], ...] = (
    *(ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceMax, ReduceMean),
    *(ReduceMin, ReduceProd, ReduceSum, ReduceSumSquare),
)

Given = tuple[Op, tuple[object, ...], tuple[int, ...]]


def cases() -> Iterator[Given]:
    """Small ones, and rows long enough to be cut into parts."""
    for reduction in ALL:
        for shape in (IMAGE, EVEN):
            yield reduction((1,)), (shape,), ()
            yield reduction((2, 3), False), (shape,), ()
        yield reduction(None, False), ((1, 5, 61, 67),), ()
    for number in (ReduceSum, ReduceMax):
        yield number((1, 3)), ((IMAGE, np.int32),), ()
    yield from _along()
    yield from _normalisations()


def _along() -> Iterator[Given]:
    for axis in range(4):
        for shape in (IMAGE, EVEN):
            yield CumSum(axis), (shape,), ()
            yield LogSoftmax(axis), (shape,), ()
            yield ArgMax(axis), (shape,), ()
            yield ArgMin(axis, keepdims=False), ((shape, np.int32),), ()
            yield TopK(axis, 1), (shape,), ()
            if shape[axis] > 1:
                yield Glu(axis), (shape,), ()
                yield TopK(axis, 2, sorted=False), (shape,), ()
    yield CumSum(1), ((2, 5000),), ()
    for exclusive in (False, True):
        yield CumProd(1, exclusive), (EVEN,), ()
        yield CumProd(3, exclusive, True), (IMAGE,), ()
    yield TopK(1, 20), ((2, 5000),), ()
    yield TopK(1, 2000), ((2, 5000),), ()


def _normalisations() -> Iterator[Given]:
    for shape in (IMAGE, EVEN, (1, 8, 61, 67)):
        vector = (shape[1],)
        for constants in ((), (1, 2)):
            for groups in (1, shape[1]):
                yield GroupNormalization(groups), (shape, vector, vector), constants
            yield InstanceNormalization(), (shape, vector, vector), constants
            yield RMSNormalization(), (shape, shape[-1:]), constants[:1]
        yield GroupNormalization(1), (shape, None, None), ()
        yield MeanVarianceNormalization((2, 3)), (shape,), ()
        yield NormalizeL2((1,), 1e-3, "max"), (shape,), ()
    yield GroupNormalization(2), (EVEN, (8,), (8,)), ()


#: Ops on tensors of half a gigabyte and more, with the shapes of their inputs and weights.
BIG = (1, 64, 2048, 1024)
LARGE: list[tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = [
    (ReduceSum((2, 3)), (BIG,), ()),
    (ReduceMax((1,)), (BIG,), ()),
    (ReduceMean(), (BIG,), ()),
    (CumSum(2), (BIG,), ()),
    (ArgMax(1), (BIG,), ()),
    (Glu(1), (BIG,), ()),
    (GroupNormalization(8), (BIG,), ((64,), (64,))),
    (InstanceNormalization(), (BIG,), ((64,), (64,))),
    (NormalizeL2((1,)), (BIG,), ()),
]
