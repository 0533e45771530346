"""FolderGraph: the model of a graph's folder, whose inputs have arrays of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import InputError, ShapeError, VknnError
from vknn.formats.model import Model, TensorSpec
from vknn.graph import DType, Graph, Node, Op, Origin, Quantization, TensorType, Value


@dataclass(frozen=True, eq=False)
class FolderValue:
    """An input, with the array that was recorded for it, or a constant."""

    name: str
    array: np.ndarray
    quantization: Quantization | None = None


@dataclass(frozen=True, eq=False)
class FolderNode:
    """A node. ``inputs``: numbers of values; ``outputs``: names of those that it makes."""

    op: Op
    inputs: tuple[int | None, ...]
    outputs: Sequence[tuple[str, Quantization | None]]
    name: str
    layer: str
    layer_type: str


class FolderGraph(Model):
    """A graph with the arrays of its inputs, which stand in for those that a run is not given.

    Shapes are those that were recorded. Raises ShapeError where operators and arrays do not fit.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[FolderValue],
        constants: Sequence[FolderValue],
        nodes: Sequence[FolderNode],
        outputs: Mapping[str, int],
        file: str | None = None,
    ) -> None:
        self.file, self._name = file, name
        self._inputs, self._constants, self._nodes = inputs, constants, nodes
        self._outputs = outputs
        self._types = {v.name: TensorType.of(v.array) for v in inputs}
        self.recorded = {v.name: v.array for v in inputs}
        self.inputs = tuple(TensorSpec(n, t.dims, t.dtype.numpy) for n, t in self._types.items())
        self.layer_types = tuple(node.layer_type for node in nodes)
        made = self._graph()
        self.outputs = tuple(
            TensorSpec(n, v.type.shape, v.type.dtype.numpy) for n, v in made.outputs.items()
        )

    def complete(self, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        """``feeds`` with the recorded arrays of inputs that it lacks."""
        return {**self.recorded, **feeds}

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        self.check_names(types)
        return self._graph()

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        wanted = self._types[name]
        if DType.find(array) is not wanted.dtype or array.shape != wanted.dims:
            found = f"{array.dtype}{list(array.shape)}"
            raise InputError(f"input {name!r} is {found}; this graph takes {wanted} alone")
        return array

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        return array

    def _graph(self) -> Graph:
        """A new graph; its values are renamed by whoever compiles it."""
        inputs = [Value(v.name, self._types[v.name], None, v.quantization) for v in self._inputs]
        constants = [
            Value(v.name, TensorType.of(v.array), v.array, v.quantization) for v in self._constants
        ]
        values = [*inputs, *constants]
        nodes = []
        for record in self._nodes:
            own = tuple(None if n is None else values[n] for n in record.inputs)
            origin = Origin(record.layer, record.layer_type)
            nodes.append(_node(record, own, origin))
            values += nodes[-1].outputs
        outputs = {name: values[n] for name, n in self._outputs.items()}
        blobs = {v.name: v for v in values if v.constant is None}
        return Graph(inputs, outputs, nodes, self._name, None, blobs)


def _node(record: FolderNode, inputs: tuple[Value | None, ...], origin: Origin) -> Node:
    """The node of a record; raises ShapeError that names its layer."""
    place = f"layer {origin.name!r} ({origin.type})"
    try:
        types = record.op.infer(*(v.type if v is not None else None for v in inputs))
    except VknnError as error:
        raise ShapeError(f"{place}: {error}") from error
    except Exception as error:  # attributes that no format would have made
        raise ShapeError(f"{place}: {type(error).__name__}: {error}") from error
    if len(types) != len(record.outputs):
        raise ShapeError(f"{place} has {len(record.outputs)} outputs, not {len(types)}")
    outputs = tuple(
        Value(name, type_, None, quantization)
        for (name, quantization), type_ in zip(record.outputs, types, strict=True)
    )
    return Node(record.op, inputs, outputs, record.name, origin)
