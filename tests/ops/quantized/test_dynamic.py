"""DynamicRound on the device against NumPy, and its reference by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.quantized.dynamic import DynamicRound

RNG = np.random.default_rng(29)


@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 37), (1, 2, 3, 131)])
def test_rows(shape: tuple[int, ...], rounding: str) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    x[..., 0] += 0.5
    check_op(DynamicRound(rounding), x)


@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
def test_rows_of_one_sign_and_of_zeros(rounding: str) -> None:
    x = RNG.random((4, 11)).astype(np.float32)
    x[1] = 0
    x[2] = -x[2]
    check_op(DynamicRound(rounding), x, kind="discrete")
    check_op(DynamicRound(rounding), x, precision="fp16")


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
def test_rows_of_the_smallest_and_largest_numbers(rounding: str, counts: bool) -> None:
    x = np.array([[0.9, -0.25, 0.5, 0.0, 1.0]], np.float32)
    sizes = [1e-45, 1e-39, 2e-38, 4e-37, 1.4e-36, 1.6e-36, 2.3e-36, 3e-36, 1e-30, 1e38, 3e38]
    check_op(DynamicRound(rounding, counts=counts), x * np.array(sizes, np.float32)[:, None])


@pytest.mark.host
@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
def test_a_row_whose_step_is_no_normal_number_is_zero(rounding: str) -> None:
    x = np.array([[1e-45, 0.0], [1e-36, 5e-37], [4e-36, 0.0]], np.float32)
    (y,) = DynamicRound(rounding).reference(x)
    np.testing.assert_allclose(y, [[0.0, 0.0], [0.0, 0.0], [4e-36, 0.0]], rtol=1e-6)


@pytest.mark.host
def test_symmetric_by_hand() -> None:
    # 127 levels for 254: steps of 2, halves away from zero; the row of zeros stays zero.
    x = np.array([[254.0, 3.0, -3.0, 0.9], [0.0, 0.0, 0.0, 0.0]], np.float32)
    (y,) = DynamicRound().reference(x)
    np.testing.assert_allclose(y, [[254.0, 4.0, -4.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.host
def test_asymmetric_by_hand() -> None:
    # A range of 510: steps of 2; -128 + 150 / 2 = -53 stands for 0.
    x = np.array([[360.0, -150.0, 1.2, 0.9, -3.1]], np.float32)
    (y,) = DynamicRound("asymmetric").reference(x)
    np.testing.assert_allclose(y, [[360.0, -150.0, 2.0, 0.0, -4.0]])
    # A range is widened to hold 0.
    (y,) = DynamicRound("asymmetric").reference(np.array([[510.0, 300.0]], np.float32))
    np.testing.assert_allclose(y, [[510.0, 300.0]])


@pytest.mark.host
def test_nonsense_is_refused() -> None:
    with pytest.raises(ShapeError, match="no rounding 'none'"):
        DynamicRound("none").infer(TensorType((3,)))
    with pytest.raises(ShapeError, match="no rows"):
        DynamicRound().infer(TensorType(()))
    with pytest.raises(ShapeError, match="DynamicRound"):
        DynamicRound().infer(TensorType((3,), DType.INT8))


@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("shape", [(2, 5, 3, 7), (3, 8, 2), (1, 4, 67, 37)], ids=str)
def test_rows_of_several_axes(rounding: str, shape: tuple[int, ...]) -> None:
    """In one dispatch and in parts; channels side by side or not."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    x[0] *= 5
    op = DynamicRound(rounding, axis=1)
    (y,) = op.reference(x)
    for image, rounded in zip(x, y, strict=True):
        (row,) = DynamicRound(rounding).reference(image.ravel())
        np.testing.assert_array_equal(rounded.ravel(), row)
    check_op(op, x)
    check_op(op, x, kind="discrete", access=("storage",))


@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 37), (1, 2, 3, 131), (2, 4, 40, 40)])
def test_counts_of_steps(shape: tuple[int, ...], rounding: str) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    x[0] = 0
    op = DynamicRound(rounding, axis=1, counts=True)
    counts, size, zero = op.reference(x)
    assert size.shape == zero.shape == (shape[0], *(1,) * (len(shape) - 1))
    np.testing.assert_array_equal(counts, np.round(counts))
    np.testing.assert_array_equal(zero, np.round(zero))
    assert not counts[0].any() and not zero[0].any() and (size[0] == 1).all()
    np.testing.assert_allclose(counts * size, DynamicRound(rounding, axis=1).reference(x)[0], 1e-6)
    assert shape[0] == 1 or np.abs(counts).max() > 60
    check_op(op, x)
    check_op(op, x, kind="discrete")
