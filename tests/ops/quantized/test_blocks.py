"""Integers of a few bits in bytes, and what they stand for in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import f32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.quantized.blocks import DequantizeBlocks, packed_bytes, unpacked_bits


@pytest.mark.parametrize("bits", range(1, 9))
def test_unpacking(bits: int) -> None:
    numbers = np.random.default_rng(bits).integers(0, 1 << bits, (3, 11))
    rows = []
    for row in numbers:
        whole = sum(int(v) << (bits * i) for i, v in enumerate(row))
        rows.append(list(whole.to_bytes(packed_bytes(11, bits), "little")))
    found = unpacked_bits(np.array(rows, np.uint8), bits, 11)
    assert found.dtype == np.uint8 and found.tolist() == numbers.tolist()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_blocks_of_bytes(axis: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-100, 100, (5, 7)).astype(np.int8)
    shape = [5, 7]
    shape[axis] = -(-shape[axis] // 3)
    scale, zeros = rng.random(shape).astype(np.float32), rng.integers(-9, 9, shape).astype(np.int8)
    op = DequantizeBlocks(axis, 3)
    assert op.infer(TensorType.of(x), TensorType.of(scale), TensorType.of(zeros)) == (f32(5, 7),)
    (y,) = op.reference(x, scale, zeros)
    for i, j in np.ndindex(5, 7):
        at = (i // 3, j) if axis == 0 else (i, j // 3)
        assert y[i, j] == np.float32(int(x[i, j]) - int(zeros[at])) * scale[at]


def test_packed_blocks() -> None:
    x = np.array([[0x21, 0x43, 0x05]], np.uint8)  # 1 2 3 4 5
    scale = np.array([[1.0, 10.0]], np.float32)
    op = DequantizeBlocks(1, 4, 4, 5, 2)
    assert op.reference(x, scale)[0].tolist() == [[-1, 0, 1, 2, 30]]
    packed = np.array([[0x31]], np.uint8)  # zero points 1 and 3
    assert op.reference(x, scale, packed)[0].tolist() == [[0, 1, 2, 3, 20]]


def test_refused() -> None:
    byte = TensorType((2, 3), DType.UINT8)
    refuses(DequantizeBlocks(1, 4, 4, 9), byte, f32(2, 3), match="does not hold 9")
    refuses(DequantizeBlocks(1, 2), byte, f32(2, 1), match=r"should have the shape")
    refuses(DequantizeBlocks(1, 0), byte, f32(2, 1), match="blocks of 0")
