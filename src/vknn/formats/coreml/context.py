"""What a layer's converter works with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.coreml import weights
from vknn.formats.coreml.holding import Held
from vknn.formats.coreml.problems import Malformed, Unsupported
from vknn.formats.coreml.records import LayerRecord
from vknn.graph import DType, GraphBuilder, Op, Origin, Value
from vknn.ops.binary import Cast
from vknn.ops.movement import Reshape, Transpose

_MAX_ELEMENTS = 1 << 31
#: Shape arithmetic is computed while the graph is built; larger constants are left to the passes.
_FOLDED_ELEMENTS = 1 << 16
#: Up to here float32 has every whole number; larger indices and sizes do not occur.
_MAX_WHOLE = 1 << 24


class NeedsData(Exception):
    """A converter needs the data of ``value``, which are computed at run time."""

    def __init__(self, value: Value) -> None:
        super().__init__(value.name)
        self.value = value


@dataclass(frozen=True)
class Context:
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

    @property
    def x(self) -> Value:
        """The first input."""
        return self.value(0)

    def value(self, number: int) -> Value:
        """An input that must be there."""
        value = self.optional(number)
        return value if value is not None else self.fail(f"input {number} is missing")

    def optional(self, number: int) -> Value | None:
        """An input, or None where there are not so many."""
        return self.inputs[number] if number < len(self.inputs) else None

    def data(self, number: int) -> np.ndarray:
        """The data of an input that must be known while the graph is built.

        Where they are computed at run time the graph ends before this layer (see ``stages``).
        """
        value = self.value(number)
        if value.constant is None:
            raise NeedsData(value)
        return value.constant

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

    def add(self, op: Op, *inputs: Value | None) -> Value:
        """Adds an op with one output; one of constants alone is computed at once."""
        return self.add_many(op, *inputs)[0]

    def add_many(self, op: Op, *inputs: Value | None) -> tuple[Value, ...]:
        """Adds an op with any number of outputs."""
        stem = f"{self.origin.name}/{op.type_name}"
        folded = self._folded(op, inputs)
        if folded is not None:
            return tuple(self.constant(array, op.type_name) for array in folded)
        values = self.builder.add_many(op, *inputs, origin=self.origin, name=stem)
        for value in values:
            if value.type.is_static and value.type.size >= _MAX_ELEMENTS:
                raise ShapeError(f"its output {value.type} is absurdly large")
        return values

    def constant(self, array: np.ndarray, name: str = "constant") -> Value:
        """A constant; "weights" and "bias" are the names of what training may change."""
        self._made[name] += 1
        array = self.held.same((self.layer.path, name, self._made[name]), array)
        return self.builder.constant(array, f"{self.origin.name}/{name}")

    def scalar(self, number: float, dtype: DType = DType.FLOAT32) -> Value:
        """A constant without axes, which broadcasts to anything."""
        return self.constant(np.asarray(number, dtype.numpy))

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in another dtype, or itself where it has that already."""
        return x if x.type.dtype is dtype else self.add(Cast(dtype), x)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` in another shape, or itself where it has that already."""
        return x if x.type.dims == tuple(shape) else self.add(Reshape(tuple(shape)), x)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """``x`` with its axes in another order, or itself where that is the same."""
        same = tuple(perm) == tuple(range(x.type.rank))
        return x if same else self.add(Transpose(tuple(perm)), x)

    def axis(self, axis: int, rank: int) -> int:
        """An axis that may count from the end, checked."""
        self.require(-rank <= axis < rank, f"axis {axis} does not exist in rank {rank}")
        return axis % rank

    def size(self, shape: Sequence[int], what: str = "its output") -> tuple[int, ...]:
        """A shape that comes from the file or from data, checked: no negative or absurd size."""
        dims = tuple(int(d) for d in shape)
        if any(d < 0 for d in dims) or math.prod(dims) >= _MAX_ELEMENTS:
            self.fail(f"{what} would have the shape {list(dims)}")
        return dims

    def require(self, condition: bool, message: str) -> None:
        """Fails with ``message`` unless ``condition`` holds."""
        if not condition:
            self.fail(message)

    def fail(self, message: str) -> NoReturn:
        """Raises the error for a layer that contradicts itself."""
        raise Malformed(message)

    def refuse(self, what: str) -> NoReturn:
        """Raises the error for what vknn cannot do."""
        raise Unsupported(what)

    def _checked(self, shape: int | Sequence[int], what: str) -> tuple[int, ...]:
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        self.require(all(d > 0 for d in dims), f"{what} would have the shape {list(dims)}")
        return tuple(int(d) for d in dims)

    def _folded(self, op: Op, inputs: Sequence[Value | None]) -> tuple[np.ndarray, ...] | None:
        constants = [v.constant for v in inputs if v is not None]
        if not inputs or not op.deterministic or any(c is None for c in constants):
            return None
        types = op.infer(*(v.type if v is not None else None for v in inputs))
        if any(not t.is_static or t.size > _FOLDED_ELEMENTS for t in types):
            return None
        return op.reference(*(v.constant if v is not None else None for v in inputs))


def unfold(result: Value | Sequence[Value]) -> tuple[Value, ...]:
    """A converter's result as a tuple."""
    return (result,) if isinstance(result, Value) else tuple(result)
