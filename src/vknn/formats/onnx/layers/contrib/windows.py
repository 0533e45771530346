"""Windows that end at a mask, and windows of a word's letters."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import window
from vknn.formats.onnx.layers.pooling import elements, reach
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise.logic import And, Equal, Greater, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Slice
from vknn.ops.reduction import CumSum, ReduceMax, ReduceSum

_LOWEST = float(np.finfo(np.float32).min)


@operator("MaxpoolWithMask", 1, inputs=2, domain=MICROSOFT)
def max_pool_with_mask(c: Context) -> Value:
    """The largest element of each window, whose rows end before the first element that is masked"""
    w = window(c, dilated=False)
    x, mask, axes = c.x, c.value(1), len(w.kernel)
    sizes = x.type.dims[2:]
    good = mask.type.dtype is DType.INT32 and mask.type.dims[2:] == sizes
    good = good and mask.type.rank == x.type.rank and 0 not in mask.type.dims
    c.require(good, f"takes no {x.type} with the mask {mask.type}")
    zero = c.scalar(0, DType.INT32)
    hidden = c.cast(c.add(Equal(), _mask_of_planes(c, x, mask), zero), DType.FLOAT32)
    if axes > 1:  # onnxruntime never looks at the mask of an image's first element
        looked = np.ones((1, 1, *sizes), np.float32)
        looked.reshape(-1)[0] = 0
        hidden = c.add(ew.Mul(), hidden, c.constant(looked, "looked"))
    pads = reach(c, w, x)
    seen = elements(c, x, w, pads)
    # Padding is far below 0 in the mask, too, and hides nothing.
    marks = c.add(ew.Max(), elements(c, hidden, w, pads), c.scalar(0.0))
    before = c.add(CumSum(1 + axes), marks)
    ended = c.add(Greater(), before, c.scalar(0.5))
    left = c.add(Where(), ended, c.scalar(_LOWEST, x.type.dtype), seen)
    found = c.add(ReduceMax(tuple(range(2, 2 + axes)), False), left)
    return c.add(ew.Max(), found, c.scalar(_LOWEST, x.type.dtype))


def _mask_of_planes(c: Context, x: Value, mask: Value) -> Value:
    """A mask for each plane of ``x``: a part of the whole that begins where onnxruntime has it."""
    n, channels, *sizes = x.type.dims
    size, count = math.prod(sizes), mask.type.dims[0] * mask.type.dims[1]
    if count == 1:
        return mask
    first = np.arange(n * channels) * size % count
    places = (first[:, None] + np.arange(size)).astype(np.int32)
    flat = c.reshape(mask, (mask.type.size,))
    return c.reshape(c.add(Gather(0), flat, c.constant(places, "planes")), x.type.dims)


@operator("WordConvEmbedding", 1, inputs=4, domain=MICROSOFT)
def word_conv_embedding(c: Context) -> Value:
    """The largest tanh of a convolution over each word's letters; zeros for words of nothing"""
    letters, weights, bias, table = (c.value(number) for number in range(4))
    good = letters.type.rank == table.type.rank == 2 and weights.type.rank == 4
    c.require(good, f"takes no {letters.type}, {weights.type} and {table.type}")
    words, length = letters.type.dims
    filters, _, taps, width = weights.type.dims
    classes, own = table.type.dims
    c.require(own == width, f"has letters of {own} numbers, its windows of {width}")
    c.require(1 <= taps <= length, f"has windows of {taps} letters of {length}")
    for name, size in (("embedding_size", filters), ("conv_window_size", taps),
                       ("char_embedding_size", width)):  # fmt: skip
        c.require(c.int(name, -1) in (-1, size), f"says that its {name} is {c.int(name, -1)}")
    rows = c.add(Gather(0), table, c.indices(0, classes, from_end=False))
    image = c.reshape(rows, (words, 1, length, width))
    y = c.add(ew.Tanh(), c.add(Conv((1, 1), (0,) * 4, (1, 1), 1), image, weights, bias))
    count = length - taps + 1
    y = c.reshape(y, (words, filters, count))
    letter = c.cast(c.add(Greater(), letters, c.scalar(0, letters.type.dtype)), DType.FLOAT32)
    number = c.add(ReduceSum((1,), True), letter)
    windows = c.add(ew.Max(), c.add(ew.Sub(), number, c.scalar(float(taps - 1))), c.scalar(1.0))
    places = c.constant(np.arange(count, dtype=np.float32), "windows")
    inside = c.reshape(c.add(Greater(), windows, places), (words, 1, count))
    best = c.add(ReduceMax((2,), False), c.add(Where(), inside, y, c.scalar(-2.0)))
    begins = c.add(Greater(), c.add(Slice((0,), (1,), (1,)), letter), c.scalar(0.5))
    given = c.add(And(), begins, c.add(Greater(), number, c.scalar(0.5)))
    return c.add(Where(), given, best, c.scalar(0.0))
