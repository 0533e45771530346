"""Convolutions whose integer sums are multiplied by floats, as onnxruntime requantizes them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op
from tests.ops.quantized.convolutions import GEOMETRIES, conv, operands

from vknn.graph import DType
from vknn.ops.quantized import fixed_point as fp


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_with_floats(name: str, dtype: str) -> None:
    """Halves go to even numbers, as rint has them: half of the multipliers are powers of two."""
    settings, x_shape, w_shape = GEOMETRIES[name]
    x, w, bias, *_ = operands(x_shape, w_shape, w_shape[0], dtype)
    real = np.random.default_rng(5).uniform(1e-3, 1e-2, w_shape[0]).astype(np.float32)
    real[::2] = 2.0**-9
    offset = np.random.default_rng(6).uniform(-9, 9, w_shape[0]).astype(np.float32)
    offset[::3] = 0
    vectors = bias, fp.float_bits(real), fp.float_bits(offset)
    op = conv(**settings, zero_in=17, zero_out=5, low=-100, high=110, rounding="float")
    check_op(op, x, w, *vectors, constants=(1, 2, 3, 4))
    plain = conv(**settings, zero_in=17, dtype=DType.INT32, low=fp.INT32_MIN, high=fp.INT32_MAX,
                 rounding="none")  # fmt: skip
    (sums,) = plain.reference(x, w, *vectors)
    along = (slice(None), None, None)
    wanted = np.rint(sums.astype(np.float32) * real[along] + offset[along]) + 5
    (found,) = op.reference(x, w, *vectors)
    np.testing.assert_array_equal(found, np.clip(wanted, -100, 110).astype(np.int8))


@pytest.mark.parametrize("name", ["3x3", "1x1", "depthwise", "odd groups"])
def test_two_products_with_floats(name: str) -> None:
    """As one requantization and a convolution of one tap, whose weights are 1, behind it."""
    settings, x_shape, w_shape = GEOMETRIES[name]
    x, w, bias, *_ = operands(x_shape, w_shape, w_shape[0], "uint8")
    channels = w_shape[0]
    rng = np.random.default_rng(7)
    m = rng.uniform(-0.01, 0.01, (2, channels)).astype(np.float32)
    m[1] *= 200
    c = rng.uniform(-9, 9, (2, channels)).astype(np.float32)
    bits, shift = fp.float_bits(m), fp.float_bits(c)
    bounds = np.repeat(np.array([[-100 - 3], [90 - 3]], np.int32), channels, 1)
    more = {"zero_in": 17, "zero_out": -5, "low": -120, "high": 110}
    op = conv(**settings, **more, rounding="twice")
    both = np.concatenate([bits, bounds])
    check_op(op, x, w, bias, both, shift, constants=(1, 2, 3, 4))
    first = conv(**settings, zero_in=17, zero_out=3, low=-100, high=90, rounding="float")
    (between,) = first.reference(x, w, bias, bits[0], shift[0])
    more["zero_in"] = 3
    second = conv(**more, group=channels, rounding="float")
    ones = np.ones((channels, 1, 1, 1), np.int8)
    (wanted,) = second.reference(between, ones, None, bits[1], shift[1])
    np.testing.assert_array_equal(op.reference(x, w, bias, both, shift)[0], wanted)
    assert len(np.unique(wanted)) > 20


def test_products_with_floats_far_beyond() -> None:
    x, w = np.full((1, 4, 3, 3), 127, np.int8), np.full((4, 4, 1, 1), 127, np.int8)
    w[1::2] *= -1
    real = np.array([1e9, 1e9, 3e38, 1e-38], np.float32)
    op = conv(zero_in=0, rounding="float")
    shift = np.zeros(4, np.int32)
    check_op(op, x, w, None, fp.float_bits(real), shift, constants=(1, 3, 4))
    (found,) = op.reference(x, w, None, fp.float_bits(real), shift)
    assert found[0, :, 0, 0].tolist() == [127, -128, 127, 0]
