"""ConvTranspose against the sum written out, and against values worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reference_helper import check, data, refuses
from vknn.graph import TensorType
from vknn.ops.convolution.conv_transpose import ConvTranspose


def naive(x: np.ndarray, w: np.ndarray, op: ConvTranspose) -> np.ndarray:
    """Every product put where it belongs, one at a time."""
    axes, (depth, each, *kernel) = x.ndim - 2, w.shape
    extra = op.output_padding or (0,) * axes
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], op.strides, kernel, op.dilations, extra, strict=True)
    ]
    y = np.zeros((x.shape[0], each * op.group, *full))
    for n, c, *p in itertools.product(*map(range, x.shape)):
        group = c // (depth // op.group)
        for m, *k in itertools.product(range(each), *map(range, kernel)):
            at = [a * s + b * d for a, s, b, d in zip(p, op.strides, k, op.dilations, strict=True)]
            y[(n, group * each + m, *at)] += float(x[(n, c, *p)]) * float(w[(c, m, *k)])
    keep = [slice(op.pads[a], full[a] - op.pads[a + axes]) for a in range(axes)]
    return y[(..., *keep)]


# x, w, strides, pads, dilations, group, output_padding
CASES = [
    ((1, 1, 3), (1, 1, 1), (1,), (0, 0), (1,), 1, ()),
    ((2, 3, 5), (3, 4, 3), (2,), (1, 2), (2,), 1, (1,)),
    ((1, 6, 4), (6, 2, 3), (1,), (0, 1), (1,), 2, ()),
    ((1, 3, 3, 4), (3, 2, 2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, ()),
    ((2, 2, 3, 2), (2, 3, 3, 2), (2, 3), (1, 0, 2, 1), (1, 2), 1, (1, 2)),
    ((1, 4, 2, 3), (4, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 4, ()),
    ((1, 3, 2, 3, 2), (3, 2, 2, 1, 2), (1, 2, 2), (1, 0, 0, 0, 0, 1), (2, 1, 1), 1, ()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "x".join(map(str, c[0])))
def test_conv_transpose(case: tuple) -> None:
    x_shape, w_shape, *attributes = case
    op = ConvTranspose(*attributes)
    x, w, bias = data(*x_shape), data(*w_shape, seed=1), data(w_shape[1] * op.group, seed=2)
    sums = naive(x, w, op)
    check(op, x, w, expected=sums.astype(np.float32))
    shaped = bias.reshape(-1, *[1] * (x.ndim - 2))
    check(op, x, w, bias, expected=(sums + shaped).astype(np.float32))


def f32(values: list) -> np.ndarray:
    return np.array(values, np.float32)


def test_by_hand() -> None:
    op = ConvTranspose((2,), (0, 0), (1,))
    check(op, f32([[[1, 10]]]), f32([[[1, 2, 3]]]), expected=f32([[[1, 2, 13, 20, 30]]]))
    cut = ConvTranspose((2,), (1, 1), (1,), output_padding=(1,))
    check(cut, f32([[[1, 10]]]), f32([[[1, 2, 3]]]), expected=f32([[[2, 13, 20, 30]]]))


def test_refuses() -> None:
    x, w = TensorType((1, 4, 5, 5)), TensorType((4, 3, 2, 2))
    one = ((1, 1), (0,) * 4, (1, 1))
    refuses(ConvTranspose(*one), TensorType((1, 3, 5, 5)), w, match="has not the channels")
    refuses(ConvTranspose(*one, 3), x, w, match="has not the channels")
    refuses(ConvTranspose((1, 1), (3,) * 4, (1, 1)), x, w, match="cut 6 of the 6")
    refuses(ConvTranspose((0, 1), (0,) * 4, (1, 1)), x, w, match="strides")
    refuses(ConvTranspose(*one, 1, (-1, 0)), x, w, match="output_padding")
    refuses(ConvTranspose(*one), x, w, TensorType((4,)), match="bias has shape")
    refuses(ConvTranspose(*one), x, TensorType((4, 3, 2)), match="rank 4")


def test_open_dimensions_stay_open() -> None:
    op = ConvTranspose((2, 2), (0,) * 4, (1, 1))
    x, w = TensorType((None, 4, None, 3)), TensorType((4, 3, 2, 2))
    assert op.infer(x, w) == (TensorType((None, 3, None, 6)),)


def test_pads_that_cut_off_more_than_all_memory() -> None:
    far = 1 << 40
    op = ConvTranspose((far,), (far, far), (1,))
    x, w = f32([[[1, 10, 100]]]), f32([[[1, 2, 3]]])
    y = op.reference(x, w, None)[0]
    assert y.tolist() == [[[10, 20, 30]]]
