"""Rows of tables of integers of a few bits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op
from tests.tflite_writer import packed

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.quantized.blocks import packed_bytes
from vknn.ops.quantized.codes import GatherCodes


def table(bits: int, rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers [rows, count], and their codes."""
    half = 1 << (bits - 1)
    numbers = np.random.default_rng(bits).integers(-half, half, (rows, count)).astype(np.int8)
    return numbers, np.stack([packed(row + half, bits) for row in numbers])


@pytest.mark.host
@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("count", [1, 5, 8, 17])
def test_reference(bits: int, count: int) -> None:
    numbers, codes = table(bits, 7, count)
    indices = np.array([[0, 6, 3], [-1, 2, 7]], np.int32)
    (found,) = GatherCodes(count, bits).reference(codes, indices)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, numbers[np.clip(indices, 0, 6)])


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("count", [1, 5, 17, 64])
def test_kernel(bits: int, count: int) -> None:
    _, codes = table(bits, 7, count)
    for indices in ([3], [[6, 0, 2], [-5, 9, 6]]):
        check_op(GatherCodes(count, bits), codes, np.array(indices, np.int32), constants=(0,))


def test_what_kernels_leave_to_the_host() -> None:
    _, codes = table(4, 3, 5)
    check_op(GatherCodes(5), codes, np.array([1], np.int32), host=True)


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "codes", "indices"),
    [
        (GatherCodes(5, 3), TensorType((3, packed_bytes(5, 3)), DType.UINT8), DType.INT32),
        (GatherCodes(5), TensorType((3, 2), DType.UINT8), DType.INT32),
        (GatherCodes(5), TensorType((0, 3), DType.UINT8), DType.INT32),
        (GatherCodes(5), TensorType((3, 3), DType.INT8), DType.INT32),
        (GatherCodes(5), TensorType((3,), DType.UINT8), DType.INT32),
        (GatherCodes(5), TensorType((3, 3), DType.UINT8), DType.INT8),
    ],
)
def test_wrong_shapes(op: GatherCodes, codes: TensorType, indices: DType) -> None:
    with pytest.raises(ShapeError, match="GatherCodes"):
        op.infer(codes, TensorType((2,), indices))
