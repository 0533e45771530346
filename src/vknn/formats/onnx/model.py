"""OnnxModel: a loaded model, its inputs and outputs, and graphs for input shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.errors import InputError
from vknn.formats.model import Model, TensorSpec
from vknn.formats.onnx.conversion import Conversion
from vknn.formats.onnx.functions import all_nodes
from vknn.formats.onnx.held import element
from vknn.formats.onnx.input_arrays import checked_array, strings_of
from vknn.formats.onnx.random_draws import COUNTER_TYPE, draws, first_counts
from vknn.formats.onnx.reader import DEFAULTS_IR
from vknn.formats.onnx.records import OnnxModelRecord, ValueRecord
from vknn.formats.onnx.steps import Item, Key, NameScope, Source, TensorList, first_steps
from vknn.graph import DType, Graph, GraphBuilder, TensorType


class OnnxModel(Model):
    """An ONNX model (see :class:`Model`). Arrays have the shapes and dtypes of the file.

    ``overridable``: inputs that have a default and may be left out, which ``inputs`` does not list.
    ``metadata`` and ``producer`` come from the file.
    """

    def __init__(self, record: OnnxModelRecord, file: str | None = None) -> None:
        self.record, self.file = record, file
        graph = record.graph
        fixed = graph.initializers.keys()
        values = {v.name: v for v in graph.inputs}
        self._values = {n: v for n, v in values.items() if n not in fixed}
        self.sequences = frozenset(n for n, v in self._values.items() if v.type.kind == "sequence")
        self._defaults = {}
        if record.ir_version >= DEFAULTS_IR:
            self._defaults = {n: v for n, v in values.items() if n in fixed}
        self.inputs = tuple(map(_spec, self._values.values()))
        self.overridable = tuple(map(_spec, self._defaults.values()))
        self.outputs = tuple(map(_spec, {v.name: v for v in graph.outputs}.values()))
        self._outputs = {v.name: v.type for v in graph.outputs}
        self.layer_types = tuple(node.type for node in all_nodes(graph.nodes))
        self.shape_hints = {
            s.name: hint for s in self.inputs if s.shape and (hint := _hint(s.shape)) is not None
        }
        self.metadata, self.producer = dict(record.metadata), record.producer
        functions = (f.nodes for f in record.functions.values())
        if any(draws(all_nodes(nodes)) for nodes in (graph.nodes, *functions)):
            self.first_state = first_counts()
            self.state = dict.fromkeys(self.first_state, COUNTER_TYPE)
        self._scope = NameScope("", record.imports, None, graph.initializers)

    # --- inputs -----------------------------------------------------------------------------------

    def complete(self, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        """``feeds`` with the elements of sequences as inputs of their own."""
        special = [n for n, v in self._values.items() if v.type.optional or n in self.sequences]
        if not special:
            return feeds
        found = dict(feeds)
        for name in special:
            if name not in found and self._values[name].type.optional:
                continue
            if name not in found:
                raise InputError(f"missing input {name!r}, a sequence; an empty one is []")
            given = found.pop(name)
            if given is None and self._values[name].type.optional:
                continue
            if name not in self.sequences:
                found[name] = given
                continue
            if not isinstance(given, list | tuple):
                raise InputError(f"input {name!r} takes a list of arrays, not a {_kind(given)}")
            found |= {element(name, number): array for number, array in enumerate(given)}
        return found

    def check_names(self, given: Mapping[str, object]) -> None:
        """See :meth:`Model.check_names`; inputs with a default may be left out."""
        known = {n.partition("\0")[0] if isinstance(n, str) else n for n in given}
        absent = self.sequences | {n for n, v in self._values.items() if v.type.optional}
        super().check_names(dict.fromkeys((known - self._defaults.keys()) | absent))

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array`` as the graph takes it. Raises InputError where dtype or shape do not fit."""
        outer = name.partition("\0")[0]
        value = self._values.get(outer) or self._defaults.get(outer)
        if value is None:
            raise InputError(f"unknown input {name!r}")
        return checked_array(outer, value.type, array)

    # --- outputs ----------------------------------------------------------------------------------

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array`` as the user sees it: strings as str."""
        return strings_of(array) if array.dtype == object else array

    def decode_blob(self, array: np.ndarray) -> np.ndarray:
        """The array as :meth:`decode` makes it."""
        return self.decode("", array)

    def results(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Results by name in the file's order: sequences as lists, absent optionals as None."""
        if len(arrays) == len(self._outputs) and arrays.keys() == self._outputs.keys():
            return {name: arrays[name] for name in self._outputs}
        found: dict[str, Any] = {}
        for name, type_ in self._outputs.items():
            if name in arrays:
                found[name] = arrays[name]
                continue
            count = sum(1 for other in arrays if other.startswith(f"{name}\0"))
            elements = [arrays[element(name, number)] for number in range(count)]
            empty = not elements and type_.kind != "sequence"
            found[name] = None if empty else elements
        return found

    # --- graphs -----------------------------------------------------------------------------------

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`."""
        self.check_names(types)
        builder = GraphBuilder(self.record.graph.name or "onnx")
        known: dict[Key, Item] = {}
        for name, value in {**self._values, **self._defaults}.items():
            if value.type.kind == "sequence":
                count = sum(1 for other in types if other.startswith(f"{name}\0"))
                ports = [element(name, number) for number in range(count)]
                items = tuple(builder.input(port, types[port]) for port in ports)
                known[self._scope, name] = TensorList(items, value.type.dtype)
            elif name in types:
                known[self._scope, name] = builder.input(name, types[name])
            elif name in self._values:
                known[self._scope, name] = None
        for name in self.state:
            known[self._scope, name] = builder.input(name, COUNTER_TYPE)
        ends = {name: name for name in self._outputs}
        source = Source(self.record, self._scope, ends, self._scope, self.file)
        steps = first_steps(self.record.graph.nodes, self._scope)
        conversion = Conversion(source, builder, known, steps)
        graph = conversion.run()
        if graph.continuation is not None:  # which tools show the beginning of
            graph.blobs = conversion.blobs()
        return graph


def _spec(value: ValueRecord) -> TensorSpec:
    dtype = value.type.dtype or DType.FLOAT32
    shape = value.type.shape if value.type.kind == "tensor" else None
    return TensorSpec(value.name, shape, dtype.numpy)


def _hint(shape: tuple[int | str | None, ...]) -> tuple[int, ...] | None:
    """A shape to try where the file leaves only the first axis, the batch, open."""
    if not shape or isinstance(shape[0], int):
        return None
    rest = tuple(size for size in shape[1:] if isinstance(size, int))
    return (1, *rest) if len(rest) == len(shape) - 1 else None


def _kind(value: object) -> str:
    return type(value).__name__
