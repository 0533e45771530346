"""Det and Inverse of square matrices."""

from __future__ import annotations

import numpy as np

from vknn import run_limits
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import arguments, fits, require, require_float


def _require_square(op: Op, x: TensorType) -> None:
    require_float(op, x)
    square = x.rank >= 2 and fits(x.shape[-1], x.shape[-2])
    require(square, f"{type(op).__name__}: {x} should be [..., n, n]")


@attributes
class Det(Op):
    """The determinant of each matrix of x [..., n, n]."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _require_square(self, x)
        return (x.with_shape(x.shape[:-2]),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            return (np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype),)


@attributes
class Inverse(Op):
    """The inverse of each matrix of x [..., n, n]; NaN where there is none."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _require_square(self, x)
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        y = np.full(x.shape, np.nan)
        with np.errstate(all="ignore"):
            for at in np.ndindex(x.shape[:-2]):
                run_limits.check()
                try:
                    y[at] = np.linalg.inv(x[at].astype(np.float64))
                except np.linalg.LinAlgError:
                    continue  # a singular matrix
            return (y.astype(x.dtype),)
