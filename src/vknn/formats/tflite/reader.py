"""Reader of .tflite files: bytes -> records, with every index, size and count checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.tflite.blockwise import blocks_problem
from vknn.formats.tflite.external import ExternalBuffers
from vknn.formats.tflite.flexbuffer import BadFlexBuffer, decode
from vknn.formats.tflite.generated import accessors
from vknn.formats.tflite.options import read_options, unknown_member
from vknn.formats.tflite.records import (
    ModelRecord,
    OperatorRecord,
    SignatureRecord,
    SubgraphRecord,
    TensorRecord,
)
from vknn.formats.tflite.sub_byte import PackedIntegers
from vknn.formats.tflite.tensors import UnknownType, ints, read_tensor, text
from vknn.formats.tflite.verifier import IDENTIFIER, Damaged, verify

VERSION = 3
CUSTOM = "CUSTOM"
_NAMES = {
    number: name for name, number in vars(accessors.BuiltinOperator).items() if name[0] != "_"
}


def looks_like_tflite(head: bytes) -> bool:
    """True where ``head``, the first bytes of a file, is that of a TensorFlow Lite model."""
    return head[4:8] == IDENTIFIER


def parse_model(data: bytes | memoryview, file: str | None = None) -> ModelRecord:
    """ModelRecord of the bytes of a file. Raises ModelFormatError and UnsupportedLayerError."""
    try:
        verify(data)
        return _Reader(data, file).model()
    except Damaged as problem:
        raise ModelFormatError(str(problem), file=file, offset=problem.offset) from None
    except UnknownType as problem:
        raise UnsupportedLayerError([str(problem)], file=file) from None


class _Reader:
    """Records of a verified file."""

    def __init__(self, data: bytes | memoryview, file: str | None) -> None:
        self.data = memoryview(data)
        self.file = file
        self.root = accessors.Model.GetRootAs(data, 0)
        self.external = ExternalBuffers(self.root, file)
        #: Arrays of constants by buffer, type and shape.
        self.constants: dict[tuple[Any, ...], np.ndarray | PackedIntegers] = {}
        self.buffers = [self.buffer(i) for i in range(self.root.BuffersLength())]

    def model(self) -> ModelRecord:
        """The whole file."""
        if self.root.Version() != VERSION:
            raise self.bad(
                f"schema version {self.root.Version()}; vknn reads version {VERSION}", self.root
            )
        if self.root.SubgraphsLength() == 0:
            raise self.bad("the model has no subgraph", self.root)
        codes = [self.code(i) for i in range(self.root.OperatorCodesLength())]
        subgraphs = tuple(self.subgraph(i, codes) for i in range(self.root.SubgraphsLength()))
        return ModelRecord(
            subgraphs,
            text(self.root.Description()),
            tuple(self.signatures(subgraphs)),
            dict(self.metadata()),
        )

    def buffer(self, index: int) -> memoryview:
        """The bytes of a buffer; models over 2 GB keep them outside the FlatBuffer."""
        buffer = self.root.Buffers(index)
        length = buffer.DataLength()
        if length == 0 and buffer.Offset() > 1:
            return self.outside(buffer.Offset(), buffer.Size(), f"buffer {index}", buffer)
        if length == 0:
            return self.data[:0]
        start = buffer._tab.Vector(buffer._tab.Offset(4))
        return self.data[start : start + length]

    def outside(self, start: int, size: int, what: str, table: Any) -> memoryview:
        """Bytes behind the FlatBuffer, counted from the start of the file."""
        if start + size > len(self.data):
            where = f"{size} bytes at {start}, of {len(self.data)}"
            raise self.bad(f"{what} lies outside the file ({where})", table)
        return self.data[start : start + size]

    def code(self, index: int) -> tuple[str, str]:
        """Name of the builtin operator, and of the custom operator where it is CUSTOM."""
        code = self.root.OperatorCodes(index)
        number = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        name = _NAMES.get(number, f"builtin {number}")
        return name, text(code.CustomCode()) if name == CUSTOM else ""

    def subgraph(self, index: int, codes: Sequence[tuple[str, str]]) -> SubgraphRecord:
        """A subgraph with its tensors and operators."""
        graph = self.root.Subgraphs(index)
        tensors = tuple(self.tensor(graph.Tensors(i), i) for i in range(graph.TensorsLength()))
        count = len(tensors)
        for tensor in tensors:
            if problem := blocks_problem(tensors, tensor):
                raise self.bad(f"tensor {tensor.index} ({tensor.name!r}): {problem}", graph)
        operators = tuple(
            self.operator(graph.Operators(i), i, codes, count)
            for i in range(graph.OperatorsLength())
        )
        inputs = self.indices(graph.InputsAsNumpy(), count, graph, f"subgraph {index}")
        outputs = self.indices(graph.OutputsAsNumpy(), count, graph, f"subgraph {index}")
        record = SubgraphRecord(index, text(graph.Name()), tensors, inputs, outputs, operators)
        self.check_order(record, graph)
        return record

    def tensor(self, tensor: Any, index: int) -> TensorRecord:
        """A tensor; constants of one buffer share their array, be it in other subgraphs."""
        record = read_tensor(tensor, index, self.buffers, self.external)
        if record.stored is None or record.sparse:
            return record
        key = tensor.Buffer(), tensor.ExternalBuffer(), record.type_name, record.shape
        stored = self.constants.setdefault(key, record.stored)
        return record if stored is record.stored else replace(record, stored=stored)

    def operator(
        self, operator: Any, index: int, codes: Sequence[tuple[str, str]], tensors: int
    ) -> OperatorRecord:
        """An operator with its options."""
        number = operator.OpcodeIndex()
        if number >= len(codes):
            raise self.bad(f"operator {index} has code {number} of {len(codes)}", operator)
        name, custom = codes[number]
        what = f"operator {index} ({custom or name})"
        inputs = self.indices(operator.InputsAsNumpy(), tensors, operator, what, optional=True)
        outputs = self.indices(operator.OutputsAsNumpy(), tensors, operator, what)
        between = self.indices(operator.IntermediatesAsNumpy(), tensors, operator, what, True)
        options = read_options(operator, name)
        if problem := unknown_member(name, options):
            raise self.bad(f"{what}: its {problem}", operator)
        if name == CUSTOM:
            options = self.custom_options(operator, what)
        return OperatorRecord(index, name, inputs, outputs, options, custom, between)

    def custom_options(self, operator: Any, what: str) -> dict[str, Any]:
        """Options of a custom operator: the decoded FlexBuffer, or its raw bytes."""
        start, size = operator.LargeCustomOptionsOffset(), operator.LargeCustomOptionsSize()
        if start > 1:
            data = bytes(self.outside(start, size, f"{what}: its options", operator))
        else:
            raw = operator.CustomOptionsAsNumpy() if operator.CustomOptionsLength() else b""
            data = bytes(raw)
        try:
            value = decode(data)
        except BadFlexBuffer:
            value = None  # some tools store other data here, which only the operator can decode
        return value if isinstance(value, dict) else {"": value, "raw": data}

    def indices(
        self, array: Any, count: int, table: Any, what: str, optional: bool = False
    ) -> tuple[int, ...]:
        """Checked tensor indices; -1 (an absent input) only where ``optional``."""
        found = ints(array)
        for index in found:
            if not (0 <= index < count or (optional and index == -1)):
                raise self.bad(f"{what} names tensor {index} of {count}", table)
        return found

    def check_order(self, graph: SubgraphRecord, table: Any) -> None:
        """Raises Damaged unless each tensor is written once, and before it is read."""
        made = set(graph.inputs)
        made |= {t.index for t in graph.tensors if t.data is not None or t.variable}
        for operator in graph.operators:
            what = f"operator {operator.index} ({operator.type})"
            written = set(operator.outputs)
            if len(written) < len(operator.outputs) or written & made:
                raise self.bad(f"{what} writes a tensor that has a value already", table)
            made |= written
        later = set().union(*(o.outputs for o in graph.operators)) if graph.operators else set()
        ready = made - later
        for operator in graph.operators:
            for index in operator.inputs:
                if index != -1 and index in later and index not in ready:
                    what = f"operator {operator.index} ({operator.type})"
                    raise self.bad(f"{what} reads tensor {index} before it is made", table)
            ready |= set(operator.outputs)

    def signatures(self, subgraphs: Sequence[SubgraphRecord]) -> Iterator[SignatureRecord]:
        """The signatures."""
        for i in range(self.root.SignatureDefsLength()):
            definition = self.root.SignatureDefs(i)
            number = definition.SubgraphIndex()
            if number >= len(subgraphs):
                raise self.bad(f"signature {i} names subgraph {number}", definition)
            count = len(subgraphs[number].tensors)
            maps = []
            for length, entry in (
                (definition.InputsLength(), definition.Inputs),
                (definition.OutputsLength(), definition.Outputs),
            ):
                pairs = [(text(entry(j).Name()), entry(j).TensorIndex()) for j in range(length)]
                if any(index >= count for _, index in pairs):
                    raise self.bad(f"signature {i} names a tensor that is not there", definition)
                maps.append(dict(pairs))
            yield SignatureRecord(text(definition.SignatureKey()), number, maps[0], maps[1])

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of each metadata entry."""
        for i in range(self.root.MetadataLength()):
            entry = self.root.Metadata(i)
            if entry.Buffer() >= len(self.buffers):
                raise self.bad(f"metadata {i} names buffer {entry.Buffer()}", entry)
            yield text(entry.Name()), bytes(self.buffers[entry.Buffer()])

    def bad(self, message: str, table: Any) -> Damaged:
        """The error at the position of ``table``."""
        return Damaged(message, int(table._tab.Pos))
