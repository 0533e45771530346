"""MatMul and MatMulInteger on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.elementwise import Add, Fused, FusedStep, Gelu, Mul, Relu
from vknn.ops.matmul import MatMul, MatMulInteger

RNG = np.random.default_rng(7)


#: One access mode where what differs is not how inputs are read.
IMAGE, STORAGE = ("image",), ("storage",)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "m, k, n", [(1, 1, 1), (1, 7, 5), (1, 16, 12), (3, 4, 8), (5, 7, 11), (17, 20, 36)]
)
@pytest.mark.parametrize("constants", [(), (1,), (1, 2), (0,), (2,)])
def test_sizes(m: int, k: int, n: int, constants: tuple[int, ...]) -> None:
    check_op(MatMul(), floats(m, k), floats(k, n), floats(n), constants=constants)


@pytest.mark.parametrize("m, k, n", [(1, 8, 12), (4, 8, 12), (5, 7, 3), (9, 12, 1)])
@pytest.mark.parametrize("transpose_a, transpose_b", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("constants", [(), (1,)])
def test_transposes(
    m: int, k: int, n: int, transpose_a: bool, transpose_b: bool, constants: tuple[int, ...]
) -> None:
    a = floats(k, m) if transpose_a else floats(m, k)
    b = floats(n, k) if transpose_b else floats(k, n)
    check_op(MatMul(transpose_a, transpose_b), a, b, constants=constants, access=IMAGE)


@pytest.mark.parametrize(
    "a, b",
    [
        ((2, 5, 8), (8, 4)),
        ((3, 5, 8), (3, 8, 4)),
        ((5, 8), (3, 8, 4)),
        ((2, 1, 5, 8), (3, 8, 12)),
        ((2, 3, 1, 4), (2, 3, 4, 8)),
        ((2, 1, 3, 5, 7), (5, 1, 7, 2)),
        ((2, 3, 1, 7), (2, 3, 7, 5)),
        ((2, 1, 2, 4, 4), (1, 3, 1, 4, 4)),
        ((2, 1, 2, 4, 4), (1, 3, 2, 4, 4)),
    ],
)
@pytest.mark.parametrize("constants", [(), (1,)])
def test_batches(a: tuple[int, ...], b: tuple[int, ...], constants: tuple[int, ...]) -> None:
    check_op(MatMul(), floats(*a), floats(*b), constants=constants, access=IMAGE)


def test_many_alternating_batch_axes_stay_on_the_host() -> None:
    a, b = floats(2, 1, 2, 1, 2, 2), floats(1, 2, 1, 2, 2, 2)
    check_op(MatMul(), a, b, host=True)


def test_nothing_is_read_behind_a_row() -> None:
    """A NaN in the padding behind an input must not reach the sum."""
    check_op(MatMul(), np.full((1, 5), 2.0, np.float32), floats(5, 6), constants=(1,))


@pytest.mark.parametrize(
    "constants, batch", [((), ()), ((), (3,)), ((1,), ())], ids=["as it is", "batch", "packed"]
)
def test_long_rows_on_gpus(constants: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Whole rounds of all lanes, vec4s of k that fill none, and numbers that fill no vec4.

    Rows of batches that lie as they came have whole vec4s.
    """
    for k in (256, 1020 if batch else 1023):
        a, b = floats(*batch, 1, k), floats(*batch, k, 36)
        check_op(MatMul(), a, b, constants=constants, kind="discrete", only="row")


@pytest.mark.parametrize("k", [1, 3, 5, 7, 16, 139])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("constants", [(), (1,)])
def test_an_infinity_in_the_last_row(k: int, m: int, constants: tuple[int, ...]) -> None:
    """Zeros behind the end of a row of a must not be multiplied by it."""
    b = floats(k, 7)
    b[-1, 2] = np.inf
    for transpose_b in (False, True):
        given = np.ascontiguousarray(b.T) if transpose_b else b
        op, a = MatMul(transpose_b=transpose_b), floats(m, k)
        assert not np.isnan(op.reference(a, given)[0]).any()
        check_op(op, a, given, constants=constants, access=IMAGE)


