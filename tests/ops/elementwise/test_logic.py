"""Comparisons, logic and choices: kernels against references, references against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.graph import Op
from vknn.ops.elementwise import logic

COMPARISONS: list[Op] = [
    logic.Equal(), logic.NotEqual(), logic.Less(), logic.LessOrEqual(), logic.Greater(),
    logic.GreaterOrEqual(),
]  # fmt: skip
LOGIC: list[Op] = [logic.And(), logic.Or(), logic.Xor()]


def _name(op: Op) -> str:
    return op.type_name


PAIRS = {
    "same": ((2, 7, 3), (2, 7, 3)),
    "column": ((2, 7, 3), (7, 1)),
    "channel": ((1, 5, 3, 2), (1, 5, 1, 1)),
    "both": ((3, 1, 4), (1, 5, 1)),
    "scalar": ((1, 6, 3), ()),
}


def _values(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Few distinct values, so that many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def _truth(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.asarray(_values(shape, "int32", seed) > 0)


@pytest.mark.parametrize("op", COMPARISONS, ids=_name)
@pytest.mark.parametrize("pair", PAIRS)
def test_comparisons_of_floats(op: Op, pair: str) -> None:
    a, b = PAIRS[pair]
    check_op(op, _values(a, "float32", 1), _values(b, "float32", 2))


@pytest.mark.parametrize("op", COMPARISONS, ids=_name)
def test_comparisons_of_integers(op: Op) -> None:
    check_op(op, _values((2, 5, 3), "int32", 1), _values((5, 1), "int32", 2))
    check_op(op, _values((2, 5, 3), "int8", 1), _values((2, 5, 3), "int8", 2))


@pytest.mark.parametrize("op", COMPARISONS, ids=_name)
def test_not_a_number(op: Op) -> None:
    a = np.array([np.nan, 1, np.nan, np.inf, -0.0], np.float32)
    b = np.array([1, np.nan, np.nan, np.inf, 0.0], np.float32)
    (y,) = op.reference(a, b)
    meets = [logic.NotEqual] if isinstance(op, logic.NotEqual) else []
    assert y[:3].tolist() == [bool(meets)] * 3
    check_op(op, a, b)


@pytest.mark.parametrize("op", COMPARISONS[:3], ids=_name)
def test_comparisons_in_fp16(op: Op) -> None:
    check_op(op, _values((3, 5), "float32", 1), _values((5,), "float32", 2), precision="fp16")


@pytest.mark.parametrize("op", LOGIC, ids=_name)
@pytest.mark.parametrize("pair", PAIRS)
def test_logic(op: Op, pair: str) -> None:
    a, b = PAIRS[pair]
    check_op(op, _truth(a, 1), _truth(b, 2))


@pytest.mark.parametrize("shape", [(1,), (3, 5), (1, 6, 2, 3)])
def test_not(shape: tuple[int, ...]) -> None:
    check_op(logic.Not(), _truth(shape, 1))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_where(pair: str, dtype: str) -> None:
    a, b = PAIRS[pair]
    chosen = _truth(a, 3)
    check_op(logic.Where(), chosen, _values(a, dtype, 1), _values(b, dtype, 2))


@pytest.mark.parametrize("shape", [(), (3, 1, 1), (7,), (1, 5, 1)])
def test_where_with_a_condition_that_is_broadcast(shape: tuple[int, ...]) -> None:
    chosen = _truth(shape, 3)
    a, b = _values((3, 5, 7), "float32", 1), _values((5, 1), "float32", 2)
    check_op(logic.Where(), chosen, a, b)
    check_op(logic.Where(), chosen, a, b, precision="fp16")
