"""What is allowed: more than correct rounding needs, less than a mistake makes."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.crosscheck import UNIT, allowances, compare
from vknn.graph import DType, Op
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.elementwise import (
    Add,
    Cast,
    Exp,
    Floor,
    Fused,
    FusedStep,
    Gelu,
    Log,
    Mul,
    Pow,
    Relu,
    Sigmoid,
    Swish,
)
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Transpose
from vknn.ops.normalization import LRN, BatchNormalization, LayerNormalization
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, MaxPool
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.recurrent.rnn import LSTM
from vknn.ops.reduction import LogSoftmax, Softmax
from vknn.ops.sampling.resize import Resize

random = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return random.uniform(0.5, 2.0, shape).astype(np.float32)


CONV = Conv((1, 1), (1,) * 4, (1, 1))
FUSED = Fused(CONV, (FusedStep(Swish()), FusedStep(Add(), operand=0), FusedStep(Mul(), scalar=0.5)))
CASES: list[tuple[Op, list[np.ndarray | None]]] = [
    (CONV, [array(1, 8, 6, 6), array(5, 8, 3, 3), array(5)]),
    (FUSED, [array(1, 8, 6, 6), array(5, 8, 3, 3), None, array(1, 5, 6, 6)]),
    (
        ConvTranspose((2, 2), (1,) * 4, (1, 1), 2),
        [array(1, 8, 3, 4), array(8, 3, 3, 3), array(6)],
    ),
    (
        DeformConv((1, 1), (1,) * 4, (1, 1)),
        [array(1, 8, 5, 4), array(5, 8, 3, 3), array(1, 18, 5, 4), array(5), array(1, 9, 5, 4)],
    ),
    (MatMul(transpose_b=True), [array(7, 64), array(9, 64), array(9)]),
    (AveragePool((2, 2), (2, 2), (0,) * 4), [array(1, 3, 6, 6)]),
    (GlobalAveragePool(), [array(1, 3, 9, 9)]),
    (Softmax(1), [array(2, 50)]),
    (LayerNormalization(-1, 1e-5), [array(4, 40), array(40), array(40)]),
    (BatchNormalization(), [array(1, 4, 3), array(4), array(4), array(4), positive(4)]),
    (LRN((1,), (2,), (2,), 1e-4), [array(1, 8, 4, 4)]),
    (Attention(2, 0.35), [array(1, 6, 16), array(1, 7, 16), array(1, 7, 8)]),
    (Resize((7, 9), "linear"), [array(1, 2, 4, 5)]),
    (Resize((7, 9), "cubic"), [array(1, 2, 4, 5)]),
    (Pow(), [positive(3, 4), array(3, 4)]),
    (Exp(), [array(3, 40)]),
    (Gelu(), [array(3, 40) * 3]),
    (Log(), [1 + array(3, 40) * np.float32(1e-3)]),
    (Sigmoid(), [array(3, 40) * 5]),
    (DequantizeLinear(), [np.arange(-8, 8, dtype=np.int32).reshape(4, 4), positive(4), array(4)]),
]


def in_float32(op: Op, inputs: list[np.ndarray | None]) -> np.ndarray:
    """A result about as inexact as 32-bit arithmetic makes it: inputs half a unit off."""
    moved = [
        x * (1 + random.uniform(-UNIT, UNIT, x.shape)).astype(np.float32)
        if x is not None and x.dtype.kind == "f"
        else x
        for x in inputs
    ]
    return op.reference(*moved)[0]


@pytest.mark.parametrize(("op", "inputs"), CASES, ids=[c[0].type_name for c in CASES])
def test_rounding_is_allowed_and_mistakes_are_not(op, inputs) -> None:  # type: ignore[no-untyped-def]
    expected = op.reference(*inputs)
    (bound,) = allowances(op, inputs, expected)
    (y,) = expected
    assert compare(in_float32(op, inputs), y, bound).ok
    wrong = y.copy()
    largest = np.unravel_index(np.argmax(np.abs(y)), y.shape)
    wrong[largest] *= np.float32(1.01)
    result = compare(wrong, y, bound)
    assert not result.ok
    assert result.worst == largest
    assert result.excess > 10
    (loose,) = allowances(op, inputs, expected, tolerance=0.05)
    assert compare(wrong, y, loose).ok


def test_winograd_mixes_the_pixels_and_taps_of_a_tile() -> None:
    """Large pixels and taps that never meet in a direct sum do in Winograd's."""
    x, w = np.full((1, 1, 3, 3), 1e-3, np.float32), np.full((1, 1, 3, 3), 1e-3, np.float32)
    x[0, 0, 2, 2] = w[0, 0, 0, 0] = 1.0
    plain = Conv((1, 1), (0,) * 4, (1, 1))
    (bound,) = allowances(plain, [x, w], plain.reference(x, w))
    assert bound.allowed.min() > 20 * UNIT
    strided = Conv((2, 2), (0,) * 4, (1, 1))
    (bound,) = allowances(strided, [x, w], strided.reference(x, w))
    assert bound.allowed.max() < UNIT


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (Transpose((1, 0)), [array(2, 3)]),
        (Concat(0), [array(2, 3), array(1, 3)]),
        (MaxPool((2, 2), (1, 1), (0,) * 4), [array(1, 2, 3, 3)]),
        (Resize((6, 6), "nearest"), [array(1, 2, 3, 3)]),
    ],
)
def test_moving_is_exact(op, inputs) -> None:  # type: ignore[no-untyped-def]
    (y,) = expected = op.reference(*inputs)
    (bound,) = allowances(op, inputs, expected)
    assert compare(y.copy(), y, bound).ok
    wrong = y.copy()
    wrong.flat[0] = np.nextafter(wrong.flat[0], np.float32(9))
    result = compare(wrong, y, bound)
    assert not result.ok
    assert result.worst == (0,) * y.ndim


