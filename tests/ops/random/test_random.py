"""Random numbers: the generator against published numbers, distributions, the device."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import f32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.random import (
    RandomBernoulli,
    RandomCategorical,
    RandomNormal,
    RandomUniform,
    philox,
    words,
)

DRAW = TensorType((1,), DType.INT32)
MANY = 200_000


def draw(number: int = 0) -> np.ndarray:
    return np.array([number], np.int32)


@pytest.mark.host
def test_known_words() -> None:
    """The known answers that come with the authors' library (Random123, kat_vectors)."""
    full = 0xFFFFFFFF
    zeros = philox(np.zeros((1, 4), np.uint32), (0, 0))
    assert [hex(v) for v in zeros[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    ones = philox(np.full((1, 4), full, np.uint32), (full, full))
    assert [hex(v) for v in ones[0]] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]
    digits = np.array([[0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]], np.uint32)
    pi = philox(digits, (0xA4093822, 0x299F31D0))
    assert [hex(v) for v in pi[0]] == ["0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


@pytest.mark.host
def test_words_depend_on_seed_draw_and_place() -> None:
    found = [words(8, seed, draw(n)) for seed in (0, 1, 1 << 32, -1) for n in (0, 1, -1)]
    assert len({w.tobytes() for w in found}) == len(found)
    assert len(np.unique(words(4096, 7, draw()))) == 4096
    np.testing.assert_array_equal(words(8, 3, draw(5)), words(4000, 3, draw(5))[:2])


@pytest.mark.parametrize("shape", [(1,), (3,), (4,), (5, 7), (2, 3, 5), (1, 3, 4, 5, 2)])
@pytest.mark.parametrize("number", [0, 1, -(1 << 31)])
def test_on_the_device(shape: tuple[int, ...], number: int) -> None:
    for seed in (-1, (1 << 40) + 3):
        check_op(RandomUniform(shape, seed, -2.5, 4.0), draw(number), access=("storage",))
        check_op(RandomNormal(shape, seed, 0.5, 3.0), draw(number), access=("storage",))
        check_op(RandomBernoulli(shape, seed, 0.3), draw(number), access=("storage",))


def test_every_access_and_precision() -> None:
    for op in (RandomUniform((37,)), RandomNormal((37,)), RandomBernoulli((37,))):
        check_op(op, draw())
        check_op(op, draw(), precision="fp16")
        check_op(op, draw(), kind="discrete")


def test_uniform_is_the_same_to_the_bit() -> None:
    """What is drawn decides branches: it must not depend on the backend."""
    for low, high in ((0.0, 1.0), (-3.0, 0.1), (1e6, 1e6 + 1), (0.25, 0.25)):
        check_op(RandomUniform((999,), 5, low, high), draw(9), access=("storage",), tolerance=0.0)


@pytest.mark.host
def test_uniform_stays_below_its_end() -> None:
    op = RandomUniform((MANY,), 3, 1e6, 1e6 + 1)
    (y,) = op.reference(draw())
    assert y.min() == 1e6
    assert y.max() < 1e6 + 1
    (y,) = RandomUniform((5,), 3, 2.0, 2.0).reference(draw())
    assert y.tolist() == [2.0] * 5


@pytest.mark.host
def test_uniform_is_distributed_so() -> None:
    (y,) = RandomUniform((MANY,), 11, -1.0, 3.0).reference(draw())
    assert y.min() >= -1
    assert y.max() < 3
    counts, _ = np.histogram(y, 64, (-1, 3))
    expected = MANY / 64
    chi = float((np.square(counts - expected) / expected).sum())
    assert chi < 63 + 6 * math.sqrt(2 * 63)
    assert abs(np.corrcoef(y[:-1], y[1:])[0, 1]) < 6 / math.sqrt(MANY)


@pytest.mark.host
def test_normal_is_distributed_so() -> None:
    (y,) = RandomNormal((MANY,), 11, 2.0, 0.5).reference(draw())
    z = (y.astype(np.float64) - 2.0) / 0.5
    moments = [np.mean(z**k) for k in range(1, 7)]
    spread = [math.sqrt(v / MANY) for v in (1, 2, 15, 96, 945, 10170)]
    for found, wanted, error in zip(moments, (0, 1, 0, 3, 0, 15), spread, strict=True):
        assert abs(found - wanted) < 5 * error
    for limit in (-2.0, -1.0, 0.0, 0.5, 1.5, 3.0):
        share = 0.5 * (1 + math.erf(limit / math.sqrt(2)))
        error = math.sqrt(share * (1 - share) / MANY)
        assert abs(np.mean(z < limit) - share) < 5 * error
    # The two numbers of a pair do not depend on each other.
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 6 / math.sqrt(MANY / 2)
    (y,) = RandomNormal((4,), 0, 1.5, 0.0).reference(draw())
    assert y.tolist() == [1.5] * 4


@pytest.mark.host
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_bernoulli_is_distributed_so(probability: float) -> None:
    (y,) = RandomBernoulli((MANY,), 4, probability).reference(draw())
    assert set(np.unique(y)) <= {0.0, 1.0}
    error = math.sqrt(probability * (1 - probability) / MANY)
    assert abs(y.mean(dtype=np.float64) - probability) <= 5 * error


@pytest.mark.host
def test_categorical_is_distributed_so() -> None:
    weights = np.array([[1, 2, 0, 3, 4], [0, 0, 5, 0, 0]], np.float32)
    (y,) = RandomCategorical(MANY, 3).reference(weights, draw())
    assert y.dtype == np.int32
    assert y.shape == (2, MANY)
    shares = np.bincount(y[0], minlength=5) / MANY
    np.testing.assert_allclose(shares, [0.1, 0.2, 0, 0.3, 0.4], atol=0.006)
    assert (y[1] == 2).all()


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 41), (2, 1, 2, 2, 3)])
def test_categorical_on_the_device(shape: tuple[int, ...]) -> None:
    weights = np.random.default_rng(2).random(shape).astype(np.float32)
    for samples in (1, 3, 40):
        check_op(RandomCategorical(samples, 9), weights, draw(3), access=("storage",))
    check_op(RandomCategorical(5), weights, draw())
    check_op(RandomCategorical(5), weights, draw(), kind="discrete")
    weights[..., ::2] = 0
    weights[..., 0] = 1
    check_op(RandomCategorical(50, 1), weights, draw(), access=("storage",))
    check_op(RandomCategorical(50, 1), weights, draw(), access=("storage",), precision="fp16")


def test_too_many_classes_for_a_lane() -> None:
    weights = np.ones((2, 400), np.float32)
    check_op(RandomCategorical(5), weights, draw(), host=True, max_loop_rounds=100)


@pytest.mark.host
def test_refused() -> None:
    refuses(RandomUniform((2,), 0, 2.0, 1.0), DRAW, match="from 2.0 to 1.0")
    refuses(RandomUniform((2,), 0, 0.0, math.inf), DRAW, match="from")
    refuses(RandomNormal((2,), 0, 0.0, -1.0), DRAW, match="deviation")
    refuses(RandomBernoulli((2,), 0, 1.5), DRAW, match="probability")
    refuses(RandomBernoulli((-2,)), DRAW, match="no shape")
    refuses(RandomBernoulli((2,)), f32(1), match="int32")
    refuses(RandomBernoulli((2,)), TensorType((2,), DType.INT32), match="number of the draw")
    refuses(RandomCategorical(2), f32(2, 0), DRAW, match="samples")
    refuses(RandomCategorical(-2), f32(2, 3), DRAW, match="samples")
    refuses(RandomCategorical(2), f32(3), f32(1), match="int32")
    assert RandomCategorical(4).infer(TensorType((2, 3)), DRAW)[0].shape == (2, 4)
