"""GLU, the gated linear unit."""

from __future__ import annotations

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import in_blocks
from vknn.ops.common.checks import arguments, normal_axis, require, require_float


@attributes
class Glu(Op):
    """a * sigmoid(b), a and b the halves along ``axis``; of an odd size the last is left over"""

    axis: int = 1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        axis = normal_axis(self, self.axis, x.rank)
        size = x.shape[axis]
        require(size is None or size >= 2, f"Glu: axis {axis} of {x} has no two halves")
        half = None if size is None else size // 2
        return (x.with_shape((*x.shape[:axis], half, *x.shape[axis + 1 :])),)

    @in_blocks(whole=lambda op, _: (op.axis,))
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        half = x.shape[self.axis] // 2
        a, b = np.split(x.astype(np.float64), [half, 2 * half], axis=self.axis)[:2]
        with np.errstate(all="ignore"):
            return ((a / (1.0 + np.exp(-b))).astype(x.dtype),)