def test_a_step_may_fall_either_way_at_its_edge_only() -> None:
    x = np.array([2.5, 3.0, np.nextafter(np.float32(3), np.float32(0))], np.float32)
    scale = np.ones(1, np.float32)
    for op, inputs in (
        (Cast(DType.INT32), [x]),
        (QuantizeLinear(rounding="half_away"), [x, scale]),
    ):
        (bound,) = allowances(op, inputs, op.reference(*inputs))
        assert bound.allowed.max() == 1
        assert bound.allowed.min() == 0
    (floor,) = allowances(Floor(), [x], Floor().reference(x))
    assert floor.allowed.max() < 1e-6


def test_a_tail_carries_the_allowance_of_its_base() -> None:
    big = [array(1, 8, 6, 6) * 1000, array(5, 8, 3, 3)]
    plain = allowances(CONV, big, CONV.reference(*big))[0]
    op = Fused(CONV, (FusedStep(Mul(), scalar=1e-3), FusedStep(Relu())))
    inputs = [*big]
    fused = allowances(op, inputs, op.reference(*inputs))[0]
    kept = op.reference(*inputs)[0] > 1e-3
    ratio = (np.broadcast_to(plain.allowed, kept.shape) / fused.allowed)[kept]
    assert ratio.min() > 300
    assert ratio.max() < 1100


def test_nan_and_infinities_must_agree() -> None:
    x = np.array([-1.0, 0.0, 4.0], np.float32)
    expected = Log().reference(x)
    (bound,) = allowances(Log(), [x], expected)
    assert compare(expected[0].copy(), expected[0], bound).ok
    for place, value in ((0, 1.0), (1, -3e38), (2, np.nan), (2, np.inf)):
        wrong = expected[0].copy()
        wrong[place] = value
        result = compare(wrong, expected[0], bound)
        assert not result.ok
        assert result.worst == (place,)


def test_other_shapes_and_dtypes_are_named() -> None:
    x = array(2, 3)
    (bound,) = allowances(Relu(), [x], Relu().reference(x))
    result = compare(x.reshape(3, 2), x, bound)
    assert not result.ok
    assert result.problem == "came out as float32[3, 2], not float32[2, 3]"
    assert compare(x.astype(np.float64), x, bound).problem is not None
    empty = np.zeros((0, 2), np.float32)
    assert compare(empty, empty, bound).ok


def test_attention_of_infinities_and_nan_has_a_tolerance() -> None:
    op, (q, k, v) = Attention(2, 0.35), (array(1, 6, 16), array(1, 7, 16), array(1, 7, 8))
    q[0, 1, 3], k[0, 2, 9], v[0, 4, 1] = np.inf, np.nan, np.nan
    (bound,) = allowances(op, [q, k, v], op.reference(q, k, v))
    assert np.isfinite(bound.allowed).all()
    assert bound.allowed.min() > 1e-7


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_sum_that_overflows_leaves_the_others_their_tolerance(kernel: int) -> None:
    x, w = np.abs(array(1, 4, 5, 6)), np.abs(array(7, 4, kernel, kernel)) + np.float32(1)
    x[0, 0, 0, 0] = x[0, 1, 0, 0] = 3e38
    op = Conv((1, 1), (0,) * 4, (1, 1))
    (bound,) = allowances(op, [x, w], op.reference(x, w))
    assert (bound.allowed > UNIT).all()


