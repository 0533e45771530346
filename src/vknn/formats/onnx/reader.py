"""Reader of .onnx bytes: protobuf messages -> checked records."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from vknn.errors import ModelFormatError
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.formats.onnx.attributes import read_attribute
from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.external import ExternalData
from vknn.formats.onnx.functions import check_functions
from vknn.formats.onnx.input_types import check_inputs
from vknn.formats.onnx.ordering import OrderProblem, ordered_graph
from vknn.formats.onnx.records import (
    FunctionRecord,
    GraphRecord,
    Key,
    NodeRecord,
    OnnxModelRecord,
    TensorProtoRecord,
    ValueRecord,
)
from vknn.formats.onnx.registry import MICROSOFT
from vknn.formats.onnx.tensors import BadTensor, entries_of, read_sparse, read_tensor
from vknn.formats.onnx.value_types import read_type
from vknn.graph import DType

#: The newest formats and operators that vknn knows.
OLDEST_IR, NEWEST_IR = 3, 14
NEWEST_OPSET = 28
#: The only version of the domain of onnxruntime's operators.
_MICROSOFT_VERSION = 1
#: From here on an initializer that is an input, too, is the input's default, else a constant.
DEFAULTS_IR = 4


def parse_model(data: bytes, file: str | None = None) -> OnnxModelRecord:
    """The record of a model. Raises ModelFormatError, naming the file and the node."""
    message = pb.Model()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ModelFormatError(
            f"this is no ONNX model, or a damaged or truncated one ({error}); fetch or export it "
            "again",
            file=file,
        ) from None
    return ModelReader(file).model(message)


def plain_domain(domain: str) -> str:
    """The domain, "" for ONNX's own, which files write as "ai.onnx", too."""
    return "" if domain == "ai.onnx" else domain


