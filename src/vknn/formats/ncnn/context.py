"""Context of one layer's conversion: its inputs, parameters and weights, and helpers for blobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.layer_context import MAX_ELEMENTS, LayerContext
from vknn.formats.ncnn.params import P
from vknn.formats.ncnn.records import LayerRecord
from vknn.formats.ncnn.weights import FileWeight
from vknn.graph import GraphBuilder, Op, Origin, Value
from vknn.ops.movement.shape import Slice


@dataclass(frozen=True)
class Context(LayerContext, Generic[P]):
    """One layer while it is converted.

    Values have a leading axis of size 1 before the axes of the file: axis a of ncnn is axis a + 1.
    ``reserved``: names of the file's blobs, which the model gives to the results of layers.
    """

    builder: GraphBuilder
    record: LayerRecord
    params: P
    weights: Mapping[str, FileWeight]
    inputs: Sequence[Value]
    reserved: Collection[str] = ()

    @property
    def x(self) -> Value:
        """The first input."""
        return self.inputs[0]

    @property
    def origin(self) -> Origin:
        return Origin(self.record.name, self.record.type)

    def add_many(
        self, op: Op, *inputs: Value | None, parts: Sequence[str] = ("",)
    ) -> tuple[Value, ...]:
        """Addition of an op with an output for each of ``parts``, which tell their names apart.

        Unlike those of other formats the node has the layer's name, and ops on constants are left
        to the passes.
        """
        stem = f"{self.record.name}/{op.type_name}"
        names = tuple(f"{stem}.{part}" if part else stem for part in parts)
        while set(names) & set(self.reserved):
            names = tuple(f"{name}'" for name in names)
        values = self.builder.add_many(
            op, *inputs, origin=self.origin, name=self.record.name, names=names
        )
        for value in values:
            if value.type.is_static and value.type.size >= MAX_ELEMENTS:
                raise ShapeError(f"its output {value.type} is absurdly large")
        return values

    def weight(self, name: str) -> np.ndarray:
        """Array of the weight that has this name in its spec: int8 if stored so, else float32."""
        return self.weights[name].array()

    def weight_value(self, name: str) -> Value | None:
        """A weight as a constant; None where the layer has no such weight."""
        return self.constant(self.weight(name), name) if name in self.weights else None


def rank(x: Value) -> int:
    """Rank of a blob, without the leading axis of its value."""
    return x.type.rank - 1


def shape(x: Value) -> tuple[int, ...]:
    """Shape of a blob, outermost axis first, without the leading axis of its value."""
    return x.type.dims[1:]


def axis_of(c: Context[P], x: Value, axis: int) -> int:
    """Axis of the value ``x`` for an axis of ncnn, which counts from the end if negative."""
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
    """``x`` as (1, c, h, w) with 1 for missing outer axes, as ncnn's own w, h and c are."""
    c.require(rank(x) <= 3, f"takes at most three axes, not {list(shape(x))}")
    return c.reshape(x, (1,) * (3 - rank(x)) + x.type.dims)


def innermost(c: Context[P], x: Value, axes: int) -> Value:
    """The innermost ``axes`` axes of ``x`` at index 0 of the outer ones, as (1, ...)."""
    outer = tuple(range(1, x.type.rank - axes))
    if any(x.type.dims[axis] > 1 for axis in outer):
        x = c.add(Slice((0,) * len(outer), (1,) * len(outer), outer), x)
    return c.reshape(x, (1, *shape(x)[rank(x) - axes :]))
