"""Comparison, logical operators and Where."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, broadcast, require, require_dtype


class Comparison(Op):
    """Two inputs of one dtype, broadcast by NumPy's rules, to bool. NaN compares as in IEEE.

    ``ordered``: the op asks which is larger, so that the inputs must be numbers.
    """

    ordered: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        require(a.dtype is b.dtype, f"{self.type_name}: dtypes of {a} and {b} differ")
        if self.ordered and not (a.dtype.is_float or a.dtype.is_integer):
            raise ShapeError(f"{self.type_name} wants numbers, not {a}")
        return (TensorType(broadcast(self, a.shape, b.shape), DType.BOOL),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        return (np.asarray(self.compute(a, b), np.bool_),)

    @abstractmethod
    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The truth for broadcastable arrays of one dtype."""


@attributes
class Equal(Comparison):
    """a == b"""

    ordered = False

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a == b


@attributes
class NotEqual(Comparison):
    """a != b"""

    ordered = False

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a != b


@attributes
class Less(Comparison):
    """a < b"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a < b


@attributes
class LessOrEqual(Comparison):
    """a <= b"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a <= b


@attributes
class Greater(Comparison):
    """a > b"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a > b


@attributes
class GreaterOrEqual(Comparison):
    """a >= b"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a >= b


class Logic(Op):
    """Two bool inputs, broadcast by NumPy's rules."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        require_dtype(self, DType.BOOL, a, b)
        return (TensorType(broadcast(self, a.shape, b.shape), DType.BOOL),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        return (np.asarray(self.compute(a, b), np.bool_),)

    @abstractmethod
    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The truth for broadcastable arrays."""


@attributes
class And(Logic):
    """a and b"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a & b


@attributes
class Or(Logic):
    """a or b"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a | b


@attributes
class Xor(Logic):
    """Either a or b, not both"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a ^ b


@attributes
class Not(Op):
    """The opposite of a bool"""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_dtype(self, DType.BOOL, x)
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.logical_not(x),)


@attributes
class Where(Op):
    """a where the condition holds, else b; inputs condition (bool), a, b, all broadcast."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        condition, a, b = arguments(self, inputs, 3)
        require_dtype(self, DType.BOOL, condition)
        require(a.dtype is b.dtype, f"Where: dtypes of {a} and {b} differ")
        return (a.with_shape(broadcast(self, condition.shape, a.shape, b.shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        condition, a, b = arguments(self, inputs, 3)
        return (np.where(condition, a, b),)
