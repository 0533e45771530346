"""Records of a model: what its file says, checked and in plain Python, without protobuf."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.graph import DType

#: Domain, name and overload of an operator or function.
Key = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class TensorProtoRecord:
    """A tensor of the file. Its data were measured, and are read when they are asked for."""

    name: str
    dims: tuple[int, ...]
    dtype: DType
    read: Callable[[], np.ndarray] = field(repr=False)

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The data; a view of the file where that is possible. Raises ModelFormatError."""
        return self.read()


@dataclass(frozen=True)
class TypeRecord:
    """The type of a graph's input or output.

    ``kind``: "tensor", "sequence", "optional", or "" where the file states none. ``dtype``: of the
    elements, None where unknown. ``shape``: sizes, names of symbols, None for unknown sizes; None
    as a whole where even the rank is unknown. ``optional``: whether it may hold nothing.
    """

    kind: str = ""
    dtype: DType | None = None
    shape: tuple[int | str | None, ...] | None = None
    optional: bool = False


@dataclass(frozen=True)
class ValueRecord:
    """An input or output of a graph."""

    name: str
    type: TypeRecord


@dataclass(frozen=True, eq=False)
class AttributeRecord:
    """An attribute: ``value`` is a number, bytes, one of the records here, or a tuple.

    ``kind``: "float", "int", "string", "tensor", "graph", "sparse_tensor", "type", or one of these
    with an "s". ``reference``: the name of the function's attribute that it stands for, else "".
    """

    name: str
    kind: str
    value: Any
    reference: str = ""


@dataclass(frozen=True, eq=False)
class NodeRecord:
    """A node. ``number``: its place in the file's list. "" among its names: left out.

    ``captured``: names of outer values that its subgraphs read.
    """

    number: int
    name: str
    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeRecord]
    captured: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The operator, with its domain in front where it is not ONNX's own."""
        domain, name, overload = self.key
        shown = f"{domain}::{name}" if domain else name
        return f"{shown}:{overload}" if overload else shown

    @property
    def label(self) -> str:
        """The name, or that of the first output, or the place in the file."""
        return self.name or next((n for n in self.outputs if n), "") or f"node {self.number}"

    @property
    def reads(self) -> tuple[str, ...]:
        """All values that it needs, those of its subgraphs included."""
        return (*(n for n in self.inputs if n), *self.captured)

    def graphs(self) -> tuple[GraphRecord, ...]:
        """The graphs among its attributes."""
        found: list[GraphRecord] = []
        for attribute in self.attributes.values():
            many = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
            found += [graph for graph in many if isinstance(graph, GraphRecord)]
        return tuple(found)


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """A graph, with its nodes in an order in which each comes after what it reads.

    ``captured``: names of outer values that it reads. ``declared``: element types that the file
    states of tensors between its nodes.
    """

    name: str
    nodes: tuple[NodeRecord, ...]
    inputs: tuple[ValueRecord, ...]
    outputs: tuple[ValueRecord, ...]
    initializers: Mapping[str, TensorProtoRecord]
    captured: tuple[str, ...] = ()
    declared: Mapping[str, DType] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FunctionRecord:
    """A function of the model. ``defaults``: of its attributes, where a call leaves them out."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    defaults: Mapping[str, AttributeRecord]
    nodes: tuple[NodeRecord, ...]
    imports: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class OnnxModelRecord:
    """A model. ``imports``: version by domain; "ai.onnx" is the domain ""."""

    ir_version: int
    imports: Mapping[str, int]
    graph: GraphRecord
    functions: Mapping[Key, FunctionRecord]
    producer: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
