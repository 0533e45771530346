"""BITCAST: bits as another element type."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.casting import BitCast


@operator("BITCAST", takes_quantized=True)
def bitcast(c: Context) -> Value:
    """The bits of the input as elements of the output's type, the lowest first.

    Narrower elements stand in a last axis, of the size of the ratio.
    """
    given, wanted = c.x.type, c.target().dtype
    ratio = wanted.itemsize // given.dtype.itemsize
    fits = ratio <= 1 or given.dims[-1:] == (ratio,)
    c.require(fits, f"reads {given} as {wanted.value}, which needs a last axis of {ratio}")
    return c.add(BitCast(wanted), c.x)
