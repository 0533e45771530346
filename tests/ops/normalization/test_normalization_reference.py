"""Normalisation against its formulas written out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from reference_helper import check, data, f32, i32, refuses
from vknn.crosscheck import allowances
from vknn.errors import ShapeError
from vknn.graph import Op, TensorType
from vknn.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)

RNG = np.random.default_rng(59)


@pytest.mark.parametrize("shape", [(2, 3), (1, 5, 7), (2, 3, 5, 2), (1, 2, 3, 2, 5), (0, 3, 2)])
def test_batch_normalization(shape: tuple[int, ...]) -> None:
    x, c = data(*shape), shape[1]
    scale, bias, mean = (data(c, seed=s) for s in (1, 2, 3))
    var = np.abs(data(c, seed=4))
    y = np.empty(shape, np.float32)
    for index in np.ndindex(*shape):
        k = index[1]
        y[index] = (float(x[index]) - mean[k]) / math.sqrt(var[k] + 0.01) * scale[k] + bias[k]
    check(BatchNormalization(0.01), x, scale, bias, mean, var, expected=y)


def test_batch_normalization_of_no_variance() -> None:
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    x = np.array([[1], [0], [-1]], np.float32)
    y = np.array([[np.inf], [np.nan], [-np.inf]], np.float32)
    check(BatchNormalization(0.0), x, one, zero, zero, zero, expected=y)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2, 7), 1), ((7,), 0), ((2, 3, 5), -1), ((2, 3, 5), 1), ((1, 2, 3, 5), -2), ((2, 3), 0)],
)
def test_layer_normalization(shape: tuple[int, ...], axis: int) -> None:
    x, inner = data(*shape) * 3 + 1, shape[axis % len(shape) :]
    scale, bias = data(*inner, seed=1), data(*inner, seed=2)
    rows = []
    for row in x.reshape(-1, math.prod(inner)).tolist():
        mean = math.fsum(row) / len(row)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / len(row) + 1e-3)
        rows.append([(v - mean) / deviation for v in row])
    y = np.array(rows).reshape(shape)
    op = LayerNormalization(axis, 1e-3)
    check(op, x, expected=y.astype(np.float32))
    check(op, x, None, bias, expected=(y + bias).astype(np.float32))
    check(op, x, scale, None, expected=(y * scale).astype(np.float32))
    check(op, x, scale, bias, expected=(y * scale + bias).astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "axes", "before", "after"),
    [
        ((1, 7, 3, 2), (1,), (2,), (2,)),
        ((2, 5), (1,), (1,), (2,)),
        ((1, 3, 5, 7), (2, 3), (1, 1), (1, 1)),
        ((1, 3, 5, 7), (-2, -1), (2, 0), (1, 3)),
        ((1, 3, 2), (1,), (9,), (9,)),
        ((2, 3, 1, 2, 3), (), (), ()),
    ],
)
def test_lrn(shape, axes, before, after) -> None:  # type: ignore[no-untyped-def]
    x, y = data(*shape), np.empty(shape, np.float32)
    for index in np.ndindex(*shape):
        window = [slice(i, i + 1) for i in index]
        for axis, low, high in zip(axes, before, after, strict=True):
            window[axis] = slice(max(0, index[axis] - low), index[axis] + high + 1)
        total = math.fsum(float(v) ** 2 for v in x[tuple(window)].ravel())
        y[index] = x[index] * (1.5 + 0.3 * total) ** -0.75
    check(LRN(axes, before, after, 0.3, 0.75, 1.5), x, expected=y)


def statistics(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / len(values)


def test_group_and_instance_normalization() -> None:
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
def test_normalization_over_axes(mode: str) -> None:
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


def test_root_mean_square_and_mean() -> None:
    x, scale = np.array([[3.0, 4.0]], np.float32), np.array([1.0, 2.0], np.float32)
    root = math.sqrt(12.5 + 0.5)
    (y,) = RMSNormalization(-1, 0.5).reference(x, scale)
    np.testing.assert_allclose(y, [[3 / root, 8 / root]], rtol=1e-6)
    (y,) = MeanVarianceNormalization((1,), normalize_variance=False).reference(x)
    np.testing.assert_array_equal(y, [[-0.5, 0.5]])


REFUSED = [
    (BatchNormalization(), [f32(3), *[f32(3)] * 4], "no channel axis"),
    (BatchNormalization(), [f32(1, 3), f32(3), f32(3), f32(2), f32(3)], "mean has shape"),
    (BatchNormalization(), [f32(1, 3), f32(3), f32(3), f32(3)], "takes 5 inputs"),
    (BatchNormalization(), [i32(1, 3), *[f32(3)] * 4], "floating point"),
    (LayerNormalization(2), [f32(2, 3)], "axis 2 is out of range"),
    (LayerNormalization(1), [f32(2, 3), f32(2)], "scale is"),
    (LayerNormalization(0), [f32(2, 3), f32(2, 3), f32(6)], "bias is"),
    (LayerNormalization(), [f32(2, 3), i32(3)], "wants float32"),
    (LRN((1,), (1,), ()), [f32(1, 3)], "differ in length"),
    (LRN((2,), (1,), (1,)), [f32(1, 3)], "out of range"),
    (LRN((1, -1), (1, 1), (1, 1)), [f32(1, 3)], "repeat"),
    (LRN((1,), (-1,), (1,)), [f32(1, 3)], "negative"),
]


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Op, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(2, 3, 0), (2, 0, 3), (0, 3, 5)], ids=str)
@pytest.mark.parametrize(
    "op",
    [
        LayerNormalization(),
        LayerNormalization(1),
        GroupNormalization(1),
        InstanceNormalization(),
        MeanVarianceNormalization((1, 2)),
        NormalizeL2((2,)),
        RMSNormalization(),
    ],
    ids=repr,
)
def test_nothing_is_normalised_without_a_warning(op: Op, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    (y,) = op.reference(x)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    (bound,) = allowances(op, [x], [y])
    assert np.broadcast_shapes(bound.allowed.shape, shape) == shape