ADD_THEN_RELU = (FusedStep(Add(), operand=0), FusedStep(Relu()))


@pytest.mark.parametrize("m, k, n", [(1, 8, 12), (1, 7, 5), (5, 8, 12), (5, 7, 3)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("constants", [(), (1,), (1, 2)])
def test_tail_with_operand(m: int, k: int, n: int, bias: bool, constants: tuple[int, ...]) -> None:
    """A run-time bias and an operand do not fit one dispatch."""
    vector = floats(n) if bias else None
    constants = tuple(c for c in constants if bias or c != 2)
    for operand in (floats(m, n), floats(n)):
        op = Fused(MatMul(), ADD_THEN_RELU)
        check_op(op, floats(m, k), floats(k, n), vector, operand, constants=constants, access=IMAGE)


def test_tail_without_operand() -> None:
    steps = (FusedStep(Gelu()), FusedStep(Mul(), scalar=0.5))
    a, b, bias = floats(2, 5, 8), floats(2, 8, 12), floats(12)
    check_op(Fused(MatMul(), steps), a, b, bias)
    check_op(Fused(MatMul(), steps), a, b, bias, constants=(1, 2))


@pytest.mark.parametrize("m, k, n", [(37, 64, 200), (1, 1024, 1000), (1, 300, 10)])
def test_larger(m: int, k: int, n: int) -> None:
    check_op(MatMul(), floats(m, k), floats(k, n), floats(n), constants=(1, 2), access=IMAGE)


@pytest.mark.parametrize(
    "a, b, transpose_b",
    [((5, 7), (7, 3), False), ((2, 5, 8), (4, 8), True), ((1, 300), (300, 17), False)],
)
@pytest.mark.parametrize("constants", [(), (1,)])
def test_integer(
    a: tuple[int, ...], b: tuple[int, ...], transpose_b: bool, constants: tuple[int, ...]
) -> None:
    left = RNG.integers(-128, 128, a, dtype=np.int8)
    right = RNG.integers(-128, 128, b, dtype=np.int8)
    check_op(MatMulInteger(transpose_b), left, right, constants=constants)


@pytest.mark.parametrize(
    ("a", "b", "transpose_b"),
    [
        ((1, 300), (300, 10), False),
        ((1, 64), (64, 4200), False),
        ((37, 20), (20, 44), False),
        ((37, 20), (44, 20), True),
        ((3, 5, 7), (3, 7, 11), False),
        ((3, 1, 8), (3, 8, 12), False),
    ],
)
@pytest.mark.parametrize("constants", [(), (1, 2)])
def test_as_for_a_gpu(
    a: tuple[int, ...], b: tuple[int, ...], transpose_b: bool, constants: tuple[int, ...]
) -> None:
    bias = floats(b[-2] if transpose_b else b[-1])
    op = MatMul(transpose_b=transpose_b)
    check_op(op, floats(*a), floats(*b), bias, constants=constants, access=STORAGE, kind="discrete")
    small = [RNG.integers(-128, 128, shape, dtype=np.int8) for shape in (a, b)]
    check_op(MatMulInteger(transpose_b), *small, access=STORAGE, kind="discrete")


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize("m, n", [(1, 4), (3, 4), (7, 8)])
def test_more_products_than_the_loops_of_a_lane_take(
    m: int, n: int, constants: tuple[int, ...]
) -> None:
    """By vec4s a lane takes four in a round; beyond that they are the host's."""
    a, b = floats(m, 100_000), floats(100_000, n)
    check_op(MatMul(), a, b, constants=constants, tolerance=1e-4, access=STORAGE)
    check_op(MatMul(), a, b, constants=constants, tolerance=1e-4, access=STORAGE, kind="discrete")
    a, b = floats(m, 70_001), floats(70_001, n)
    check_op(MatMul(), a, b, constants=constants, host=m > 1, tolerance=1e-4, access=STORAGE)
    check_op(MatMul(), floats(m, 270_000), floats(270_000, n), constants=constants, host=True)
    small = [RNG.integers(-9, 9, x, dtype=np.int8) for x in ((m, 70_001), (70_001, n))]
    check_op(MatMulInteger(), *small, constants=constants, host=True)
