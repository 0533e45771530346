"""Blockwise quantized matrices: rows in blocks of integers of 4, 6 or 8 bits with a scale each.

The parameter quantize_term (18) is 100 * bits, plus 10 where columns have scales too, plus 0, 1 or
2 for blocks of 32, 64 or 128. Integers are packed bit by bit, the lowest bit first; each row starts
at a byte. An element is integer / scale of its block * scale of its column.

Matrices of 8 bits multiply inputs that are rounded to 8 bits in the same blocks; those of 4 and 6
bits multiply floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.layer_errors import Unsupported
from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.params import P, Params, param
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.elementwise import Mul
from vknn.ops.matmul import RoundBlocks

_BITS, _SIZES = (4, 6, 8), (32, 64, 128)
#: Bits of matrices whose inputs are rounded too.
_ROUNDING = 8
#: The first term of blocks; smaller ones are those of int8 matrices, except for three invalid ones.
_FIRST, _INVALID = 400, (4, 5, 6)


@dataclass(frozen=True)
class Blocks:
    """Block format of a matrix: bits of an integer, size of a block, scales of columns."""

    bits: int
    size: int
    column_scales: bool

    @property
    def rounds_inputs(self) -> bool:
        """True where inputs are rounded too."""
        return self.bits == _ROUNDING

    def weight(self, name: str, rows: int, columns: int) -> WeightSpec:
        """Spec of the packed integers."""
        count = -(-columns * self.bits // 8)
        return WeightSpec(name, (rows, count), int8=True)

    def scales(self, name: str, rows: int, columns: int) -> WeightSpec:
        """Spec of the scales of the blocks."""
        return WeightSpec(f"{name}_scale", (rows, -(-columns // self.size)))

    def inputs(self, name: str, columns: int) -> list[WeightSpec]:
        """Specs of the scales of the columns: one, or none."""
        return [WeightSpec(f"scale_{name}_columns", (columns,))] if self.column_scales else []

    def matrix(self, c: Context[P], name: str, columns: int) -> np.ndarray:
        """The matrix ``name`` as float32 [rows, columns], for inputs as :meth:`rounded` gives."""
        stored, scales = c.weight(name), c.weight(f"{name}_scale")
        with np.errstate(all="ignore"):
            each = np.repeat(np.float32(1) / scales, self.size, axis=1)[:, :columns]
            matrix = self._integers(stored.view(np.uint8), columns) * each
            if self.column_scales and not self.rounds_inputs:
                matrix = matrix * c.weight(f"scale_{name}_columns")
            return matrix.astype(np.float32)

    def rounded(self, c: Context[P], x: Value, name: str) -> Value:
        """``x`` as the matrix ``name`` multiplies it: scaled by columns and rounded, or itself."""
        if not self.rounds_inputs:
            return x
        if self.column_scales:
            x = c.add(Mul(), x, c.weight_value(f"scale_{name}_columns"))
        return c.add(RoundBlocks(self.size), x)

    def _integers(self, stored: np.ndarray, columns: int) -> np.ndarray:
        """The packed integers of each row, as float32."""
        first = np.arange(columns) * self.bits
        at, shift = first // 8, (first % 8).astype(np.uint16)
        padded = np.pad(stored, ((0, 0), (0, 1))).astype(np.uint16)
        word = padded[:, at] | padded[:, at + 1] << 8
        number = (word >> shift & ((1 << self.bits) - 1)).astype(np.float32)
        return np.where(number >= 1 << (self.bits - 1), number - (1 << self.bits), number)


def blocks_of(term: int) -> Blocks | None:
    """Block format of a quantize_term; None for 0 and terms of int8. Raises Unsupported."""
    if 0 <= term < _FIRST and term not in _INVALID:
        return None
    bits, form, size = term // 100, term % 100 // 10, term % 10
    if bits not in _BITS or form > 1 or size >= len(_SIZES):
        raise Unsupported(f"quantize_term (parameter 18) {term}, which ncnn does not take either")
    return Blocks(bits, _SIZES[size], bool(form))


@attributes
class BlockParams(Params):
    """Parameter of layers whose matrices may be stored in blocks, or multiplied as int8."""

    quantize_term: int = param(18)

    @property
    def blocks(self) -> Blocks | None:
        """Block format of the constant matrices, or None."""
        return blocks_of(self.quantize_term)

    @property
    def int8(self) -> bool:
        """True where all products are int8 products."""
        return self.quantize_term != 0 and self.blocks is None
