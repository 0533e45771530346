"""TfliteModel: a loaded model, its inputs, outputs, signatures, and graphs for input shapes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from vknn.errors import InputError, ModelFormatError
from vknn.formats.model import Model, TensorSpec
from vknn.formats.tflite.file_source import FileSource
from vknn.formats.tflite.generators import first_positions
from vknn.formats.tflite.records import (
    ModelRecord,
    SignatureRecord,
    SubgraphRecord,
    TensorRecord,
)
from vknn.formats.tflite.subgraph_builder import build_graph
from vknn.graph import DType, Graph, TensorType
from vknn.ops.generator.numbers import POSITION_TYPE


@dataclass(frozen=True)
class Signature:
    """A signature: names of the arguments and results of a method -> names of their tensors.

    ``run(feeds, signature=key)`` of a session runs its subgraph by the names of the arguments and
    results. Without a signature subgraph 0 runs, by the names of its tensors.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    subgraph: int = 0


class TfliteModel(Model):
    """A TensorFlow Lite model (see :class:`Model`). Arrays have the layout and dtype of the file.

    ``signatures`` by key, ``metadata`` (bytes by name) and ``description`` come from the file.
    """

    axis_letters = MappingProxyType({4: "NHWC"})
    nan_to_most = True

    def __init__(self, record: ModelRecord, file: str | None = None) -> None:
        self.record = record
        self.file = file
        self.layer_types = tuple(o.type for g in record.subgraphs for o in g.operators)
        self.description, self.metadata = record.description, record.metadata
        self.signatures: dict[str, Signature] = {}
        for given in record.signatures:  # of one key the first counts
            self.signatures.setdefault(given.key, _signature(record, given))
        self._generators = first_positions(record)
        self._source = FileSource(record, file, tuple(self._generators))
        self.variables = self._source.resources.names
        main = record.subgraphs[0]
        self._enter(
            main,
            dict(zip(tensor_names(main, main.inputs), main.inputs, strict=True)),
            dict(zip(tensor_names(main, main.outputs), main.outputs, strict=True)),
        )

    def of_signature(self, key: str) -> TfliteModel:
        """See :meth:`Model.of_signature`."""
        if key not in self.signatures:
            known = ", ".join(map(repr, self.signatures))
            raise InputError(
                f"the model has no signature {key!r}; "
                + (f"its signatures: {known}" if known else "it has none: leave signature out")
            )
        found = next(s for s in self.record.signatures if s.key == key)
        graph = self.record.subgraphs[found.subgraph]
        _check_named(key, "input", found.inputs, graph.inputs, graph, self.file)
        _check_named(key, "output", found.outputs, graph.outputs, graph, self.file)
        model = copy.copy(self)
        model._enter(graph, dict(found.inputs), dict(found.outputs))
        return model

    def _enter(
        self, graph: SubgraphRecord, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        """Choice of the subgraph that is run, and of the names of its inputs and outputs."""
        self.main, self._outputs = graph, outputs
        tensors = graph.tensors
        self._records = {name: tensors[index] for name, index in inputs.items()}
        self.range_checked = frozenset(
            n for n, t in self._records.items() if t.sub_byte is not None
        )
        self.inputs = tuple(_spec(n, t) for n, t in self._records.items())
        self.outputs = tuple(_spec(name, tensors[index]) for name, index in outputs.items())
        self.quantization = _of_tensors({n: tensors[i] for n, i in outputs.items()})
        self.input_quantization = _of_tensors(self._records)
        self.shape_hints = {
            n: tuple(1 if d is None else d for d in t.shape) for n, t in self._records.items()
        }
        self._state_names = {
            t.index: f"state:{t.index}" if graph.index == 0 else f"state:{graph.index}:{t.index}"
            for t in tensors
            if t.variable
        }
        self.state = {
            name: TensorType(tensors[index].shape, tensors[index].dtype)
            for index, name in self._state_names.items()
        }
        self.first_state = {
            name: self._initial_value(tensors[index])
            for index, name in self._state_names.items()
            if tensors[index].initial_value
        }
        self.state |= dict.fromkeys(self._generators, POSITION_TYPE)
        self.first_state |= self._generators

    def _initial_value(self, tensor: TensorRecord) -> int:
        value = tensor.initial_value
        if not -128 <= value <= 127:
            raise ModelFormatError(
                f"variable {tensor.name!r} starts at its zero point {value}, which is no int8",
                file=self.file,
            )
        return value

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`."""
        held = {name: type_ for name, type_ in types.items() if name in self.variables}
        self.check_names({name: type_ for name, type_ in types.items() if name not in held})
        names = dict(self._state_names)
        outputs = dict(self._outputs) | {name: index for index, name in names.items()}
        fed = {index: self.state[name] for index, name in names.items()}
        for name, record in self._records.items():
            self._check_shape(name, types[name].dims)
            fed[record.index] = TensorType(types[name].dims, record.dtype)
            names[record.index] = name
        held |= dict.fromkeys(self._generators, POSITION_TYPE)
        if self._source.file != self.file:  # a model in memory has another name than its file
            self._source = replace(self._source, file=self.file)
        return build_graph(self._source, self.main.index, fed, outputs, names, held=held)

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array`` in the dtype of input ``name``. Raises InputError where values do not fit."""
        record = self._records.get(name)
        if record is None:
            raise InputError(f"unknown input {name!r}")
        array = np.asarray(array)
        self._check_shape(name, array.shape)
        wanted = record.dtype.numpy
        if record.sub_byte is not None and array.dtype.kind in "fiub":
            _check_range(name, record, array)
        if record.dtype is DType.STRING:
            return _strings(name, array)
        if array.dtype == wanted:
            return np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.kind not in "fiub":
            raise InputError(f"input {name!r} takes {record.dtype.value}, not {array.dtype}")
        with np.errstate(all="ignore"):
            converted = array.astype(wanted)
        if not record.dtype.is_float and not np.array_equal(converted, array):
            raise InputError(
                f"input {name!r} takes {record.dtype.value}; values of this {array.dtype} array do "
                "not fit"
            )
        return converted

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array`` unchanged: outputs have the file's layout and dtype."""
        return array

    def _check_shape(self, name: str, shape: Sequence[int]) -> None:
        declared = self._records[name].shape
        if self._records[name].unranked:
            return
        fits = len(shape) == len(declared) and all(
            d is None or d == s for s, d in zip(shape, declared, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if d is None else str(d) for d in declared)
            raise InputError(
                f"input {name!r} has the shape {list(shape)}, the model says [{wanted}]"
            )


def _of_tensors(records: Mapping[str, TensorRecord]) -> dict[str, tuple[float, int]]:
    """Scale and zero point of the tensors that have one of each."""
    return {
        name: (float(record.quant.scale[0]), int(record.quant.zero_point[0]))
        for name, record in records.items()
        if record.is_quantized and record.quant is not None and not record.quant.per_channel
    }


def _check_range(name: str, record: TensorRecord, array: np.ndarray) -> None:
    low, high = record.limits
    if array.size and not (array.min() >= low and array.max() <= high):
        raise InputError(f"input {name!r} takes {record.type_name}, numbers from {low} to {high}")


def _strings(name: str, array: np.ndarray) -> np.ndarray:
    """``array`` as an object array of bytes; text is encoded as UTF-8."""
    if array.dtype.kind not in "SUO":
        raise InputError(f"input {name!r} takes strings, not {array.dtype}")
    result = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        if not isinstance(item, bytes | str):
            raise InputError(f"input {name!r} takes strings, not {type(item).__name__}")
        result[place] = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
    return result


def tensor_names(graph: SubgraphRecord, indices: Sequence[int]) -> list[str]:
    """Unique names of inputs or outputs: names of their tensors, with :index where ambiguous."""
    names = [graph.tensors[i].name for i in indices]
    return [
        name if name and names.count(name) == 1 else f"{name}:{index}"
        for name, index in zip(names, indices, strict=True)
    ]


def _signature(record: ModelRecord, given: SignatureRecord) -> Signature:
    graph = record.subgraphs[given.subgraph]
    called = {i: graph.tensors[i].name for i in (*given.inputs.values(), *given.outputs.values())}
    for ends in (graph.inputs, graph.outputs):
        called |= dict(zip(ends, tensor_names(graph, ends), strict=True))
    inputs = {name: called[index] for name, index in given.inputs.items()}
    outputs = {name: called[index] for name, index in given.outputs.items()}
    return Signature(inputs, outputs, given.subgraph)


def _check_named(
    key: str,
    what: str,
    names: Mapping[str, int],
    wanted: Sequence[int],
    graph: SubgraphRecord,
    file: str | None,
) -> None:
    """Check: ModelFormatError unless a signature names each ``what`` of its subgraph, once.

    Of outputs it may leave some out.
    """
    place = f"signature {key!r} of subgraph {graph.index}"
    for name, index in names.items():
        if index not in wanted:
            raise ModelFormatError(
                f"{place}: its {what} {name!r} is tensor {index} ({graph.tensors[index].name!r}), "
                f"which is no {what} of the subgraph",
                file=file,
            )
    if what == "input" and sorted(names.values()) != sorted(set(wanted)):
        called = sorted(graph.tensors[i].name for i in wanted)
        raise ModelFormatError(
            f"{place}: its inputs {', '.join(map(repr, names)) or '(none)'} do not stand for each "
            f"of the subgraph's, {', '.join(map(repr, called)) or '(none)'}, once",
            file=file,
        )


def _spec(name: str, tensor: TensorRecord) -> TensorSpec:
    return TensorSpec(name, tensor.shape, tensor.dtype.numpy)
