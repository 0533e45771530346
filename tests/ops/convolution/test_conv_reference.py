"""Convolution against the sum written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reference_helper import check, data, f32, i8, i32, refuses
from vknn.graph import TensorType
from vknn.ops.common import windows
from vknn.ops.convolution.conv import Conv, ConvInteger


def naive(x: np.ndarray, w: np.ndarray, op: Conv | ConvInteger) -> np.ndarray:
    """The convolution in Python numbers: floats, or integers without rounding."""
    axes, (maps, depth, *kernel) = x.ndim - 2, w.shape
    pads = [(0, 0), (0, 0), *zip(op.pads[:axes], op.pads[axes:], strict=True)]
    x = np.pad(x, pads).astype(object)
    sizes = [
        (s - (k - 1) * d - 1) // t + 1
        for s, k, d, t in zip(x.shape[2:], kernel, op.dilations, op.strides, strict=True)
    ]
    y = np.zeros((x.shape[0], maps, *sizes), object)
    for n, m, *p in itertools.product(*map(range, y.shape)):
        first = m // (maps // op.group) * depth
        for c, *k in itertools.product(range(depth), *map(range, kernel)):
            at = [a * s + b * d for a, s, b, d in zip(p, op.strides, k, op.dilations, strict=True)]
            y[(n, m, *p)] += x[(n, first + c, *at)] * w[(m, c, *k)].item()
    return y


# x, w, strides, pads, dilations, group
CASES = [
    ((1, 1, 3), (1, 1, 1), (1,), (0, 0), (1,), 1),
    ((2, 3, 11), (5, 3, 3), (2,), (1, 2), (2,), 1),
    ((1, 6, 7), (4, 3, 3), (1,), (0, 1), (1,), 2),
    ((1, 3, 7, 5), (5, 3, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 3, 7, 5), (2, 3, 3, 2), (2, 1), (1, 0, 2, 1), (1, 2), 1),
    ((1, 2, 5, 5), (3, 2, 5, 5), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((1, 2, 2, 2), (1, 2, 3, 3), (3, 3), (4, 4, 4, 4), (1, 1), 1),
    ((1, 5, 4, 3), (5, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
    ((2, 3, 5, 4), (6, 1, 2, 3), (2, 1), (1, 1, 0, 1), (1, 2), 3),
    ((1, 6, 3, 4), (9, 2, 2, 2), (1, 2), (0, 0, 1, 1), (1, 1), 3),
    ((1, 7, 3, 5), (3, 7, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ((1, 2, 3, 4, 5), (3, 2, 2, 3, 2), (1, 2, 2), (1, 0, 1, 0, 1, 1), (2, 1, 1), 1),
    ((1, 3, 3, 3, 3), (3, 1, 2, 2, 2), (1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), 3),
    ((0, 3, 5, 5), (2, 3, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
]


@pytest.mark.parametrize(("x_shape", "w_shape", "strides", "pads", "dilations", "group"), CASES)
def test_conv(x_shape, w_shape, strides, pads, dilations, group) -> None:  # type: ignore[no-untyped-def]
    op = Conv(strides, pads, dilations, group)
    x, w, bias = data(*x_shape), data(*w_shape, seed=1), data(w_shape[0], seed=2)
    sums = naive(x, w, op).astype(np.float64)
    check(op, x, w, None, expected=sums.astype(np.float32))
    check(op, x, w, expected=sums.astype(np.float32))
    with_bias = sums + bias.reshape(-1, *[1] * len(strides))
    check(op, x, w, bias, expected=with_bias.astype(np.float32))
    integer = ConvInteger(strides, pads, dilations, group)
    x8, w8 = data(*x_shape, dtype="int8"), data(*w_shape, dtype="int8", seed=1)
    check(integer, x8, w8, expected=naive(x8, w8, integer).astype(np.int32))


def test_blocks_of_rows_join() -> None:
    """Large enough for several blocks: against a sum over shifted copies."""
    x, w = data(1, 24, 150, 150), data(16, 24, 5, 5, seed=1)
    padded = np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)]).astype(np.float64)
    expected = sum(
        np.einsum("mc,nchw->nmhw", w[:, :, i, j], padded[:, :, i : i + 150, j : j + 150])
        for i, j in itertools.product(range(5), repeat=2)
    )
    check(Conv((1, 1), (2, 2, 2, 2), (1, 1)), x, w, expected=np.float32(expected))


def test_integer_extremes_are_exact() -> None:
    x, w = np.full((1, 512, 3, 3), -128, np.int8), np.full((1, 512, 3, 3), -128, np.int8)
    op = ConvInteger((1, 1), (0, 0, 0, 0), (1, 1))
    check(op, x, w, expected=np.full((1, 1, 1, 1), 512 * 9 * 128 * 128, np.int32))


def test_infinities_and_nan_pass() -> None:
    x = np.array([[[1, np.inf, 2, np.nan, 3]]], np.float32)
    op = Conv((1,), (0, 0), (1,))
    w = np.ones((1, 1, 1), np.float32)
    check(op, x, w, expected=x)


def conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1) -> Conv:  # type: ignore[no-untyped-def]
    return Conv(strides, pads, dilations, group)


# op, types, words of the message
REFUSED = [
    (conv(), [f32(1, 3, 5, 5), f32(2, 4, 3, 3)], "channels"),
    (conv(group=2), [f32(1, 4, 5, 5), f32(3, 2, 3, 3)], "channels"),
    (conv(group=0), [f32(1, 4, 5, 5), f32(3, 2, 3, 3)], "channels"),
    (conv(), [f32(1, 3, 2, 5), f32(2, 3, 3, 3)], "extent 3 exceeds the padded input of 2"),
    (conv(dilations=(1, 3)), [f32(1, 3, 5, 5), f32(2, 3, 3, 3)], "extent 7 .* axis 1"),
    (conv(), [f32(1, 3, 5), f32(2, 3, 3)], "rank 4"),
    (conv(), [f32(1, 3, 5, 5), f32(2, 3, 3)], "weight .* rank 4"),
    (conv(), [f32(1, 3, 5, 5), f32(2, 3, 0, 3)], "empty kernel"),
    (conv(strides=(0, 1)), [f32(1, 3, 5, 5), f32(2, 3, 3, 3)], "strides"),
    (conv(dilations=(1, 0)), [f32(1, 3, 5, 5), f32(2, 3, 3, 3)], "dilations"),
    (conv(pads=(0, 0, -1, 0)), [f32(1, 3, 5, 5), f32(2, 3, 3, 3)], "pads"),
    (conv(pads=(0, 0)), [f32(1, 3, 5, 5), f32(2, 3, 3, 3)], "should have 4 values"),
    (conv(), [f32(1, 3, 5, 5), f32(2, 3, 3, 3), f32(3)], "bias has shape"),
    (conv(), [f32(1, 3, 5, 5), f32(2, 3, 3, 3), f32(2, 1)], "bias has shape"),
    (conv(), [f32(1, 3, 5, 5), i8(2, 3, 3, 3)], "wants float32"),
    (conv(), [i32(1, 3, 5, 5), i32(2, 3, 3, 3)], "floating point"),
    (conv(), [f32(1, 3, 5, 5)], "takes 2 to 3 inputs"),
    (Conv((), (), ()), [f32(1, 3), f32(2, 3)], "spatial axes"),
    (ConvInteger((1,), (0, 0), (1,)), [f32(1, 3, 5), f32(2, 3, 3)], "wants int8"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Conv, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)


def test_open_dimensions() -> None:
    assert conv().infer(f32(None, 3, None, 7), f32(2, 3, 3, 3)) == (f32(None, 2, None, 5),)


@pytest.mark.parametrize("group", [1, 2])
def test_far_padding(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where padding is not made the results are those of padding that is."""
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 4, 5, 7)).astype(np.float32)
    w = random.standard_normal((6, 4 // group, 3, 2)).astype(np.float32)
    w[1, 0, 1, 1] = np.inf
    op = Conv((3, 2), (90, 80, 95, 80), (41, 7), group)
    (found,) = op.reference(x, w, None)
    monkeypatch.setattr(windows, "FAR_PADDING", 1 << 20)
    assert np.allclose(found, op.reference(x, w, None)[0], 1e-6, 1e-6, equal_nan=True)


def test_padding_beyond_all_memory() -> None:
    far = 1 << 40
    x = np.array([[[3, 1, 2]]], np.float32)
    w = np.array([[[5, 7, 9]]], np.float32)
    y = Conv((1,), (far, far), (far,), 1).reference(x, w, None)[0]
    assert y.tolist() == [[[21, 7, 14]]]
