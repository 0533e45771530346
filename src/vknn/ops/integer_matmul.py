"""Matrix products of integers of any width, which wrap around."""

from __future__ import annotations

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require
from vknn.ops.matmul import product_shape


@attributes
class IntegerProduct(Op):
    """a @ b of integers of one dtype, which the result has, too; sums wrap around.

    Inputs a [..., M, K] and b [..., K, N]; the leading axes broadcast by NumPy's rules.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        good = a.dtype is b.dtype and a.dtype.is_integer
        require(good, f"IntegerProduct wants integers of one dtype, not {a} and {b}")
        return (a.with_shape(product_shape(self, a, b, False, False)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        return (np.asarray(np.matmul(a, b), a.dtype),)
