"""Loading of .onnx files: reads a file and checks all that needs no inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.custom import TO_REGISTER
from vknn.formats.in_memory import was_in_memory
from vknn.formats.message_outline import MAX_BYTES, SMALL, check_outline
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.formats.onnx.custom import known_type
from vknn.formats.onnx.functions import all_nodes
from vknn.formats.onnx.layers import versions_of
from vknn.formats.onnx.model import OnnxModel
from vknn.formats.onnx.reader import parse_model
from vknn.formats.onnx.records import FunctionRecord, Key, NodeRecord, OnnxModelRecord
from vknn.formats.onnx.scope_limits import out_of_scope
from vknn.formats.onnx.signature_checks import check_signatures

#: What may be large in a model: the bytes of tensors.
_WEIGHTS = {"Tensor.raw_data", "Tensor.string_data", "Attribute.s", "Attribute.strings"}
_Placed = tuple[NodeRecord, Mapping[str, int]]


def load(path: Path, weights: Path | None = None) -> OnnxModel:
    """Model of an .onnx file; external data are found beside it and mapped.

    Raises ModelFormatError and UnsupportedLayerError.
    """
    file = str(path)
    if weights is not None:
        if was_in_memory(path):
            raise ModelFormatError(
                "an ONNX model in memory has all its weights in itself; one with external data is "
                "opened by its path",
                file=file,
            )
        raise ModelFormatError(
            f"the files with an ONNX model's weights are found by themselves, beside it; {weights} "
            "is not needed",
            file=file,
        )
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ModelFormatError(
                f"larger than {MAX_BYTES} bytes, which no protobuf message is; save the model with "
                "external data",
                file=file,
            )
        if size > SMALL:
            check_outline(path, pb.Model.DESCRIPTOR, _WEIGHTS, "an ONNX model")
        data = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error.strerror}", file=file) from error
    record = parse_model(data, file)
    check_operators(record, file)
    check_signatures(record, file)
    return OnnxModel(record, file)


def check_operators(record: OnnxModelRecord, file: str | None = None) -> None:
    """Check: known operators with the right numbers of inputs and outputs.

    Raises UnsupportedLayerError, listing all unknown ones, and ModelFormatError.
    """
    unknown: dict[str, None] = {}
    for node, imports in reachable(record):
        if node.key in record.functions:
            _check_import(node, imports, file)
            _check_call(node, record.functions[node.key], file)
            continue
        found = known_type(node, imports)
        if found is None:
            unknown[_unknown(node, imports)] = None
            continue
        _check_import(node, imports, file)
        given = len(node.inputs)
        while given > found.inputs[0] and not node.inputs[given - 1]:
            given -= 1
        if problem := found.arity_problem(given, len(node.outputs)):
            raise ModelFormatError(f"{node.type} {problem}", file=file, layer=node.label)
    if unknown:
        raise UnsupportedLayerError(tuple(unknown), file=file, remedy=TO_REGISTER)


def _check_import(node: NodeRecord, imports: Mapping[str, int], file: str | None) -> None:
    domain = node.key[0]
    if domain not in imports:
        raise ModelFormatError(
            f"{node.type}: the file imports no version of the domain {domain or 'ai.onnx'!r}, or "
            "the function that it stands in does not; export it again",
            file=file,
            layer=node.label,
        )


def reachable(record: OnnxModelRecord) -> Iterator[_Placed]:
    """All nodes that may run, those of subgraphs and called functions too; their imports."""
    seen: set[Key] = set()
    waiting = [(record.graph.nodes, record.imports)]
    while waiting:
        nodes, imports = waiting.pop()
        for node in all_nodes(nodes):
            yield node, imports
            if node.key in record.functions and node.key not in seen:
                seen.add(node.key)
                called = record.functions[node.key]
                waiting.append((called.nodes, called.imports))


def _check_call(node: NodeRecord, called: FunctionRecord, file: str | None) -> None:
    for what, given, most in (
        ("inputs", node.inputs, called.inputs),
        ("outputs", node.outputs, called.outputs),
    ):
        if len(given) > len(most):
            raise ModelFormatError(
                f"calls the function {node.type} with {len(given)} {what}, it has {len(most)}",
                file=file,
                layer=node.label,
            )


def _unknown(node: NodeRecord, imports: Mapping[str, int]) -> str:
    domain, name, _ = node.key
    opset = imports.get(domain)
    version = f"opset {opset}" if opset is not None else "not imported"
    place = f"{node.type} (domain {domain or 'ai.onnx'}, {version})"
    reason = out_of_scope(domain, name)
    if reason is not None:
        return f"{place} is out of scope: {reason}"
    versions = versions_of(domain, name)
    if versions and opset is not None and opset < versions[0]:
        return f"{place} is known from opset {versions[0]} on"
    return place
