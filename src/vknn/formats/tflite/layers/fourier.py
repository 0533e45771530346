"""RFFT2D: the discrete Fourier transform of real numbers along two axes."""

from __future__ import annotations

from vknn.formats.fourier import transformed
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.complex_parts import ComplexOf
from vknn.ops.movement.shape import Slice


@operator("RFFT2D", inputs=2)
def rfft2d(c: Context) -> Value:
    """Transform along the last two axes, which are cut or padded with zeros; half of the last.

    TensorFlow Lite's kernel is wrong for a width of 1; here it is that of the definition.
    """
    x, lengths = c.x.type, c.ints(1, "fft_length")
    good = x.rank >= 2 and x.dtype is DType.FLOAT32
    c.require(good, f"takes float32 [..., height, width], not {x}")
    good = len(lengths) == 2 and all(n >= 1 and n & (n - 1) == 0 for n in lengths)
    c.require(good, f"has the lengths {lengths}; there must be two, each a power of two")
    height, width = lengths
    rank = x.rank
    cut = c.x
    if x.dims[-2] > height:
        cut = c.add(Slice((0,), (height,), (rank - 2,)), cut)
    rows = transformed(c, c.reshape(cut, (*cut.type.dims, 1)), width, False, True)
    swapped = (*range(rank - 2), rank - 1, rank - 2, rank)
    columns = transformed(c, c.transpose(rows, swapped), height, False, False)
    found = c.transpose(columns, swapped)
    bins = found.type.dims[:-1]
    parts = [c.add(Slice((k,), (k + 1,), (rank,)), found) for k in (0, 1)]
    return c.add(ComplexOf(), *(c.reshape(part, bins) for part in parts))
