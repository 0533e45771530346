"""Rows of tables of integers of a few bits, packed in bytes."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require, require_dtype
from vknn.ops.quantized.blocks import packed_bytes, unpacked_bits


@attributes
class GatherCodes(Op):
    """Rows of a table of integers of 4 or 2 bits, by index, as int8.

    Inputs codes uint8 [N, bytes of a row] and indices (int32, any rank). A row holds ``count``
    codes of ``bits`` bits, the first in the lowest bits; the integers are these less 2^(bits - 1).
    The result has a last axis of them behind those of the indices. An index outside takes the
    nearest row.
    """

    count: int
    bits: int = 4

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        codes, indices = arguments(self, inputs, 2)
        require(self.bits in (2, 4), f"GatherCodes: codes of {self.bits} bits")
        require(codes.dtype is DType.UINT8 and codes.rank == 2, f"GatherCodes: the codes {codes}")
        wanted = packed_bytes(self.count, self.bits)
        require(codes.dims[1] == wanted and codes.dims[0] > 0, f"GatherCodes: {codes} of {wanted}")
        require_dtype(self, DType.INT32, indices)
        return (TensorType((*indices.shape, self.count), DType.INT8),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        codes, indices = arguments(self, inputs, 2)
        rows = np.take(codes, indices, 0, mode="clip")
        found = unpacked_bits(rows, self.bits, self.count).astype(np.int8)
        return (found - np.int8(1 << (self.bits - 1)),)
