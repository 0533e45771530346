"""Ranges of tensors against the numbers that 16 bits have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vknn.crosscheck.storage import rounded
from vknn.graph import Graph, Value

#: Largest number, and smallest normal one, by precision.
LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}
SMALLEST = {"fp16": 2.0**-14, "bf16": 2.0**-126}


@dataclass(frozen=True)
class TensorRange:
    """Magnitudes of a tensor's elements over all inputs, as float32 has them.

    Attributes:
        name: The tensor's.
        layer: The layer that makes it; of weights the layer that reads them, of inputs "".
        kind: "input", "weight" or "result".
        largest: The largest finite magnitude.
        smallest: The smallest magnitude that is not 0; 0 where all are 0.
        elements: Their number, of all inputs together.
        overflow: Share of them that become infinite in 16 bits.
        subnormal: Share that is below the smallest normal number there, and keeps fewer digits.
        zero: Share that becomes 0 and was not.
    """

    name: str
    layer: str
    kind: str
    largest: float
    smallest: float
    elements: int
    overflow: float
    subnormal: float
    zero: float

    @property
    def fits(self) -> bool:
        """True where no element is lost."""
        return not self.overflow and not self.zero


class RangeGathering:
    """Ranges of the tensors of a graph, gathered over inputs."""

    def __init__(self, graph: Graph, precision: str) -> None:
        self._precision = precision
        self._places: dict[Value, tuple[str, str]] = dict.fromkeys(graph.inputs, ("", "input"))
        for node in graph.nodes:
            for value in node.inputs:
                if value is not None and value.constant is not None:
                    self._places.setdefault(value, (node.origin.name, "weight"))
            self._places.update((v, (node.origin.name, "result")) for v in node.outputs)
        self._sums: dict[Value, np.ndarray] = {}

    def add(self, known: Mapping[Value, np.ndarray]) -> None:
        """The arrays of one set of inputs; constants count once."""
        for value in self._places:
            array = value.constant if value.constant is not None else known[value]
            if array.dtype.kind != "f" or (value.constant is not None and value in self._sums):
                continue
            new = self._of(np.asarray(array))
            old = self._sums.get(value)
            if old is not None:
                new[0], new[1] = max(old[0], new[0]), min(old[1], new[1])
                new[2:] += old[2:]
            self._sums[value] = new

    def ranges(self) -> tuple[TensorRange, ...]:
        """Those of all tensors of floats, in the order of the graph."""
        found = []
        for value, (layer, kind) in self._places.items():
            if value not in self._sums:
                continue
            largest, smallest, count, over, below, lost = self._sums[value].tolist()
            shares = [n / count if count else 0.0 for n in (over, below, lost)]
            least = smallest if np.isfinite(smallest) else 0.0
            found.append(TensorRange(value.name, layer, kind, largest, least, int(count), *shares))
        return tuple(found)

    def _of(self, array: np.ndarray) -> np.ndarray:
        """Largest and smallest magnitude, number of elements, too large, subnormal and lost."""
        size = np.abs(array)
        finite = np.isfinite(size)
        held = rounded(size, self._precision)
        assert held is not None
        some = finite & (size > 0)
        lost = some & (held == 0)
        counts = (
            array.size,
            np.count_nonzero(finite & np.isinf(held)),
            np.count_nonzero(some & ~lost & (size < SMALLEST[self._precision])),
            np.count_nonzero(lost),
        )
        largest = size.max(initial=0.0, where=finite)
        smallest = size.min(initial=np.inf, where=some)
        return np.array([largest, smallest, *counts], np.float64)
