"""Integers of fewer than 8 bits: their types, and constants of them as files pack them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType


@dataclass(frozen=True)
class SubByte:
    """A type of integers of fewer than 8 bits.

    Files pack several into a byte; arrays have a byte (``dtype``) for each.
    """

    name: str
    dtype: DType
    bits: int

    @property
    def low(self) -> int:
        """Lowest integer of the type."""
        return -(1 << (self.bits - 1)) if self.dtype is DType.INT8 else 0

    @property
    def high(self) -> int:
        """Highest integer of the type."""
        return self.low + (1 << self.bits) - 1


class PackedIntegers:
    """Constant integers of fewer than 8 bits as the file holds them: ``raw``, a view of its bytes.

    They lie one after another, the first in the lowest bits of its byte; rows are not padded.
    Arrays made of them are made once as long as somebody holds them, so that graphs share them.
    """

    def __init__(self, raw: np.ndarray, shape: tuple[int, ...], type_: SubByte) -> None:
        self.raw, self.shape, self.type = raw, shape, type_
        self._made: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()

    def numbers(self) -> np.ndarray:
        """The integers, a byte each, sign-extended."""
        return self._shared("numbers", lambda: self._unpacked().reshape(self.shape))

    def codes(self, block: int) -> np.ndarray:
        """Rows as uint8 [rows, blocks, bytes of a block], of integers less their type's lowest.

        Blocks have ``block`` integers, in whole bytes; those that a row's last lacks stand for 0.
        """
        return self._shared(f"codes {block}", lambda: self._codes(block))

    def entries(self) -> np.ndarray:
        """Entries along the first axis as uint8 [entries, bytes], of codes as in :meth:`codes`."""
        count, size = self.shape[0], math.prod(self.shape[1:])
        return self._shared("entries", lambda: self._row_codes(count, size))

    def _shared(self, key: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    def _unpacked(self) -> np.ndarray:
        type_ = self.type
        each = 8 // type_.bits
        # What each byte holds, as one number of so many bytes: a look-up is fastest.
        places = np.arange(0, 8, type_.bits, dtype=np.uint8)
        codes = np.arange(256, dtype=np.uint8)[:, None] >> places & ((1 << type_.bits) - 1)
        signs = np.where(codes > type_.high, 1 << type_.bits, 0)
        table = (codes - signs).astype(type_.dtype.numpy).view(f"u{each}").reshape(-1)
        return table[self.raw].view(type_.dtype.numpy)[: math.prod(self.shape)]

    def _codes(self, block: int) -> np.ndarray:
        held = self._row_codes(math.prod(self.shape[:-1]), self.shape[-1])
        size = block * self.type.bits // 8
        lacking = ((0, 0), (0, -held.shape[1] % size))
        held = np.pad(held, lacking, constant_values=self._zero_byte)
        return held.reshape(len(held), held.shape[1] // size, size)

    def _row_codes(self, rows: int, count: int) -> np.ndarray:
        """Codes of rows of ``count`` integers as uint8 [rows, bytes of a row]."""
        if count * self.type.bits % 8:  # rows begin within bytes
            return self._packed_rows(self.numbers().reshape(rows, count))
        held = self.raw.reshape(rows, count * self.type.bits // 8)
        return np.asarray(held ^ np.uint8(self._zero_byte))

    @property
    def _zero_byte(self) -> int:
        """A byte of codes that stand for 0."""
        return sum(-self.type.low << place for place in range(0, 8, self.type.bits))

    def _packed_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Codes of integers [rows, depth] as bytes [rows, bytes of a row]."""
        bits, low = self.type.bits, self.type.low
        lacking = ((0, 0), (0, -numbers.shape[1] % (8 // bits)))
        codes = np.pad((numbers - low).astype(np.uint8), lacking, constant_values=-low)
        whole = codes.shape[1] * bits // 8
        single = codes.reshape(len(codes), whole, 8 // bits) << np.arange(
            0, 8, bits, dtype=np.uint8
        )
        return np.asarray(np.bitwise_or.reduce(single, axis=-1), np.uint8)
