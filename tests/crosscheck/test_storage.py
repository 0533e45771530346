"""What storage in 16 bits is allowed to change."""

from __future__ import annotations

import numpy as np

from vknn.crosscheck.storage import HALF_UNIT, UNITS, as_held, infinite_beyond_half, rounded
from vknn.crosscheck.tolerance import allowances
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Exp, Fused, FusedStep, Relu
from vknn.ops.matmul import MatMul
from vknn.ops.normalization import BatchNormalization
from vknn.ops.quantized.linear import QuantizeLinear

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_inputs_are_rounded_but_for_scales_and_statistics() -> None:
    x, v = floats(1, 3, 4, 4), RNG.uniform(0.5, 1.0, 3).astype(np.float32)
    held = as_held(BatchNormalization(), [x, v, v, v, v])
    assert held[0] is not None
    assert not np.array_equal(held[0], x)
    assert np.abs(held[0] - x).max() <= HALF_UNIT * np.abs(x).max()
    assert all(h is v for h in held[1:])
    q = as_held(QuantizeLinear(), [x, v, np.zeros(3, np.int8)])
    assert q[1] is v
    fused = Fused(Conv((1, 1), (0, 0, 0, 0), (1, 1)), (FusedStep(Add(), 0),))
    arrays = as_held(fused, [x, floats(3, 3, 1, 1), None, x])
    assert arrays[2] is None
    np.testing.assert_array_equal(arrays[3], held[0])


def test_what_is_beyond_float16_is_infinite() -> None:
    found = infinite_beyond_half(np.array([1e5, -7e4, 65504, 0.1], np.float32))
    np.testing.assert_array_equal(found, np.array([np.inf, -np.inf, 65504, 0.1], np.float32))
    wide = np.array([3.3895e38, 3.3962e38, -3.4028e38], np.float32)
    np.testing.assert_array_equal(
        infinite_beyond_half(wide, "bf16"), np.array([wide[0], np.inf, -np.inf], np.float32)
    )
    integers = np.array([1 << 20])
    assert infinite_beyond_half(integers) is integers


def test_a_rounding_of_the_result_is_allowed_and_no_more() -> None:
    for op, inputs in ((Relu(), [floats(64)]), (Exp(), [floats(64)])):
        (y,) = op.reference(*inputs)
        (single,) = allowances(op, inputs, [y])
        for precision in ("fp16", "bf16"):
            unit = UNITS[precision]
            (half,) = allowances(op, inputs, [y], storage=unit)
            error = np.abs(rounded(y, precision).astype(np.float64) - y)
            assert np.all(error <= half.allowed)
            assert np.any(error > single.allowed)
            assert np.all(half.allowed <= single.allowed + 1.01 * unit * np.abs(y) + 1e-7)


def test_near_zero_bfloat16_has_the_range_of_float32() -> None:
    y = np.array([1e-30, 2e-12], np.float32)
    (half,) = allowances(Relu(), [y], [y], storage=UNITS["bf16"])
    assert np.all(half.allowed < 1.1 * UNITS["bf16"] * y)


def test_sums_are_in_single_precision() -> None:
    """A longer sum is not allowed more in proportion to what it adds up."""
    shares = []
    for terms in (8, 4096):
        a, b = floats(2, terms), floats(terms, 3)
        (y,) = MatMul().reference(a, b)
        (found,) = allowances(MatMul(), [a, b], [y], storage=HALF_UNIT)
        shares.append(float((found.allowed / found.magnitude).max()))
    assert shares[1] < 1.2 * shares[0]
    assert shares[1] < 4 * HALF_UNIT


def test_integers_are_exact() -> None:
    x, scale = np.array([1.0, 2.0], np.float32), np.array(1.0, np.float32)
    op = QuantizeLinear()
    (y,) = op.reference(x, scale)
    (found,) = allowances(op, [x, scale], [y], storage=HALF_UNIT)
    assert not np.any(found.allowed)
