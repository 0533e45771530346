"""What a layer's converter works with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.formats.coreml import weights
from vknn.formats.coreml.holding import Held
from vknn.formats.coreml.records import LayerRecord
from vknn.formats.layer_context import MAX_ELEMENTS, LayerContext
from vknn.graph import GraphBuilder, Origin, Value

#: Up to here float32 has every whole number; larger indices and sizes do not occur.
_MAX_WHOLE = 1 << 24


@dataclass(frozen=True)
class Context(LayerContext):
    """One layer on its way into the graph. Blobs are float32 and have one axis or more.

    ``rank5``: the network maps its inputs to [Seq, Batch, C, H, W] (RANK5_ARRAY_MAPPING).
    ``draw`` gives the number of random draws so far and counts one more. ``held``: the constants of
    graphs that were built before.
    """

    builder: GraphBuilder
    layer: LayerRecord
    inputs: Sequence[Value]
    rank5: bool = False
    draw: Callable[[], Value] | None = None
    held: Held = field(default_factory=Held)
    _made: Counter[str] = field(default_factory=Counter)

    @property
    def params(self) -> Any:
        """The layer's own message, with the field names of the file."""
        return self.layer.params

    @property
    def origin(self) -> Origin:
        return Origin(self.layer.name or self.layer.type, self.layer.type)

    def ints(self, number: int, what: str) -> list[int]:
        """The data of an input of whole numbers, flattened."""
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
        """A WeightParams as float32 of ``shape`` (a number: so many in a row), decoded.

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
        """How often random numbers were drawn, int32 (1,): another value for each call and run."""
        if self.draw is None:
            self.fail("draws random numbers, which this network cannot count")
        return self.draw()

    def constant(self, array: np.ndarray, name: str = "constant") -> Value:
        """A constant; "weights" and "bias" are the names of what training may change."""
        self._made[name] += 1
        array = self.held.same((self.layer.path, name, self._made[name]), array)
        return super().constant(array, name)

    def size(self, shape: Sequence[int], what: str = "its output") -> tuple[int, ...]:
        """A shape that comes from the file or from data, checked: no negative or absurd size."""
        dims = tuple(int(d) for d in shape)
        if any(d < 0 for d in dims) or math.prod(dims) >= MAX_ELEMENTS:
            self.fail(f"{what} would have the shape {list(dims)}")
        return dims

    def _checked(self, shape: int | Sequence[int], what: str) -> tuple[int, ...]:
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        self.require(all(d > 0 for d in dims), f"{what} would have the shape {list(dims)}")
        return tuple(int(d) for d in dims)
