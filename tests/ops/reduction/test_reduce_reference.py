"""Reductions by hand and by naive loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.reduction import (
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

RNG = np.random.default_rng(59)
NAIVE: dict[type[Reduction], Callable[[Sequence[float]], float]] = {
    ReduceSum: math.fsum,
    ReduceMean: lambda v: math.fsum(v) / len(v),
    ReduceMax: max,
    ReduceMin: min,
    ReduceProd: math.prod,
    ReduceSumSquare: lambda v: math.fsum(a * a for a in v),
    ReduceL1: lambda v: math.fsum(map(abs, v)),
    ReduceL2: lambda v: math.hypot(*v),
    ReduceLogSum: lambda v: math.log(math.fsum(v)),
    ReduceLogSumExp: lambda v: math.log(math.fsum(map(math.exp, v))),
}


def rows(x: np.ndarray, axes: tuple[int, ...]) -> dict[tuple[int, ...], list[float]]:
    """The elements that are reduced together, by the place where their result stands."""
    found: dict[tuple[int, ...], list[float]] = {}
    for place in itertools.product(*map(range, x.shape)):
        kept = tuple(0 if a in axes else i for a, i in enumerate(place))
        found.setdefault(kept, []).append(float(x[place]))
    return found


@pytest.mark.parametrize("kind", NAIVE)
@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 2), (0, 1, 2)], ids=str)
def test_reductions(kind: type[Reduction], axes: tuple[int, ...]) -> None:
    x = RNG.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
    (kept,) = kind(axes, True).reference(x)
    (dropped,) = kind(tuple(a - 3 for a in axes), False).reference(x)
    for place, values in rows(x, axes).items():
        assert kept[place] == pytest.approx(NAIVE[kind](values), rel=1e-6)
    np.testing.assert_array_equal(dropped, kept.squeeze(axes))
    assert kind(axes, False).infer(TensorType.of(x)) == (TensorType.of(dropped),)


def test_reductions_of_nothing_and_of_everything() -> None:
    x = np.zeros((2, 0), np.float32)
    np.testing.assert_array_equal(ReduceSum((1,), False).reference(x)[0], [0, 0])
    np.testing.assert_array_equal(ReduceProd((1,), False).reference(x)[0], [1, 1])
    assert ReduceSum().infer(TensorType((2, 3)))[0].shape == (1, 1)
    assert ReduceSum(None, False).infer(TensorType((2, 3)))[0].shape == ()
    assert ReduceSum(()).infer(TensorType((2, 3)))[0].shape == (2, 3)
    with pytest.raises(ShapeError, match="nothing"):
        ReduceMax((1,)).infer(TensorType((2, 0)))
    with pytest.raises(ShapeError, match="repeat"):
        ReduceSum((0, -2)).infer(TensorType((2, 3)))
    with pytest.raises(ShapeError, match="axis 2"):
        ReduceSum((2,)).infer(TensorType((2, 3)))
    with pytest.raises(ShapeError):
        ReduceMean().infer(TensorType((2, 3), DType.INT32))


def test_reductions_of_integers_and_bools() -> None:
    x = np.array([[2**31 - 1, 1], [-5, 3]], np.int32)
    np.testing.assert_array_equal(ReduceSum((1,), False).reference(x)[0], [-(2**31), -2])
    np.testing.assert_array_equal(ReduceL1((1,), False).reference(x)[0], [-(2**31), 8])
    flags = np.array([[True, False], [True, True]])
    np.testing.assert_array_equal(ReduceMax((1,), False).reference(flags)[0], [True, True])
    np.testing.assert_array_equal(ReduceMin((1,), False).reference(flags)[0], [False, True])


def test_log_sum_exp_does_not_overflow() -> None:
    (y,) = ReduceLogSumExp().reference(np.full((4,), 1000, np.float32))
    assert y[0] == pytest.approx(1000 + math.log(4))
