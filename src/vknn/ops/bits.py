"""Operators on the bits of integers."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import arguments, broadcast, require


class _Bitwise(Op):
    """Base of operators of two integer tensors of one dtype, which broadcast by NumPy's rules."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        good = a.dtype is b.dtype and a.dtype.is_integer
        require(good, f"{self.type_name} wants integers of one dtype, not {a} and {b}")
        return (a.with_shape(broadcast(self, a.shape, b.shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        return (np.asarray(self.compute(a, b)),)

    @abstractmethod
    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The result for broadcastable arrays of one dtype."""


@attributes
class BitwiseAnd(_Bitwise):
    """The bits that are set in both"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.bitwise_and(a, b)


@attributes
class BitwiseOr(_Bitwise):
    """The bits that are set in either"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.bitwise_or(a, b)


@attributes
class BitwiseXor(_Bitwise):
    """The bits that are set in one alone"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.bitwise_xor(a, b)


@attributes
class BitShift(_Bitwise):
    """The bits of a moved by b places, upwards if ``left``; those that leave are lost.

    Signed integers keep their sign when moved downwards. By the width or more, or by less than 0
    places, nothing but that is left.
    """

    left: bool = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        width = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < width)
        places = np.where(inside, b, 0).astype(a.dtype)
        moved = np.left_shift(a, places) if self.left else np.right_shift(a, places)
        rest = np.where(a < 0, -1, 0).astype(a.dtype) if not self.left else a.dtype.type(0)
        return np.where(inside, moved, rest).astype(a.dtype)


@attributes
class BitwiseNot(Op):
    """All bits turned"""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype.is_integer, f"BitwiseNot wants integers, not {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.invert(x),)
