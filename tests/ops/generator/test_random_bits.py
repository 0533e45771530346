"""Random bits: known words, how states go on, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import refuses
from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.generator.random_bits import RandomBits, threefry

pytestmark = pytest.mark.host
STATE = TensorType((2,), DType.UINT64)
END = (1 << 64) - 1


def bits(
    state: list[int], shape: tuple[int, ...], dtype: DType, algorithm: str
) -> list[np.ndarray]:
    return list(RandomBits(shape, dtype, algorithm).reference(np.array(state, np.uint64)))


def test_known_words() -> None:
    """The known answers of Threefry2x32-20 (Random123, kat_vectors)."""
    full = 0xFFFFFFFF
    zeros = threefry(np.zeros((1, 2), np.uint32), (0, 0))
    assert [hex(v) for v in zeros[0]] == ["0x6b200159", "0x99ba4efe"]
    ones = threefry(np.full((1, 2), full, np.uint32), (full, full))
    assert [hex(v) for v in ones[0]] == ["0x1cb996fc", "0xbb002be7"]
    pi = threefry(np.array([[0x243F6A88, 0x85A308D3]], np.uint32), (0x13198A2E, 0x03707344))
    assert [hex(v) for v in pi[0]] == ["0xc4923a9c", "0x483df7a0"]


@pytest.mark.parametrize("algorithm, words", [("philox", 4), ("threefry", 2)])
@pytest.mark.parametrize("first", [0, (1 << 32) - 1, END])
def test_the_state_goes_on(algorithm: str, words: int, first: int) -> None:
    _, whole = bits([3, first], (8 * words,), DType.UINT32, algorithm)
    state, left = bits([3, first], (4 * words - 1,), DType.UINT32, algorithm)
    assert state.tolist() == [3, (first + 4) & END]
    _, right = bits(state.tolist(), (4 * words,), DType.UINT32, algorithm)
    np.testing.assert_array_equal(whole[: 4 * words - 1], left)
    np.testing.assert_array_equal(whole[4 * words :], right)


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.UINT64])
def test_types_hold_the_same_bits(dtype: DType) -> None:
    words = dtype.itemsize // 4
    for algorithm in ("philox", "threefry"):
        state, plain = bits([5, 6], (3 * 5 * words,), DType.UINT32, algorithm)
        same, found = bits([5, 6], (3, 5), dtype, algorithm)
        assert found.dtype == dtype.numpy and found.shape == (3, 5)
        assert found.tobytes() == plain.tobytes() and (state == same).all()


def test_third_number_of_the_state() -> None:
    same = [bits([3, 4, 3], (7,), DType.UINT32, "philox")[1]]
    same.append(bits([3, 4], (7,), DType.UINT32, "philox")[1])
    np.testing.assert_array_equal(*same)
    state, other = bits([3, 4, 5], (7,), DType.UINT32, "philox")
    assert state.tolist() == [3, 6, 5] and (other != same[0]).any()
    assert bits([3, 4], (0, 2), DType.UINT32, "philox")[0].tolist() == [3, 4]


def test_refused() -> None:
    refuses(RandomBits((2,)), TensorType((2,), DType.INT64), match="uint64")
    refuses(RandomBits((2,)), TensorType((4,), DType.UINT64), match="state of 2 or 3")
    refuses(RandomBits((2,)), TensorType((2, 1), DType.UINT64), match="state of 2 or 3")
    three = TensorType((3,), DType.UINT64)
    refuses(RandomBits((2,), algorithm="threefry"), three, match="threefry wants a state of 2,")
    refuses(RandomBits((2,), DType.FLOAT32), STATE, match="float32")
    refuses(RandomBits((-2,)), STATE, match="no shape")
    with pytest.raises(ShapeError, match="mt19937"):
        RandomBits((2,), algorithm="mt19937")
