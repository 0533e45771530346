"""Projections, several products of one tensor, on the device and against MatMul."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.matmul import MatMul, Projections

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def operands(count: int, *sizes: int, transposed: bool = False) -> list[np.ndarray | None]:
    """Matrices and biases; every third has no bias."""
    m, k, n = sizes
    found: list[np.ndarray | None] = []
    for number in range(count):
        b = floats(n, k) if transposed else floats(k, n)
        found += [b / np.float32(k**0.5), None if number % 3 == 2 else floats(n)]
    return [floats(m, k), *found]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (1, 8, 12), (5, 7, 3), (37, 44, 68), (13, 52, 11), (7, 516, 20)]
)
def test_sizes(m: int, k: int, n: int, transposed: bool, kind: str, precision: str) -> None:
    arrays = operands(3, m, k, n, transposed=transposed)
    access = ("storage",) if kind == "discrete" else ("storage", "image")
    check_op(
        Projections(transposed),
        *arrays,
        constants=range(1, 7),
        kind=kind,
        access=access,
        precision=precision,
    )


def test_one_matrix_and_leading_axes() -> None:
    (x, *others) = operands(1, 30, 8, 12)
    assert x is not None
    check_op(Projections(), x.reshape(2, 3, 5, 8), *others, constants=(1, 2), kind="discrete")


def test_rows_of_nan_stay_alone() -> None:
    (x, *others) = operands(2, 23, 40, 36)
    assert x is not None
    x[3, 17], x[20, 1] = np.nan, np.inf
    check_op(Projections(), x, *others, constants=range(1, 5), kind="discrete", access=("storage",))


def test_matrices_that_are_data_run_on_the_host() -> None:
    check_op(Projections(), *operands(2, 5, 8, 12), constants=(1, 2), host=True)


def test_reference_is_that_of_each_product() -> None:
    arrays = operands(3, 5, 7, 11)
    (y,) = Projections().reference(*arrays)
    assert y.shape == (3, 5, 11)
    for number in range(3):
        (own,) = MatMul().reference(arrays[0], *arrays[1 + 2 * number : 3 + 2 * number])
        assert np.array_equal(y[number], own)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((5, 7),), "pairs of b and bias"),
        (((5, 7), (7, 3)), "pairs of b and bias"),
        (((5, 7), None, (3,)), "is missing"),
        (((5, 7), (7, 3), (4,)), "bias has shape"),
        (((5, 7), (7, 3), None, (7, 4), None), "several shapes"),
        (((5, 7), (2, 7, 3), None), "no matrix"),
        (((5, 7), (6, 3), None), "7 columns"),
    ],
)
def test_what_does_not_fit(shapes: tuple[tuple[int, ...] | None, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Projections().infer(*(None if s is None else TensorType(s) for s in shapes))
