"""What a layer's converter works with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NoReturn

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.layer_errors import Malformed
from vknn.formats.ncnn.params import P
from vknn.formats.ncnn.records import LayerRecord
from vknn.formats.ncnn.weights import Weight
from vknn.graph import GraphBuilder, Op, Origin, Value
from vknn.ops.movement.shape import Reshape

#: ncnn counts elements in an int; more than that no layer of it could produce.
MAX_ELEMENTS = 1 << 31


@dataclass(frozen=True)
class Context(Generic[P]):
    """One layer on its way into the graph.

    Values have a leading axis of size 1 before the axes of the file: axis a of ncnn is axis a + 1.
    """

    builder: GraphBuilder
    record: LayerRecord
    params: P
    weights: Mapping[str, Weight]
    inputs: Sequence[Value]
    reserved: Collection[str] = ()

    @property
    def x(self) -> Value:
        """The first input."""
        return self.inputs[0]

    @property
    def origin(self) -> Origin:
        return Origin(self.record.name, self.record.type)

    def add(self, op: Op, *inputs: Value | None) -> Value:
        """Adds an op with one output."""
        stem = f"{self.record.name}/{op.type_name}"
        while stem in self.reserved:
            stem += "'"
        name = self.record.name
        value = self.builder.add(op, *inputs, origin=self.origin, name=name, names=(stem,))
        if value.type.is_static and value.type.size >= MAX_ELEMENTS:
            raise ShapeError(f"its output {value.type} is absurdly large")
        return value

    def constant(self, array: np.ndarray | float, name: str = "constant") -> Value:
        """A constant; Python numbers become float32 scalars that broadcast to anything."""
        data = array if isinstance(array, np.ndarray) else np.asarray(array, np.float32)
        return self.builder.constant(data, f"{self.record.name}/{name}")

    def weight(self, name: str) -> np.ndarray:
        """A weight array by the name in its spec: int8 where so stored, otherwise float32."""
        return self.weights[name].array()

    def weight_value(self, name: str) -> Value | None:
        """A weight as a constant; None where the layer has no such weight."""
        return self.constant(self.weight(name), name) if name in self.weights else None

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` in another shape (leading 1 included), or itself where it has that already."""
        return x if x.type.dims == tuple(shape) else self.add(Reshape(tuple(shape)), x)

    def fail(self, message: str) -> NoReturn:
        """Raises the error for inputs that do not suit the layer."""
        raise Malformed(message)

    def require(self, condition: bool, message: str) -> None:
        """Fails with ``message`` unless ``condition`` holds."""
        if not condition:
            self.fail(message)


def rank(x: Value) -> int:
    """The rank in ncnn's count, without the leading axis."""
    return x.type.rank - 1


def shape(x: Value) -> tuple[int, ...]:
    """The shape in ncnn's order, outermost first, without the leading axis."""
    return x.type.dims[1:]


def named_sizes(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """The sizes of the axes that a blob of rank ``count`` has, by name: 1 where there is none.

    (h, w) as three axes is (1, h, w), but (c, h, w) as four is (c, 1, h, w).
    """
    names = ("w", "hw", "chw", "cdhw")
    have = dict(zip(names[len(sizes) - 1], sizes, strict=True))
    return tuple(have.get(name, 1) for name in names[count - 1])


def axis_of(c: Context[P], x: Value, axis: int) -> int:
    """The canonical axis of an ncnn axis, which counts from the end where it is negative."""
    n = rank(x)
    c.require(-n <= axis < n, f"axis {axis} does not exist in a blob of rank {n}")
    return axis % n + 1


def per_outermost(c: Context[P], array: np.ndarray, x: Value, name: str) -> Value:
    """A vector along the outermost axis of ``x``, or a scalar: either broadcasts over ``x``."""
    outermost = shape(x)[0]
    c.require(
        array.size in (1, outermost), f"{array.size} values of {name} for {outermost} channels"
    )
    if array.size == 1:
        return c.constant(array.reshape(()), name)
    return c.constant(array.reshape((1, outermost) + (1,) * (rank(x) - 1)), name)


def as_image(c: Context[P], x: Value) -> Value:
    """``x`` as (1, c, h, w): missing outer axes are 1, as ncnn's own w, h and c would be."""
    c.require(rank(x) <= 3, f"takes at most three axes, not {list(shape(x))}")
    return c.reshape(x, (1,) * (3 - rank(x)) + x.type.dims)
