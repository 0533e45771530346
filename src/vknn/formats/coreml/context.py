"""Context of a Core ML layer's conversion: inputs, parameters, weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.formats.coreml import weights
from vknn.formats.coreml.constant_cache import ConstantCache
from vknn.formats.coreml.records import LayerRecord
from vknn.formats.layer_context import MAX_ELEMENTS, LayerContext
from vknn.graph import GraphBuilder, Origin, Value

#: float32 represents every integer up to here; larger indices and sizes do not occur.
_MAX_WHOLE = 1 << 24


@dataclass(frozen=True)
class Context(LayerContext):
    """One layer that is being converted. Blobs are float32 and have one axis or more.

    ``rank5``: the network maps its inputs to [Seq, Batch, C, H, W] (RANK5_ARRAY_MAPPING). ``draw``
    gives the number of random draws so far and counts one more. ``constants``: those of all graphs
    of the network.
    """

    builder: GraphBuilder
    layer: LayerRecord
    inputs: Sequence[Value]
    rank5: bool = False
    draw: Callable[[], Value] | None = None
    constants: ConstantCache = field(default_factory=ConstantCache)
    _names_used: Counter[str] = field(default_factory=Counter)

    @property
    def params(self) -> Any:
        """The layer's parameters, a message with the field names of the file."""
        return self.layer.params

    @property
    def origin(self) -> Origin:
        return Origin(self.layer.name or self.layer.type, self.layer.type)

    def ints(self, number: int, what: str) -> list[int]:
        """The data of an input as integers, flattened. Raises Malformed for fractions."""
        array = self.data(number).reshape(-1)
        whole = np.isfinite(array).all() and bool((np.abs(array) <= _MAX_WHOLE).all())
        self.require(whole and bool((array == np.rint(array)).all()), f"{what}: {array} is no list")
        return [int(v) for v in array]

    def weight(
        self,
        message: Any,
        shape: int | Sequence[int],
        what: str,
        channel_axis: int = 0,
        groups: int = 1,
    ) -> np.ndarray:
        """A WeightParams decoded to float32 of ``shape`` (an int: one axis of that size).

        ``channel_axis``, ``groups``: as for :func:`vknn.formats.coreml.weights.decode`.
        """
        return weights.decode(message, self._checked(shape, what), what, channel_axis, groups)

    def has_weight(self, message: Any) -> bool:
        """Whether a WeightParams holds anything."""
        return weights.has_values(message)

    def int8_dynamic(
        self, message: Any, shape: int | Sequence[int], what: str = "weights"
    ) -> tuple[np.ndarray, np.ndarray]:
        """The int8 codes and float32 scales of weights for int8DynamicQuantize."""
        return weights.decode_int8(message, self._checked(shape, what), what)

    def counter(self) -> Value:
        """The number of random draws so far, int32 (1,); it differs for each call and each run."""
        if self.draw is None:
            self.fail("draws random numbers, which this network cannot count")
        return self.draw()

    def constant(self, array: np.ndarray, name: str = "constant") -> Value:
        """A constant; those that training may change are named "weights" and "bias"."""
        self._names_used[name] += 1
        array = self.constants.intern((self.layer.path, name, self._names_used[name]), array)
        return super().constant(array, name)

    def size(self, shape: Sequence[int], what: str = "its output") -> tuple[int, ...]:
        """A shape from the file or from data. Raises Malformed for negative and absurd sizes."""
        dims = tuple(int(d) for d in shape)
        if any(d < 0 for d in dims) or math.prod(dims) >= MAX_ELEMENTS:
            self.fail(f"{what} would have the shape {list(dims)}")
        return dims

    def _checked(self, shape: int | Sequence[int], what: str) -> tuple[int, ...]:
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        self.require(all(d > 0 for d in dims), f"{what} would have the shape {list(dims)}")
        return tuple(int(d) for d in dims)
