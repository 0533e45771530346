"""Numbers of generators that go on: known ones, how they continue, distributions, the device."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers import check_op

from reference_helper import f32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.generator.numbers import (
    POSITION_TYPE,
    GeneratorCategorical,
    GeneratorNormal,
    GeneratorUniform,
    group_words,
    number_of,
    position_of,
)

NEAR_END = (1 << 64) - 3
MANY = 200_000


@pytest.mark.host
def test_known_words() -> None:
    """The known answers that come with Philox's authors' library (Random123, kat_vectors)."""
    first, key = 0x85A308D3_243F6A88, 0x299F31D0_A4093822
    words = group_words(first, 1, key, 0x03707344_13198A2E)
    assert [hex(v) for v in words[0]] == ["0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


@pytest.mark.host
@pytest.mark.parametrize("number", [0, 1, (1 << 32) - 2, NEAR_END])
def test_the_position_goes_on(number: int) -> None:
    assert number_of(position_of(number)) == number
    for kind in (GeneratorUniform, GeneratorNormal):
        (whole, end) = kind((28,), 7, 9).reference(position_of(number))
        (first, middle) = kind((3, 4), 7, 9).reference(position_of(number))
        (second, after) = kind((15,), 7, 9).reference(middle)
        np.testing.assert_array_equal(whole[:27], [*first.reshape(-1), *second])
        assert number_of(after) == number_of(end) == (number + 7) % (1 << 64)
        (none, still) = kind((3, 0), 7, 9).reference(position_of(number))
        assert none.shape == (3, 0) and number_of(still) == number


@pytest.mark.parametrize("shape", [(1,), (3,), (4,), (5, 7), (2, 3, 5), (1, 3, 4, 5, 2), ()])
@pytest.mark.parametrize("number", [0, (1 << 32) - 2, NEAR_END])
def test_on_the_device(shape: tuple[int, ...], number: int) -> None:
    for key, stream in ((-1, 3), (5, 1 << 63)):
        position = position_of(number)
        uniform = GeneratorUniform(shape, key, stream)
        check_op(uniform, position, access=("storage",), tolerance=0.0)
        check_op(GeneratorNormal(shape, key, stream), position, access=("storage",))


def test_every_access_and_precision() -> None:
    for op in (GeneratorUniform((37,), 3), GeneratorNormal((37,), 3)):
        check_op(op, position_of(0))
        check_op(op, position_of(0), precision="fp16")
        check_op(op, position_of(0), kind="discrete")
        check_op(op, position_of(0), host=True, max_loop_rounds=4)


def test_large_on_the_device() -> None:
    check_op(GeneratorNormal((MANY,), 11, 5), position_of(3), access=("storage",))


@pytest.mark.host
def test_uniform_is_distributed_so() -> None:
    y, _ = GeneratorUniform((MANY,), 11).reference(position_of(0))
    assert y.min() >= 0 and y.max() < 1
    counts, _ = np.histogram(y, 64, (0, 1))
    chi = float((np.square(counts - MANY / 64) / (MANY / 64)).sum())
    assert chi < 63 + 6 * math.sqrt(2 * 63)


@pytest.mark.host
def test_normal_is_distributed_so() -> None:
    y, _ = GeneratorNormal((MANY,), 11).reference(position_of(0))
    z = y.astype(np.float64)
    spread = [math.sqrt(v / MANY) for v in (1, 2, 15, 96)]
    for power, wanted, error in zip((1, 2, 3, 4), (0, 1, 0, 3), spread, strict=True):
        assert abs(np.mean(z**power) - wanted) < 5 * error


@pytest.mark.host
def test_categorical_is_distributed_so() -> None:
    shares = np.array([[0.1, 0.2, 0.0, 0.3, 0.4], [0, 0, 1, 0, 0]], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(shares)
    y, end = GeneratorCategorical(20_000, 3).reference(logits, position_of(5))
    assert y.dtype == np.int32 and y.shape == (2, 20_000)
    found = np.bincount(y[0], minlength=5) / 20_000
    np.testing.assert_allclose(found, shares[0], atol=0.02)
    assert (y[1] == 2).all()
    assert number_of(end) == 5 + 2 * 20_000 * 512


@pytest.mark.host
def test_samples_do_not_depend_on_how_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from vknn.ops.common import blocks

    logits = np.random.default_rng(1).normal(size=(3, 7)).astype(np.float32)
    whole, _ = GeneratorCategorical(101, 3).reference(logits, position_of(2))
    numbers, _ = GeneratorUniform((101,), 3).reference(position_of(2))
    monkeypatch.setattr(blocks, "GATHERED", 512 * 5)
    parts, _ = GeneratorCategorical(101, 3).reference(logits, position_of(2))
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(numbers, GeneratorUniform((101,), 3).reference(position_of(2))[0])


@pytest.mark.host
def test_no_finite_logit_gives_no_class() -> None:
    logits = np.array([[-np.inf, np.nan, np.inf], [1, np.inf, -np.inf]], np.float32)
    y, _ = GeneratorCategorical(4).reference(logits, position_of(0))
    assert y.tolist() == [[3] * 4, [0] * 4]


@pytest.mark.host
def test_refused() -> None:
    refuses(GeneratorUniform((-2,)), POSITION_TYPE, match="no shape")
    refuses(GeneratorNormal((2,)), TensorType((1,), DType.INT32), match="the position is")
    refuses(GeneratorCategorical(-2), f32(2, 3), POSITION_TYPE, match="samples")
    refuses(GeneratorCategorical(2), f32(2, 0), POSITION_TYPE, match="samples")
    refuses(GeneratorCategorical(2), f32(3), POSITION_TYPE, match="samples")
    refuses(GeneratorCategorical(2), f32(2, 3), f32(2), match="the position is")
