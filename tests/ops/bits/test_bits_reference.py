"""Bits of integers against Python's own arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.bits import BitShift, BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor

A = np.array([[0b1100], [0b1010]], np.uint8)
B = np.array([0b0110, 0b1111, 0], np.uint8)


def test_two_operands_broadcast() -> None:
    for op, function in (
        (BitwiseAnd(), int.__and__), (BitwiseOr(), int.__or__), (BitwiseXor(), int.__xor__)
    ):  # fmt: skip
        (found,) = op.reference(A, B)
        assert found.tolist() == [[function(a, b) for b in B.tolist()] for [a] in A.tolist()]
    assert BitwiseNot().reference(A)[0].tolist() == [[255 - a] for [a] in A.tolist()]


def test_shifts_lose_what_leaves() -> None:
    x, places = np.array([129, 1, 255, 7], np.uint8), np.array([1, 7, 8, 200], np.uint8)
    assert BitShift(True).reference(x, places)[0].tolist() == [2, 128, 0, 0]
    assert BitShift(False).reference(x, places)[0].tolist() == [64, 0, 0, 0]
    signed = np.array([-8, 8, -1], np.int32)
    assert BitShift(False).reference(signed, np.array([1, 1, 40], np.int32))[0].tolist() == [
        -4,
        4,
        -1,
    ]


def test_floats_are_refused() -> None:
    with pytest.raises(ShapeError, match="wants integers"):
        BitwiseAnd().infer(TensorType((2,)), TensorType((2,)))
    with pytest.raises(ShapeError, match="wants integers"):
        BitwiseAnd().infer(TensorType((2,), DType.INT32), TensorType((2,), DType.INT8))
