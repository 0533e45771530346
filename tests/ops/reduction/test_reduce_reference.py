"""What reductions, running sums, selections and normalisations mean: by hand and by naive loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType
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


def lines(x: np.ndarray, axes: tuple[int, ...]) -> dict[tuple[int, ...], list[float]]:
    """The elements that belong together, by the place where their result stands."""
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
    for place, values in lines(x, axes).items():
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


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [4, 10, 17]),
        (True, False, [0, 4, 10]),
        (False, True, [17, 13, 7]),
        (True, True, [13, 7, 0]),
    ],
)
def test_running_sums(exclusive: bool, reverse: bool, expected: list[int]) -> None:
    x = np.array([4, 6, 7], np.int32)
    np.testing.assert_array_equal(CumSum(0, exclusive, reverse).reference(x)[0], expected)
    column = x.reshape(1, 3, 1).astype(np.float32)
    (y,) = CumSum(-2, exclusive, reverse).reference(column)
    np.testing.assert_array_equal(y.ravel(), expected)


def test_where_the_largest_is() -> None:
    x = np.array([[3, 1, 3, 1]], np.float32)
    assert [int(k(1).reference(x)[0][0, 0]) for k in (ArgMax, ArgMin)] == [0, 1]
    assert [int(k(1, False, True).reference(x)[0][0]) for k in (ArgMax, ArgMin)] == [2, 3]
    assert ArgMax(0, False).infer(TensorType((3, 4))) == (TensorType((4,), DType.INT32),)
    with pytest.raises(ShapeError):
        ArgMin(1).infer(TensorType((3, 0)))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("in_order", [True, False])
def test_top_k(largest: bool, in_order: bool) -> None:
    x = RNG.integers(-2, 3, (3, 9, 2)).astype(np.float32)
    values, places = TopK(1, 4, largest, in_order).reference(x)
    for i, j in itertools.product(range(3), range(2)):
        row = x[i, :, j].tolist()
        best = sorted(range(9), key=lambda n: (-row[n] if largest else row[n], n))[:4]
        best = best if in_order else sorted(best)
        assert places[i, :, j].tolist() == best
        assert values[i, :, j].tolist() == [row[n] for n in best]
    with pytest.raises(ShapeError, match="shorter"):
        TopK(1, 10).infer(TensorType((3, 9, 2)))


def statistics(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / len(values)


def test_groups_and_channels() -> None:
    x = RNG.standard_normal((2, 6, 3)).astype(np.float32)
    scale, bias = (RNG.standard_normal(6).astype(np.float32) for _ in range(2))
    cases: list[tuple[Op, int]] = [
        (GroupNormalization(2, 0.1), 3),
        (GroupNormalization(6, 0.1), 1),
        (InstanceNormalization(0.1), 1),
    ]
    for op, size in cases:
        (y,) = op.reference(x, scale, bias)
        for n, c, i in itertools.product(range(2), range(6), range(3)):
            first = c // size * size
            mean, variance = statistics(x[n, first : first + size].ravel().tolist())
            wanted = (x[n, c, i] - mean) / math.sqrt(variance + 0.1) * scale[c] + bias[c]
            assert y[n, c, i] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    with pytest.raises(ShapeError, match="4 groups"):
        GroupNormalization(4).infer(TensorType((2, 6, 3)))


MODES = {
    "add": lambda s: math.sqrt(s + 0.3),
    "add_root": lambda s: math.sqrt(s) + 0.3,
    "max": lambda s: math.sqrt(max(s, 0.3)),
    "max_root": lambda s: max(math.sqrt(s), 0.3),
}


@pytest.mark.parametrize("mode", MODES)
def test_over_axes(mode: str) -> None:
    x = (RNG.standard_normal((2, 3, 4)) * [[[0.1]], [[1.0]]]).astype(np.float32)
    (centered,) = MeanVarianceNormalization((0, 2), True, 0.3, mode).reference(x)
    (scaled,) = NormalizeL2((2,), 0.3, mode).reference(x)
    for n, c, i in itertools.product(range(2), range(3), range(4)):
        mean, variance = statistics(x[:, c].ravel().tolist())
        wanted = (x[n, c, i] - mean) / MODES[mode](variance)
        assert centered[n, c, i] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        squares = math.fsum(v * v for v in x[n, c].tolist())
        assert scaled[n, c, i] == pytest.approx(x[n, c, i] / MODES[mode](squares), rel=1e-5)
    with pytest.raises(ShapeError, match="epsilon_mode"):
        NormalizeL2((1,), 0.1, "half").infer(TensorType((2, 3)))


def test_rows() -> None:
    x, scale = np.array([[3.0, 4.0]], np.float32), np.array([1.0, 2.0], np.float32)
    root = math.sqrt(12.5 + 0.5)
    (y,) = RMSNormalization(-1, 0.5).reference(x, scale)
    np.testing.assert_allclose(y, [[3 / root, 8 / root]], rtol=1e-6)
    (y,) = LogSoftmax(-1).reference(x)
    np.testing.assert_allclose(y, [[-1 - math.log1p(math.exp(-1)), -math.log1p(math.exp(-1))]])
    (y,) = MeanVarianceNormalization((1,), normalize_variance=False).reference(x)
    np.testing.assert_array_equal(y, [[-0.5, 0.5]])


def test_halves() -> None:
    x = np.array([[1.0, 2.0, 0.0, math.log(3), 9.0]], np.float32)
    np.testing.assert_allclose(Glu(1).reference(x)[0], [[0.5, 1.5]], rtol=1e-6)
    assert Glu(-1).infer(TensorType((1, 5)))[0].shape == (1, 2)
    with pytest.raises(ShapeError, match="halves"):
        Glu(0).infer(TensorType((1, 5)))
