"""Overflow: elements that a device, adding up in float32, cannot have as the reference has them.

So are those of subnormal inputs, which Vulkan lets a device take as zeros. Each rule names elements
of one operator's result, by that operator's own inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops.attention import RotaryEmbedding
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.elementwise import Fused
from vknn.ops.matmul import MatMul
from vknn.ops.recurrent.rnn import LSTM, Recurrent
from vknn.ops.reduction import ReduceMean, ReduceSum

#: Beyond this the square of a number is no float32, nor are sums of products.
OVERFLOW = 1e18
#: Devices may take numbers below it as zeros.
TINIEST = float(np.finfo(np.float32).tiny)
#: Operators whose results are sums of their inputs or of products with them.
_SUMS = (Conv, ConvTranspose, MatMul, ReduceMean, ReduceSum)
#: Parts of names of operators that divide by a root of a sum of squares.
_DIVIDING = ("Norm", "LRN")

Arrays = Sequence[np.ndarray | None]


def huge(values: Any) -> bool:
    """Whether sums and squares of these numbers may have no float32."""
    array = np.asarray(values)
    return array.dtype.kind == "f" and bool((np.abs(array[np.isfinite(array)]) > OVERFLOW).any())


def floats(value: Any) -> Iterator[float]:
    """Floats among the attributes of an operator, and of those inside it."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from floats(part)
    elif isinstance(value, Op):
        yield from floats(list(vars(value).values()))


def subnormal(values: Any) -> Any:
    """Mask of the numbers that are not 0 but below the least normal one of float32."""
    array = np.asarray(values)
    return (
        (array != 0) & (np.abs(array) < TINIEST) if array.dtype.kind == "f" else np.zeros((), bool)
    )


def overflowed(op: Op, inputs: Arrays, index: int, goal: np.ndarray, found: np.ndarray) -> Any:
    """Mask of the elements of an output that overflow explains: ``goal`` by NumPy, ``found`` not.

    They are those that have no number on the device but one with NumPy; zeros, where a root of
    squares that has no float32 divides; and what may come of sums without float32 on their way.
    """
    base, own = (op.base, op.split(tuple(inputs))[0]) if isinstance(op, Fused) else (op, inputs)
    with np.errstate(all="ignore"):
        gone = np.zeros(goal.shape, bool)
        if any(map(huge, [*(x for x in inputs if x is not None), *floats(op)])):
            gone = ~np.isfinite(found)
            if _divides(base):
                gone |= np.isclose(found, _of_zeros(op, inputs, index), 1e-5, 1e-30)
            gone &= np.isfinite(goal)
        if isinstance(base, _SUMS):
            gone |= ~np.isfinite(base.reference(*map(_sizes, own))[0])
        if isinstance(base, DeformConv):
            x, w, offset, *rest = own
            gone |= ~np.isfinite(
                base.reference(_sizes(x), _sizes(w), offset, *map(_sizes, rest))[0]
            )
        if isinstance(base, RotaryEmbedding):
            gone |= _of_turns(base, own)
        if isinstance(base, LSTM):
            gone |= _of_normal_gates(base, own)
        if isinstance(base, Recurrent):
            gone |= _of_gates(base, own)
        if any(x is not None and subnormal(x).any() for x in inputs):
            gone |= _of_subnormals(op, inputs, index, found)
    return gone


def _sizes(x: np.ndarray | None) -> np.ndarray | None:
    """Magnitudes; 0 of what is not finite."""
    return None if x is None else np.where(np.isfinite(x), np.abs(x), 0)


def _of_turns(op: RotaryEmbedding, inputs: Arrays) -> np.ndarray:
    """Elements of a rotation one of whose two products, or their sum, has no float32."""
    x, cosine, sine = map(_sizes, inputs[:3])
    assert sine is not None
    both = [op.reference(x, cosine, signed)[0] for signed in (sine, -sine)]
    return ~np.isfinite(both[0]) | ~np.isfinite(both[1])


def _of_subnormals(op: Op, inputs: Arrays, index: int, found: np.ndarray) -> np.ndarray:
    """Elements that are right if subnormal numbers of the inputs are zeros."""
    zeros = (None if x is None else np.where(subnormal(x), x.dtype.type(0), x) for x in inputs)
    return np.isclose(found, op.reference(*zeros)[index], 1e-5, 0.0, equal_nan=True)


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
