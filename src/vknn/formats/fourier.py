"""Discrete Fourier transforms as several formats have them."""

from __future__ import annotations

import math

from vknn.formats.layer_context import MAX_ELEMENTS, LayerContext
from vknn.graph import DType, Value
from vknn.ops.elementwise import Mul
from vknn.ops.fourier import DFT, dft_matrix
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Slice

#: Elements of a matrix up to which a transform is a product with it: 16 MiB.
_LARGEST_MATRIX = 1 << 22


def transformed(c: LayerContext, x: Value, length: int, inverse: bool, onesided: bool) -> Value:
    """The op DFT of x, as a matrix product where the matrix is not large."""
    c.require(1 <= length < MAX_ELEMENTS, f"has the length {length}")
    kind = x.type.dtype
    *lead, count, parts = x.type.dims
    taken = length // 2 + 1 if inverse and onesided else length
    if count > taken:
        x = c.add(Slice((0,), (taken,), (len(lead),)), x)
        count = taken
    if inverse and onesided and parts == 1:
        x = c.add(Concat(x.type.rank - 1), x, c.add(Mul(), x, c.scalar(0, kind)))
        parts = 2
    if kind is DType.FLOAT16:
        x = c.cast(x, DType.FLOAT32)
    op = DFT(length, inverse, onesided)
    (type_,) = op.infer(x.type)
    bins, components = type_.dims[-2:]
    if count * parts * bins * components > _LARGEST_MATRIX or count == 0:
        return c.cast(c.add(op, x), kind)
    matrix = dft_matrix(count, length, parts == 1, inverse, onesided)
    rows = c.reshape(x, (math.prod(lead), count * parts))
    found = c.add(MatMul(), rows, c.constant(matrix.astype(x.type.dtype.numpy), "transform"))
    return c.cast(c.reshape(found, (*lead, bins, components)), kind)
