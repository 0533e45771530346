"""State of a bundle: pairs of buffers, the second copied over the first behind each run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vknn import bfloat16
from vknn.bundle.conversions import Kind, kind_of
from vknn.bundle.schema import NONE
from vknn.bundle.tables import Tables
from vknn.formats import Model
from vknn.plan import Port
from vknn.runtime.device_array import storage_dtype


@dataclass(frozen=True)
class StateDescription:
    """A state: its buffers in the plan, and its first value as it lies there; None: zeros.

    ``nbytes``: of its elements, rounded up to whole words.
    """

    name: str
    input: int
    output: int
    nbytes: int
    first: np.ndarray | None = field(default=None, repr=False)

    def row(self, tables: Tables) -> tuple[object, ...]:
        """Its record (``schema.STATE``)."""
        blob = NONE if self.first is None else tables.blob(self.first)
        return tables.string(self.name), self.input, self.output, blob, self.nbytes


def described_state(model: Model, name: str, into: Port, out: int) -> StateDescription:
    """The description of a state that a plan's input takes and a buffer gives anew."""
    dtype, size = storage_dtype(into), into.type.size
    nbytes = -(-size * dtype.itemsize // 4) * 4
    number = model.first_state.get(name, 0)
    first = None
    if number:
        first = np.zeros(nbytes // dtype.itemsize, dtype)
        first[:size] = _stored(number, kind_of(into), dtype)
    # A name with zero bytes would end there.
    return StateDescription(name.replace("\0", ""), into.buffer, out, nbytes, first)


def _stored(number: int, kind: Kind, dtype: np.dtype) -> np.generic:
    if kind is Kind.BFLOAT16:
        return bfloat16.bits_of(np.array([number], np.float32))[0]
    return dtype.type(number)
