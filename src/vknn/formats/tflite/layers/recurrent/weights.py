"""Weights of recurrent operators, and how their data are rounded before they multiply them.

An operator on floats whose weights have 8 bits is hybrid: TensorFlow Lite rounds the data to as
many, each row with steps of its own, multiplies integers and scales the sums. The same sums come of
floats rounded to these steps and of weights times their scale.
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
    """Constant weights or biases as float32, of 8-bit ones with their scale.

    The bytes of uint8 are taken for int8, as TensorFlow Lite does.
    """
    array = c.data(number)
    if array.dtype.itemsize > 1:
        c.require(array.dtype == np.float32, f"input {number} has weights of {array.dtype}")
        return array
    scale = np.float32(c.quant(number).scale.reshape(-1)[0])
    return np.asarray(array.view(np.int8).astype(np.float32) * scale)


def matrix(c: Context, number: int, columns: int | None = None) -> np.ndarray:
    """Constant weights of rank 2."""
    w = constant(c, number)
    good = w.ndim == 2 and columns in (None, w.shape[1])
    wanted = "rank 2" if columns is None else f"{columns} columns"
    c.require(good, f"input {number} has the shape {list(w.shape)}, not {wanted}")
    return w


def check_cell(c: Context, first: int, norm: int | None = None, diagonal: bool = False) -> None:
    """Refuses an LSTM cell with a part of a gate; ``first``, ``norm``: weights of the gate i.

    ``diagonal``: what multiplies h may be vectors.
    """

    def present(*numbers: int) -> list[bool]:
        return [c.optional(n) is not None for n in numbers]

    coupled = not present(first)[0]
    c.require(present(first + 4)[0] is not coupled, "has a part of the input gate")
    of_cell = present(first + 9, first + 10) + ([] if coupled else present(first + 8))
    c.require(len(set(of_cell)) == 1, "has peepholes of some gates only")
    if norm is not None:
        whole = present(norm + 1, norm + 2, norm + 3) + ([] if coupled else present(norm))
        c.require(len(set(whole)) == 1, "normalizes some gates only")
    for number in range(first + 4 + coupled, first + 8):
        rank = c.value(number).type.rank
        good = rank == 2 or (diagonal and rank == 1)
        c.require(good, f"input {number}, weights of h, is {c.value(number).type}")


def sparse_state(c: Context, h: Value, x: Value) -> Value:
    """h as sparse 8-bit weights see it: rounded to its own steps, which count as those of x.

    That is a mistake of TensorFlow Lite's kernel of LSTM, which leaves zero points aside besides.
    """
    if c.options["asymmetric_quantize_inputs"]:
        c.refuse("sparse weights of data with zero points")
    most = [c.add(ReduceMax((-1,)), c.add(ew.Abs(), v)) for v in (h, x)]
    zero = c.scalar(0.0)
    steps = [c.add(logic.Where(), c.add(logic.Equal(), m, zero), c.scalar(127.0), m) for m in most]
    return c.add(ew.Mul(), c.add(DynamicRound(), h), c.add(ew.Div(), steps[1], steps[0]))