class ModelReader:
    """Reading of one model's messages. ``file``: the model file, beside which other data lie."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.external = ExternalData(None if file is None else Path(file))
        self.functions: Mapping[Key, FunctionRecord] = {}

    def fail(self, message: str, layer: str | None = None) -> NoReturn:
        """Error for a file that contradicts itself."""
        raise ModelFormatError(message, file=self.file, layer=layer)

    def model(self, message: Any) -> OnnxModelRecord:
        """The record of the whole file."""
        self._check_version(message)
        imports = self.imports(message.opset_import)
        if imports:  # that domain has one version, and onnxruntime knows it without
            imports.setdefault(MICROSOFT, _MICROSOFT_VERSION)
        if not message.HasField("graph"):
            self.fail("the file holds no graph; it may be truncated: fetch or export it again")
        if not imports:
            self.fail("it imports no version of any operators; export the model again")
        self.functions = self._functions(message.functions)
        graph = self.graph(message.graph, "", frozenset())
        if not graph.outputs:
            self.fail("the graph has no outputs, so that there is nothing to run; export it again")
        check_inputs(graph, self.fail)
        check_functions(graph, self.functions, self.file)
        self.external.check_end()
        metadata = entries_of(message.metadata_props)
        producer = message.producer_name.decode("utf-8", "replace")
        return OnnxModelRecord(
            message.ir_version, imports, graph, self.functions, producer, dict(metadata)
        )

    def _check_version(self, message: Any) -> None:
        version = message.ir_version
        if not OLDEST_IR <= version <= NEWEST_IR:
            hint = "export the model anew" if version < OLDEST_IR else "export it with an older one"
            self.fail(
                f"it has the IR version {version}, vknn reads {OLDEST_IR} to {NEWEST_IR}; {hint}"
            )

    def imports(self, messages: Sequence[Any]) -> dict[str, int]:
        """Version of each domain's operators."""
        found: dict[str, int] = {}
        for message in messages:
            domain = plain_domain(message.domain)
            if message.version < 1:
                self.fail(f"it imports version {message.version} of the domain {domain!r}")
            if found.setdefault(domain, message.version) != message.version:
                self.fail(f"it imports two versions of the domain {domain!r}")
        for domain, newest in (("", NEWEST_OPSET), (MICROSOFT, _MICROSOFT_VERSION)):
            if found.get(domain, newest) > newest:
                what = "ONNX's operators" if not domain else f"the domain {domain}"
                self.fail(
                    f"it asks for opset {found[domain]} of {what}, vknn knows 1 to {newest}; "
                    "export the model with an older opset"
                )
        return found

    # --- graphs -----------------------------------------------------------------------------------

    def graph(self, message: Any, place: str, outer: frozenset[str]) -> GraphRecord:
        """The record of a graph; ``outer``: names of values around it that its nodes may read."""
        what = place or "the graph"
        initializers = self._initializers(message, what)
        inputs = self._values(message.input, f"{what}: input")
        outputs = self._values(message.output, f"{what}: output")
        for value in (*inputs, *outputs):
            if not value.name:
                self.fail(f"{what} has an input or output without a name")
        self._check_unique((v.name for v in inputs), f"{what} has two inputs called")
        known = {v.name for v in inputs} | initializers.keys()
        made = {name for node in message.node for name in node.output if name}
        nodes = self.nodes(message.node, place, outer | known | made)
        try:
            ordered, captured = ordered_graph(nodes, known, outer, [v.name for v in outputs])
        except OrderProblem as problem:
            self.fail(f"{what}: {problem}", problem.node)
        declared = self._declared(message.value_info, what)
        return GraphRecord(message.name, ordered, inputs, outputs, initializers, captured, declared)

    def _check_unique(self, names: Iterable[str], message: str) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.fail(f"{message} {name!r}")
            seen.add(name)

    def _values(self, messages: Sequence[Any], what: str) -> tuple[ValueRecord, ...]:
        found = []
        for message in messages:
            try:
                type_ = read_type(message.type) if message.HasField("type") else read_type(None)
            except BadTensor as problem:
                self.fail(f"{what} {message.name!r}: {problem}")
            found.append(ValueRecord(message.name, type_))
        return tuple(found)

    def _declared(self, messages: Sequence[Any], what: str) -> dict[str, DType]:
        """Element types that the file states of tensors; shapes are hints, which count nothing."""
        found: dict[str, DType] = {}
        for message in messages:
            if not message.type.HasField("tensor_type"):
                continue
            number = message.type.tensor_type.elem_type
            element = ELEMENT_TYPES.get(number)
            if element is None:
                self.fail(f"{what}: {message.name!r}: the element type number {number} is unknown")
            found[message.name] = element.dtype
        return found

    def _initializers(self, message: Any, what: str) -> dict[str, TensorProtoRecord]:
        found: dict[str, TensorProtoRecord] = {}
        try:
            tensors = [read_tensor(t, self.external) for t in message.initializer]
            tensors += [read_sparse(t, self.external) for t in message.sparse_initializer]
        except BadTensor as problem:
            self.fail(f"{what}: {problem}; fetch or export the model again")
        for tensor in tensors:
            if not tensor.name:
                self.fail(f"{what} has an initializer without a name")
            if tensor.name in found:
                self.fail(f"{what} has two initializers called {tensor.name!r}")
            found[tensor.name] = tensor
        return found

    def nodes(
        self, messages: Sequence[Any], place: str, names: frozenset[str]
    ) -> tuple[NodeRecord, ...]:
        """The records of nodes. ``names``: of all values that their subgraphs may read."""
        return tuple(self._node(m, number, place, names) for number, m in enumerate(messages))

    def _node(self, message: Any, number: int, place: str, names: frozenset[str]) -> NodeRecord:
        key = (plain_domain(message.domain), message.op_type, message.overload)
        label = message.name or next((n for n in message.output if n), f"node {number}")
        where = f"{place}/{label}" if place else label
        if not message.op_type:
            self.fail("a node without an operator", where)
        attributes = {}
        for item in message.attribute:
            if not item.name:
                self.fail(f"{message.op_type} has an attribute without a name", where)
            try:
                inner = functools.partial(self.graph, place=f"{where}/{item.name}", outer=names)
                found = read_attribute(item, self.external, inner)
            except BadTensor as problem:
                self.fail(f"{message.op_type}: attribute {item.name!r}: {problem}", where)
            if found.name in attributes:
                self.fail(f"{message.op_type} has the attribute {item.name!r} twice", where)
            attributes[found.name] = found
        record = NodeRecord(
            number, message.name, key, tuple(message.input), tuple(message.output), attributes
        )
        graphs = record.graphs()
        if not graphs:
            return record
        captured = tuple(dict.fromkeys(n for g in graphs for n in g.captured))
        return NodeRecord(
            number, record.name, key, record.inputs, record.outputs, attributes, captured
        )

    # --- functions --------------------------------------------------------------------------------

    def _functions(self, messages: Sequence[Any]) -> dict[Key, FunctionRecord]:
        found: dict[Key, FunctionRecord] = {}
        for message in messages:
            record = self._function(message)
            if record.key in found:
                self.fail(f"two functions are called {record.key[1]!r}")
            found[record.key] = record
        return found

    def _function(self, message: Any) -> FunctionRecord:
        key = (plain_domain(message.domain), message.name, message.overload)
        place = f"function {message.name!r}"
        if not message.name:
            self.fail("a function without a name")
        self._check_unique(message.input, f"{place} has two inputs called")
        self._check_unique(message.output, f"{place} has two outputs called")
        defaults = {}
        for item in message.attribute_proto:
            try:
                inner = functools.partial(
                    self.graph, place=f"{place}/{item.name}", outer=frozenset()
                )
                defaults[item.name] = read_attribute(item, self.external, inner)
            except BadTensor as problem:
                self.fail(f"{place}: attribute {item.name!r}: {problem}")
        known = set(message.input)
        made = {name for node in message.node for name in node.output if name}
        nodes = self.nodes(message.node, place, frozenset(known | made))
        try:
            ordered, _ = ordered_graph(nodes, known, frozenset(), list(message.output))
        except OrderProblem as problem:
            self.fail(f"{place}: {problem}", problem.node)
        return FunctionRecord(
            key, tuple(message.input), tuple(message.output), tuple(message.attribute), defaults,
            ordered, self.imports(message.opset_import),
        )  # fmt: skip