def test_rotations_that_cancel_have_a_tolerance() -> None:
    x, table = np.array([[1.0, 1.0]], np.float32), np.array([[0.7]], np.float32)
    expected = RotaryEmbedding().reference(x, table, table)
    (bound,) = allowances(RotaryEmbedding(), [x, table, table], expected)
    assert expected[0][0, 0] == 0.0
    assert bound.allowed.min() > UNIT


def test_rotations_have_a_tolerance() -> None:
    inputs = [array(2, 7, 8), array(7, 4), array(7, 4)]
    test_rounding_is_allowed_and_mistakes_are_not(RotaryEmbedding(), inputs)


def test_states_have_a_tolerance() -> None:
    """Of the outputs and of the last state, with corrections that cancel most of it."""
    k = array(1, 30, 8)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    inputs = [array(1, 30, 16), k, array(1, 30, 6), array(1, 1, 8, 6)]
    for more in ([], [-positive(1, 30, 8)], [None, positive(1, 30, 1) / 2]):
        op, given = LinearAttention(2, 1, 0.35), [*inputs, *more]
        moved = [
            None if x is None else (x * (1 + random.uniform(-UNIT, UNIT, x.shape))).astype(x.dtype)
            for x in given
        ]
        expected, near = op.reference(*given), op.reference(*moved)
        bounds = allowances(op, given, expected)
        for y, found, bound in zip(expected, near, bounds, strict=True):
            assert compare(found, y, bound).ok
            wrong = y.copy()
            wrong[np.unravel_index(np.argmax(np.abs(y)), y.shape)] *= np.float32(1.01)
            assert not compare(wrong, y, bound).ok


def test_samples_that_overflow_leave_the_others_their_tolerance() -> None:
    x, w, offset = (
        np.abs(array(1, 4, 3, 3)),
        np.abs(array(5, 4, 1, 1)) + np.float32(1),
        array(1, 2, 3, 3),
    )
    x[0, :2, 0, 0] = 3e38
    op = DeformConv((1, 1), (0,) * 4, (1, 1))
    (bound,) = allowances(op, [x, w, 0 * offset], op.reference(x, w, 0 * offset))
    assert (bound.allowed > UNIT).all()


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_steps_without_a_number_leave_the_others_their_tolerance(special: float) -> None:
    x, w, r = array(3, 2, 4), array(1, 20, 4), array(1, 20, 5)
    x[1, 0, 2] = special
    for bound in allowances(LSTM(), [x, w, r], LSTM().reference(x, w, r)):
        assert (bound.allowed > UNIT).all()


def test_attention_with_large_scores_that_are_near_each_other() -> None:
    """Their differences are as exact as they themselves: 3000 in float32 to 2e-4."""
    op, q = Attention(1, 1.0), np.full((1, 1, 9), 18.0, np.float32)
    k, v = np.full((1, 2, 9), 18.0, np.float32), array(1, 2, 4)
    (bound,) = allowances(op, [q, k, v], op.reference(q, k, v))
    k[0, 0, 0] += 1e-5
    moved = op.reference(q, k, v)[0] - op.reference(q, k[:, ::-1], v)[0]
    assert (np.abs(moved) < bound.allowed).all()
    assert bound.allowed.max() < 0.1


@pytest.mark.parametrize("last", [Softmax(-1), LogSoftmax(-1)], ids=lambda op: op.type_name)
@pytest.mark.parametrize("unit", [UNIT, 1e-2])
def test_shares_move_as_much_as_what_they_are_made_of(last: Op, unit: float) -> None:
    """What a chain's product is allowed moves its shares, and nothing else of its size does."""
    a = random.standard_normal((5, 20)).astype(np.float32)
    b = random.standard_normal((20, 10)).astype(np.float32)
    (y,) = MatMul().reference(a, b)
    (before,) = allowances(MatMul(), [a, b], [y], unit=unit)
    (own,) = allowances(last, [y], last.reference(y), unit=unit)
    op = Chain((MatMul(), last), (2, 0))
    (bound,) = allowances(op, [a, b], op.reference(a, b), unit=unit)
    room = bound.allowed - own.allowed
    wide = y.astype(np.float64)
    (exact,) = last.reference(wide)
    moved = [
        np.abs(last.reference(wide + signs * before.allowed)[0] - exact)
        for signs in random.choice([-1.0, 1.0], (500, *y.shape))
    ]
    largest = np.max(moved, axis=0)
    assert (largest <= room * (1 + 1e-6)).all()
    if isinstance(last, Softmax) and unit == UNIT:
        assert (room <= 2 * largest).all()
