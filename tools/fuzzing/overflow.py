"""Overflow: elements that a device, adding up in float32, cannot have as the reference has them.

Each rule names elements of one operator's result, by that operator's own inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.elementwise import Fused
from vknn.ops.matmul import MatMul
from vknn.ops.recurrent.rnn import LSTM

#: Beyond this the square of a number is no float32, nor are sums of products.
OVERFLOW = 1e18
#: Parts of names of operators that divide by a root of a sum of squares.
_DIVIDING = ("Norm", "LRN")

Arrays = Sequence[np.ndarray | None]


def huge(values: Any) -> bool:
    """Whether sums and squares of these numbers may have no float32."""
    array = np.asarray(values)
    return array.dtype.kind == "f" and bool((np.abs(array[np.isfinite(array)]) > OVERFLOW).any())


def overflowed(op: Op, inputs: Arrays, index: int, goal: np.ndarray, found: np.ndarray) -> Any:
    """Mask of the elements of an output that overflow explains: ``goal`` by NumPy, ``found`` not.

    They are those that have no number on the device but one with NumPy; zeros, where a root of
    squares that has no float32 divides; and what may come of sums without float32 on their way.
    """
    base, own = (op.base, op.split(tuple(inputs))[0]) if isinstance(op, Fused) else (op, inputs)
    with np.errstate(all="ignore"):
        gone = ~np.isfinite(found)
        numbers = [*own, *vars(base).values()]
        if _divides(base) and any(huge(x) for x in numbers if isinstance(x, float | np.ndarray)):
            gone |= np.isclose(found, _of_zeros(op, inputs, index), 1e-5, 1e-30)
        gone &= np.isfinite(goal)
        if isinstance(base, Conv | ConvTranspose | MatMul):
            sizes = [None if x is None else np.where(np.isfinite(x), abs(x), 0) for x in own]
            gone |= ~np.isfinite(base.reference(*sizes)[0])
        if isinstance(base, LSTM):
            gone |= _of_normal_gates(base, own)
    return gone


def _divides(op: Op) -> bool:
    return any(part in type(op).__name__ for part in _DIVIDING)


def _of_zeros(op: Op, inputs: Arrays, index: int) -> np.ndarray:
    """A result for zeros: what dividing by an infinite root leaves.

    Its own epsilon may have no root, or none may be there.
    """
    base = op.base if isinstance(op, Fused) else op
    if hasattr(base, "epsilon"):
        names = base.__match_args__
        base = type(base)(**{name: getattr(base, name) for name in names} | {"epsilon": 1.0})
        op = Fused(base, op.steps) if isinstance(op, Fused) else base
    assert inputs[0] is not None
    return np.asarray(op.reference(np.zeros_like(inputs[0]), *inputs[1:])[index])


def _of_normal_gates(op: LSTM, inputs: Arrays) -> np.ndarray:
    """Rows of the batch in which a gate, that is normalised, has sums whose squares overflow.

    The mask has the axes of the batch and of the units, the last two of each output.
    """
    x, w, norm = inputs[0], inputs[1], (*inputs, *(None,) * 10)[9]
    if x is None or w is None or norm is None or op.layout:
        return np.zeros((1, 1), bool)
    x, w = (np.where(np.isfinite(a), np.abs(a), 0).astype(np.float64) for a in (x, w))
    sums = np.einsum("tbi,dgi->b", x, w)
    return (sums > OVERFLOW)[:, None]
