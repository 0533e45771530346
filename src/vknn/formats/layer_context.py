"""Base of the formats' layer contexts: a layer's inputs, and adding its ops to the graph."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.layer_errors import Malformed, Unsupported
from vknn.graph import DType, GraphBuilder, Op, Origin, TensorType, Value
from vknn.ops.elementwise.binary import Cast
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.run_limits import make_room

#: Tensors of so many elements are refused.
MAX_ELEMENTS = 1 << 31
#: Axes that arrays of all versions of NumPy may have.
MAX_RANK = 32
#: Ops of constants of up to this size are computed while the graph is built, for the sake of shape
#: arithmetic; larger ones are left to the passes.
_FOLDED_ELEMENTS = 1 << 16
#: How many times the bytes of what a converter makes NumPy may hold meanwhile.
_TEMPORARY = 3


class NeedsData(Exception):
    """A converter needs the data of ``value``, which are computed at run time.

    The graph ends before this layer then; the rest is built when the data are known. ``key`` tells
    apart the inputs of layers that share a value. ``value`` None: the data are needed by a layer of
    a subgraph that this layer calls.
    """

    def __init__(self, value: Value | None, key: Hashable = None) -> None:
        super().__init__("a called subgraph" if value is None else value.name)
        self.value, self.key = value, key


class LayerContext:
    """A layer that is being converted: its inputs, and the graph that its ops are added to."""

    builder: GraphBuilder
    inputs: Sequence[Value | None]

    @property
    def origin(self) -> Origin:
        """The layer's own name and type."""
        raise NotImplementedError

    @property
    def x(self) -> Value:
        """The first input."""
        return self.value(0)

    def value(self, number: int) -> Value:
        """The input ``number``. Raises Malformed where it is missing."""
        value = self.optional(number)
        return self.fail(f"input {number} is missing") if value is None else value

    def optional(self, number: int) -> Value | None:
        """The input ``number``, or None where it is missing."""
        return self.inputs[number] if number < len(self.inputs) else None

    def data(self, number: int) -> np.ndarray:
        """The data of an input that must be known while the graph is built. Raises NeedsData."""
        value = self.value(number)
        if value.constant is None:
            raise NeedsData(value)
        return value.constant

    def add(self, op: Op, *inputs: Value | None) -> Value:
        """Addition of an op with one output. An op of constant inputs is computed at once."""
        return self.add_many(op, *inputs)[0]

    def add_many(self, op: Op, *inputs: Value | None) -> tuple[Value, ...]:
        """Addition of an op with any number of outputs."""
        folded = _folded(op, inputs)
        if folded is not None:
            return tuple(self.constant(array, op.type_name) for array in folded)
        stem = f"{self.origin.name}/{op.type_name}"
        values = self.builder.add_many(op, *inputs, origin=self.origin, name=stem)
        for value in values:
            if value.type.is_static and _extent(value.type) >= MAX_ELEMENTS:
                raise ShapeError(f"its output {value.type} is absurdly large")
            if value.type.rank > MAX_RANK:
                raise ShapeError(f"its output has {value.type.rank} axes, more than {MAX_RANK}")
        return values

    def constant(self, array: np.ndarray, name: str = "constant") -> Value:
        """A constant, named ``name`` within the layer's name."""
        return self.builder.constant(array, f"{self.origin.name}/{name}")

    def scalar(self, number: float, dtype: DType = DType.FLOAT32) -> Value:
        """A constant without axes, which broadcasts to any shape."""
        return self.constant(np.asarray(number, dtype.numpy))

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in another dtype; ``x`` itself where it has that dtype."""
        return x if x.type.dtype is dtype else self.add(Cast(dtype), x)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` in another shape; ``x`` itself where it has that shape."""
        return x if x.type.dims == tuple(shape) else self.add(Reshape(tuple(shape)), x)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """``x`` with axis i from axis ``perm[i]``; ``x`` itself where all axes stay."""
        same = tuple(perm) == tuple(range(x.type.rank))
        return x if same else self.add(Transpose(tuple(perm)), x)

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front. Raises Malformed where it is out of range."""
        self.require(-rank <= axis < rank, f"axis {axis} does not exist in rank {rank}")
        return axis % rank

    def makeable(self, count: int, dtype: DType | np.dtype[Any] = DType.INT64) -> int:
        """``count``, the number of elements that this converter is about to make with NumPy.

        Raises ShapeError for what no tensor may have, OutOfMemoryError where memory is short.
        """
        if not 0 <= count < MAX_ELEMENTS:
            raise ShapeError(f"it would make {count} elements, which no tensor has")
        of, nbytes = self.origin, count * dtype.itemsize
        what = f"layer {of.name!r} ({of.type}): it makes {count} elements of {nbytes} bytes"
        make_room(_TEMPORARY * nbytes, what)
        return count

    def require(self, condition: bool, message: str) -> None:
        """Check: Malformed with ``message`` unless ``condition`` holds."""
        if not condition:
            self.fail(message)

    def fail(self, message: str) -> NoReturn:
        """Malformed error: the layer contradicts itself or its inputs."""
        raise Malformed(message)

    def refuse(self, what: str) -> NoReturn:
        """Unsupported error: vknn cannot run the layer with these parameters or inputs."""
        raise Unsupported(what)


def _folded(op: Op, inputs: Sequence[Value | None]) -> tuple[np.ndarray, ...] | None:
    constants = [v.constant for v in inputs if v is not None]
    if not inputs or not op.deterministic or any(c is None for c in constants):
        return None
    types: tuple[TensorType, ...] = op.infer(*(None if v is None else v.type for v in inputs))
    if any(not t.is_static or _extent(t) > _FOLDED_ELEMENTS for t in types):
        return None
    return op.reference(*(None if v is None else v.constant for v in inputs))


def unfold(result: Value | Sequence[Value]) -> tuple[Value, ...]:
    """The result of a converter, one value or several, as a tuple."""
    return (result,) if isinstance(result, Value) else tuple(result)


def _extent(type_: TensorType) -> int:
    """The number of elements, empty axes aside: NumPy has no empty tensors with huge sizes."""
    return math.prod(d for d in type_.dims if d)
