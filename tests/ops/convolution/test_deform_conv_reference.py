"""DeformConv against its sum written out, and against Conv where nothing is deformed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reference_helper import check, data, refuses
from vknn.graph import TensorType
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.deform_conv import DeformConv


def clamped(plane: np.ndarray, v: float, u: float) -> float:
    """0 outside of 0 to the size; behind the middle of the last pixel that pixel's value."""
    h, w = plane.shape
    inside = 0 <= v < h and 0 <= u < w
    return bilinear(plane, min(v, h - 1), min(u, w - 1)) if inside else 0.0


def bilinear(plane: np.ndarray, v: float, u: float) -> float:
    """Weights of the four pixels around (v, u), those outside being 0."""
    total = 0.0
    for row, column in itertools.product((0, 1), (0, 1)):
        y, x = math.floor(v) + row, math.floor(u) + column
        if 0 <= y < plane.shape[0] and 0 <= x < plane.shape[1]:
            total += (1 - abs(v - y)) * (1 - abs(u - x)) * float(plane[y, x])
    return total


def naive(
    x: np.ndarray, w: np.ndarray, offset: np.ndarray, mask: np.ndarray, op: DeformConv
) -> np.ndarray:
    """One product at a time."""
    maps, depth, kh, kw = w.shape
    n, _, oh, ow = offset.shape
    y = np.zeros((n, maps, oh, ow))
    each = x.shape[1] // op.offset_group
    for b, m, i, j in itertools.product(*map(range, y.shape)):
        first = m // (maps // op.group) * depth
        for c, p, q in itertools.product(range(depth), range(kh), range(kw)):
            tap = (first + c) // each * kh * kw + p * kw + q
            v = (
                i * op.strides[0]
                - op.pads[0]
                + p * op.dilations[0]
                + float(offset[b, 2 * tap, i, j])
            )
            u = j * op.strides[1] - op.pads[1] + q * op.dilations[1]
            u += float(offset[b, 2 * tap + 1, i, j])
            sample = clamped if op.clamped else bilinear
            value = sample(x[b, first + c], v, u) * float(mask[b, tap, i, j])
            y[b, m, i, j] += value * float(w[m, c, p, q])
    return y


# op, x, w, output size
CASES = [
    (DeformConv((1, 1), (1, 1, 1, 1), (1, 1)), (1, 2, 4, 3), (3, 2, 3, 3), (4, 3)),
    (DeformConv((2, 1), (0, 1, 1, 0), (1, 2), 2), (2, 4, 5, 6), (2, 2, 2, 2), (3, 5)),
    (DeformConv((1, 2), (0, 0, 0, 0), (1, 1), 1, 3), (1, 6, 3, 5), (2, 6, 2, 1), (2, 3)),
    (DeformConv((1, 1), (1, 1, 1, 1), (1, 1), clamped=True), (1, 2, 4, 3), (3, 2, 3, 3), (4, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=["plain", "groups", "offset groups", "clamped"])
def test_deform_conv(case: tuple) -> None:
    op, x_shape, w_shape, out = case
    taps = op.offset_group * w_shape[2] * w_shape[3]
    x, w, bias = data(*x_shape), data(*w_shape, seed=1), data(w_shape[0], seed=2)
    offset = 1.5 * data(x_shape[0], 2 * taps, *out, seed=3)
    offset[:, ::2] = np.rint(offset[:, ::2])
    mask = data(x_shape[0], taps, *out, seed=4)
    sums = naive(x, w, offset, mask, op)
    check(op, x, w, offset, None, mask, expected=sums.astype(np.float32))
    plain = naive(x, w, offset, np.ones_like(mask), op) + bias.reshape(-1, 1, 1)
    check(op, x, w, offset, bias, expected=plain.astype(np.float32))


def test_without_offsets_it_is_a_convolution() -> None:
    x, w = data(2, 6, 5, 4), data(4, 3, 3, 2, seed=1)
    attributes = (2, 1), (1, 1, 0, 1), (1, 2), 2
    (expected,) = Conv(*attributes).reference(x, w)
    offset = np.zeros((2, 12, *expected.shape[2:]), np.float32)
    check(DeformConv(*attributes), x, w, offset, expected=expected)


def test_far_places_count_as_zero() -> None:
    """Endless and undefined offsets too."""
    x, w = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    op = DeformConv((1, 1), (0, 0, 0, 0), (1, 1))
    for far in (-1.0, 1.0, 1e30, -np.inf, np.nan):
        offset = np.array([0.0, far], np.float32).reshape(1, 2, 1, 1)
        check(op, x, w, offset, expected=np.zeros((1, 1, 1, 1), np.float32))


def test_refuses() -> None:
    op = DeformConv((1, 1), (0, 0, 0, 0), (1, 1))
    x, w, offset = TensorType((1, 4, 5, 5)), TensorType((3, 4, 2, 2)), TensorType((1, 8, 4, 4))
    refuses(op, x, w, TensorType((1, 4, 4, 4)), match="offset")
    refuses(op, x, w, offset, None, TensorType((1, 8, 4, 4)), match="mask")
    refuses(op, TensorType((1, 5, 5, 5)), w, offset, match="has not the channels")
    refuses(DeformConv((1, 1), (0,) * 4, (1, 1), 1, 3), x, w, offset, match="offset group")
    refuses(op, x, TensorType((3, 4, 6, 2)), offset, match="exceeds")
    refuses(op, x, w, offset, TensorType((4,)), match="bias")
