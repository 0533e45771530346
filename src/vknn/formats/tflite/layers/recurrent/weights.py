"""Weights of recurrent operators, and checks of LSTM cells.

Operators on floats by 8-bit weights (hybrid) multiply rounded rows by weights times their scale
(see ``quantized.hybrid``).
"""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise import logic
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.reduction import ReduceMax


def constant(c: Context, number: int) -> np.ndarray:
    """Constant weights or biases as float32; 8-bit ones times their scale.

    Bytes of uint8 are read as int8, as in TensorFlow Lite.
    """
    array = c.data(number)
    if array.dtype.itemsize > 1:
        c.require(array.dtype == np.float32, f"input {number} has weights of {array.dtype}")
        return array
    scale = np.float32(c.quant(number).scale.reshape(-1)[0])
    return np.asarray(array.view(np.int8).astype(np.float32) * scale)


def matrix(c: Context, number: int, columns: int | None = None) -> np.ndarray:
    """Constant weights of rank 2 as float32 (see :func:`constant`), with ``columns`` checked."""
    w = constant(c, number)
    good = w.ndim == 2 and columns in (None, w.shape[1])
    wanted = "rank 2" if columns is None else f"{columns} columns"
    c.require(good, f"input {number} has the shape {list(w.shape)}, not {wanted}")
    return w


def check_cell(c: Context, first: int, norm: int | None = None, diagonal: bool = False) -> None:
    """Check: Malformed for an LSTM cell with incomplete gates.

    ``first``, ``norm``: numbers of the input weights and layer norm weights of the gate i.
    ``diagonal``: recurrent weights may be vectors, the diagonals of matrices.
    """

    def present(*numbers: int) -> list[bool]:
        return [c.optional(n) is not None for n in numbers]

    coupled = not present(first)[0]
    c.require(present(first + 4)[0] is not coupled, "has a part of the input gate")
    peepholes = present(first + 9, first + 10) + ([] if coupled else present(first + 8))
    c.require(len(set(peepholes)) == 1, "has peepholes of some gates only")
    if norm is not None:
        whole = present(norm + 1, norm + 2, norm + 3) + ([] if coupled else present(norm))
        c.require(len(set(whole)) == 1, "normalizes some gates only")
    for number in range(first + 4 + coupled, first + 8):
        rank = c.value(number).type.rank
        good = rank == 2 or (diagonal and rank == 1)
        c.require(good, f"input {number}, weights of h, is {c.value(number).type}")


def sparse_state(c: Context, h: Value, x: Value) -> Value:
    """``h`` as sparse 8-bit weights of an LSTM multiply it: its rounded counts times steps of x.

    TensorFlow Lite's kernel scales the sums by the wrong steps there, and ignores zero points.
    """
    if c.options["asymmetric_quantize_inputs"]:
        c.refuse("sparse weights of data with zero points")
    most = [c.add(ReduceMax((-1,)), c.add(ew.Abs(), v)) for v in (h, x)]
    zero = c.scalar(0.0)
    steps = [c.add(logic.Where(), c.add(logic.Equal(), m, zero), c.scalar(127.0), m) for m in most]
    return c.add(ew.Mul(), c.add(DynamicRound(), h), c.add(ew.Div(), steps[1], steps[0]))
