"""Pooling against windows written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reference_helper import check, data, f32, i32, refuses
from vknn.graph import DType, Op, TensorType
from vknn.ops.common import windows
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)

LOWEST = float(np.finfo(np.float32).min)


def naive(x: np.ndarray, op: MaxPool | AveragePool) -> np.ndarray:
    """Each window as a list: of its elements within x, and how many lie outside."""
    axes = x.ndim - 2
    dilations = (op.dilations if isinstance(op, MaxPool) else None) or (1,) * axes
    sizes = [
        (x.shape[i + 2] + op.pads[i] + op.pads[i + axes] - (op.kernel[i] - 1) * dilations[i] - 1)
        // op.strides[i]
        + 1
        for i in range(axes)
    ]
    y = np.empty((*x.shape[:2], *sizes), np.float64)
    for n, c, *p in itertools.product(*map(range, y.shape)):
        inside, outside = [], 0
        for k in itertools.product(*map(range, op.kernel)):
            at = [p[i] * op.strides[i] + k[i] * dilations[i] - op.pads[i] for i in range(axes)]
            if all(0 <= a < s for a, s in zip(at, x.shape[2:], strict=True)):
                inside.append(float(x[(n, c, *at)]))
            else:
                outside += 1
        if isinstance(op, MaxPool):
            y[(n, c, *p)] = max([*inside, *[LOWEST] * min(outside, 1)])
        elif op.count_include_pad:
            y[(n, c, *p)] = sum(inside) / (len(inside) + outside)
        else:
            y[(n, c, *p)] = sum(inside) / len(inside) if inside else math.nan
    return y.astype(x.dtype)


# x, kernel, strides, pads
CASES = [
    ((1, 2, 7), (3,), (2,), (1, 1)),
    ((2, 3, 7, 5), (2, 3), (2, 1), (0, 1, 1, 0)),
    ((1, 3, 5, 5), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((1, 1, 5, 7), (5, 7), (1, 1), (0, 0, 0, 0)),
    ((1, 2, 3, 3), (2, 2), (1, 3), (3, 2, 2, 3)),
    ((1, 2, 5, 4, 3), (2, 3, 2), (1, 2, 2), (1, 0, 0, 0, 1, 1)),
    ((0, 2, 5), (2,), (1,), (0, 0)),
]


@pytest.mark.parametrize(("shape", "kernel", "strides", "pads"), CASES)
def test_windows(shape, kernel, strides, pads) -> None:  # type: ignore[no-untyped-def]
    x = data(*shape)
    for op in (
        MaxPool(kernel, strides, pads),
        AveragePool(kernel, strides, pads),
        AveragePool(kernel, strides, pads, count_include_pad=True),
    ):
        check(op, x, expected=naive(x, op))


def test_dilated_and_integer_maximum() -> None:
    x = data(1, 2, 9, 8)
    op = MaxPool((2, 3), (1, 2), (1, 0, 0, 2), (3, 2))
    check(op, x, expected=naive(x, op))
    x8 = data(1, 2, 5, dtype="int8")
    check(MaxPool((2,), (1,), (0, 0)), x8, expected=np.maximum(x8[..., :-1], x8[..., 1:]))
    full = MaxPool((1,), (1,), (1, 0))
    check(full, x8, expected=np.concatenate([np.full((1, 2, 1), -128, np.int8), x8], 2))


def test_nan_reaches_the_maximum() -> None:
    x = np.array([[[1, np.nan, 2, 3]]], np.float32)
    nan = np.float32(np.nan)
    check(MaxPool((2,), (1,), (0, 0)), x, expected=np.array([[[nan, nan, 3]]], np.float32))


@pytest.mark.parametrize("shape", [(1, 3, 7), (2, 3, 5, 4), (1, 2, 3, 4, 5), (1, 2, 1, 1)])
def test_global(shape: tuple[int, ...]) -> None:
    x = data(*shape)
    flat = x.reshape(*shape[:2], -1).astype(np.float64)
    ones = (*shape[:2], *[1] * (len(shape) - 2))
    mean = np.array([[math.fsum(c) / len(c) for c in n] for n in flat]).reshape(ones)
    check(GlobalAveragePool(), x, expected=mean.astype(np.float32))
    largest = np.array([[max(c) for c in n] for n in flat]).reshape(ones)
    check(GlobalMaxPool(), x, expected=largest.astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 2, 7), (3,)),
        ((2, 3, 7, 5), (3, 2)),
        ((1, 2, 3, 2), (5, 4)),
        ((1, 2, 6, 6), (1, 6)),
        ((1, 2, 5, 3, 4), (2, 3, 3)),
    ],
)
def test_adaptive(shape: tuple[int, ...], size: tuple[int, ...]) -> None:
    x = data(*shape)
    mean, largest = (np.empty((*shape[:2], *size), np.float32) for _ in range(2))
    for p in np.ndindex(*size):
        window = tuple(
            slice(math.floor(i * s / o), math.ceil((i + 1) * s / o))
            for i, s, o in zip(p, shape[2:], size, strict=True)
        )
        part = x[(slice(None), slice(None), *window)].reshape(*shape[:2], -1).astype(np.float64)
        mean[(..., *p)], largest[(..., *p)] = part.mean(-1), part.max(-1)
    check(AdaptiveAveragePool(size), x, expected=mean)
    check(AdaptiveMaxPool(size), x, expected=largest)


REFUSED = [
    (MaxPool((3, 3), (1, 1), (0, 0, 0, 0)), [f32(1, 3, 2, 5)], "exceeds the padded input of 2"),
    (MaxPool((3, 3), (1, 1), (0, 0, 0, 0)), [f32(1, 3, 5)], "should have 2 spatial axes"),
    (MaxPool((), (), ()), [f32(1, 3)], "no spatial axes"),
    (MaxPool((0,), (1,), (0, 0)), [f32(1, 3, 5)], "kernel"),
    (MaxPool((2,), (0,), (0, 0)), [f32(1, 3, 5)], "strides"),
    (MaxPool((2,), (1,), (-1, 0)), [f32(1, 3, 5)], "pads"),
    (MaxPool((2,), (1,), (0,)), [f32(1, 3, 5)], "should have 2 values"),
    (MaxPool((2,), (1,), (0, 0), (0,)), [f32(1, 3, 5)], "dilations"),
    (AveragePool((6,), (1,), (0, 0)), [f32(1, 3, 5)], "exceeds"),
    (AveragePool((2,), (1,), (0, 0)), [TensorType((1, 3, 5), DType.BOOL)], "takes no"),
    (GlobalAveragePool(), [f32(1, 3)], "no spatial axes"),
    (GlobalAveragePool(), [i32(1, 3, 5)], "floating point"),
    (GlobalMaxPool(), [f32(1, 3, 0)], "empty spatial axis"),
    (AdaptiveAveragePool((2, 2)), [f32(1, 3, 5)], "should have 2 spatial axes"),
    (AdaptiveAveragePool((0,)), [f32(1, 3, 5)], "below 1"),
    (AdaptiveMaxPool((2,)), [f32(1, 3, 0)], "empty spatial axis"),
]


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Op, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)


def test_open_dimensions() -> None:
    assert MaxPool((3,), (2,), (0, 0)).infer(f32(None, 3, None)) == (f32(None, 3, None),)
    assert GlobalAveragePool().infer(f32(None, 3, None)) == (f32(None, 3, 1),)
    assert AdaptiveMaxPool((2,)).infer(f32(None, 3, None)) == (f32(None, 3, 2),)


@pytest.mark.parametrize(
    "op",
    [
        MaxPool((41, 3), (7, 2), (80, 1, 90, 1), (3, 1)),
        MaxPool((2, 150), (50, 40), (100, 120, 120, 90)),
        AveragePool((41, 90), (7, 2), (80, 100, 90, 90)),
        AveragePool((130, 3), (90, 1), (100, 2, 100, 2), count_include_pad=True),
    ],
    ids=str,
)
def test_far_padding(op: MaxPool | AveragePool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where padding is not made the results are those of padding that is."""
    x = np.random.default_rng(2).standard_normal((2, 3, 5, 7)).astype(np.float32)
    x[0, 0, 1, 2], x[1, 2, :, 3] = -np.inf, np.nan
    (found,) = op.reference(x)
    monkeypatch.setattr(windows, "FAR_PADDING", 1 << 20)
    assert np.array_equal(found, op.reference(x)[0], equal_nan=True)


def test_padding_beyond_all_memory() -> None:
    far = 1 << 40
    x = np.array([[[3, 1, 2]]], np.float32)
    assert MaxPool((far,), (far,), (far, far)).reference(x)[0].tolist() == [[[LOWEST, 3]]]
    assert AveragePool((far,), (far // 2,), (far, far)).reference(x)[0][0, 0, 2] == 2
