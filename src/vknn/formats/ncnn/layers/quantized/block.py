"""Matrices whose rows are kept in blocks of whole numbers of 4, 6 or 8 bits with a scale each.

The parameter that says so, quantize_term (18), is the bits in hundreds, 10 more where the columns
have scales as well, and 0, 1 or 2 for blocks of 32, 64 or 128. Numbers follow each other bit by
bit, the lowest first, each row from a whole byte on. A number stands for number / scale of its
block, times the scale of its column.

Numbers of 8 bits meet inputs that are rounded to 8 bits as well, in the same blocks; those of 4 and
6 bits meet floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.layer_errors import Unsupported
from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.params import P
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value
from vknn.ops.elementwise import Mul
from vknn.ops.matmul import RoundBlocks

_BITS, _SIZES = (4, 6, 8), (32, 64, 128)
#: Bits at which inputs are rounded too.
_ROUNDING = 8
#: Smaller terms mean int8 matrices with scales; these three are not taken by ncnn.
_FIRST, _REFUSED = 400, (4, 5, 6)


@dataclass(frozen=True)
class Blocks:
    """How a matrix is kept."""

    bits: int
    size: int
    column_scales: bool

    @property
    def rounds_inputs(self) -> bool:
        """True where inputs are rounded as well."""
        return self.bits == _ROUNDING

    def weight(self, name: str, rows: int, columns: int) -> WeightSpec:
        """The numbers."""
        count = -(-columns * self.bits // 8)
        return WeightSpec(name, (rows, count), int8=True)

    def scales(self, name: str, rows: int, columns: int) -> WeightSpec:
        """The scales of the blocks."""
        return WeightSpec(f"{name}_scale", (rows, -(-columns // self.size)))

    def inputs(self, name: str, columns: int) -> list[WeightSpec]:
        """The scales of the columns, where there are such."""
        return [WeightSpec(f"scale_{name}_columns", (columns,))] if self.column_scales else []

    def matrix(self, c: Context[P], name: str, columns: int) -> np.ndarray:
        """The weight as float32 [rows, columns], for what :meth:`rounded` gives."""
        stored, scales = c.weight(name), c.weight(f"{name}_scale")
        with np.errstate(all="ignore"):
            each = np.repeat(np.float32(1) / scales, self.size, axis=1)[:, :columns]
            matrix = self._numbers(stored.view(np.uint8), columns) * each
            if self.column_scales and not self.rounds_inputs:
                matrix = matrix * c.weight(f"scale_{name}_columns")
            return matrix.astype(np.float32)

    def rounded(self, c: Context[P], x: Value, name: str) -> Value:
        """What the matrix of this name meets instead of ``x``."""
        if not self.rounds_inputs:
            return x
        if self.column_scales:
            x = c.add(Mul(), x, c.weight_value(f"scale_{name}_columns"))
        return c.add(RoundBlocks(self.size), x)

    def _numbers(self, stored: np.ndarray, columns: int) -> np.ndarray:
        first = np.arange(columns) * self.bits
        at, shift = first // 8, (first % 8).astype(np.uint16)
        padded = np.pad(stored, ((0, 0), (0, 1))).astype(np.uint16)
        word = padded[:, at] | padded[:, at + 1] << 8
        number = (word >> shift & ((1 << self.bits) - 1)).astype(np.float32)
        return np.where(number >= 1 << (self.bits - 1), number - (1 << self.bits), number)


def blocks_of(term: int) -> Blocks | None:
    """What a quantize_term says; None for 0 and those that mean int8. Raises Unsupported."""
    if 0 <= term < _FIRST and term not in _REFUSED:
        return None
    bits, form, size = term // 100, term % 100 // 10, term % 10
    if bits not in _BITS or form > 1 or size >= len(_SIZES):
        raise Unsupported(f"quantize_term (parameter 18) {term}, which ncnn does not take either")
    return Blocks(bits, _SIZES[size], bool(form))
