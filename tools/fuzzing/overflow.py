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
from vknn.ops.recurrent.rnn import LSTM, Recurrent
from vknn.ops.reduction import ReduceMean, ReduceSum

#: Beyond this the square of a number is no float32, nor are sums of products.
OVERFLOW = 1e18
#: Operators whose results are sums of their inputs or of products with them.
_SUMS = (Conv, ConvTranspose, MatMul, ReduceMean, ReduceSum)
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
        if isinstance(base, _SUMS):
            sizes = [None if x is None else np.where(np.isfinite(x), abs(x), 0) for x in own]
            gone |= ~np.isfinite(base.reference(*sizes)[0])
        if isinstance(base, LSTM):
            gone |= _of_normal_gates(base, own)
        if isinstance(base, Recurrent):
            gone |= _of_gates(base, own)
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
    """Rows of the batch in which a gate, that is normalised, has sums whose squares overflow."""
    norm = (*inputs, *(None,) * 10)[9]
    return _rows_beyond(op, inputs[:2] if norm is not None else (), OVERFLOW)


def _of_gates(op: Recurrent, inputs: Arrays) -> np.ndarray:
    """Rows of the batch in which magnitudes of a gate add up to more than float32 holds."""
    state = (*inputs, *(None,) * 5)[4]
    held = 1.0 if state is None else max(1.0, float(_magnitudes(state).max(initial=0)))
    return _rows_beyond(op, inputs[:3], float(np.finfo(np.float32).max), held)


def _rows_beyond(op: Recurrent, inputs: Arrays, limit: float, held: float = 0.0) -> np.ndarray:
    """Rows of the batch in which magnitudes of a gate's products add up to more than ``limit``.

    Those of x and W, and with ``held`` as a state's of R. The mask has the axes of the batch and of
    the units, the last two of each output.
    """
    if not inputs or op.layout or any(a is None for a in inputs):
        return np.zeros((1, 1), bool)
    x, w, *r = (_magnitudes(a) for a in inputs)
    sums = np.einsum("tbi,dgi->tbdg", x, w)
    for weights in r:
        sums += held * weights.sum(-1)
    return (sums > limit).any((0, 2, 3))[:, None]


def _magnitudes(array: Any) -> np.ndarray:
    """Magnitudes in float64; 0 of what is not finite."""
    return np.where(np.isfinite(array), np.abs(array), 0).astype(np.float64)
