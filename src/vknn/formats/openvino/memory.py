"""Memory layers: pairs of a read and a write of state that is kept between runs."""

from __future__ import annotations

from vknn.errors import ModelFormatError
from vknn.formats.layer_errors import Malformed
from vknn.formats.openvino.attributes import AttributeReader
from vknn.formats.openvino.records import LayerPort, LayerRecord, Net
from vknn.graph import TensorType


def is_memory(layer: LayerRecord) -> bool:
    """Whether a layer reads or writes state."""
    return layer.type.lower() == "memory"


def memory_id(layer: LayerRecord) -> str:
    """The id of the state that a Memory layer reads or writes. Raises Malformed."""
    found: str = AttributeReader(layer.attributes).text("id")
    return found


def reads(layer: LayerRecord) -> bool:
    """Whether a Memory layer reads the state of the previous run (index 1) or writes it (index 0).

    Raises Malformed.
    """
    index = AttributeReader(layer.attributes).int("index", 1 if layer.outputs else 0)
    if index not in (0, 1):
        raise Malformed(f"index is {index}, not 0 or 1")
    inputs, outputs = (0, 1) if index == 1 else (1, 0)
    if (len(layer.inputs), len(layer.outputs)) != (inputs, outputs):
        raise Malformed(
            f"with index {index} has {len(layer.inputs)} inputs and {len(layer.outputs)} outputs"
        )
    return bool(index)


def state_types(net: Net) -> dict[str, TensorType]:
    """id -> type of the state: the read port's, or the write port's where nothing reads it."""
    types: dict[str, TensorType] = {}
    for layer in (x for x in _memories(net) if not reads(x)):
        types[memory_id(layer)] = _type(layer.inputs[0])
    for layer in (x for x in _memories(net) if reads(x)):
        types[memory_id(layer)] = _type(layer.outputs[0])
    return types


def _type(port: LayerPort) -> TensorType:
    return TensorType(port.dims, port.graph_dtype)


def _memories(net: Net) -> list[LayerRecord]:
    return [layer for layer in net.all_layers() if is_memory(layer)]


def check_memories(net: Net, file: str | None = None) -> None:
    """Check: ModelFormatError unless each id is written at most once and fits what is read."""
    written: dict[str, LayerRecord] = {}
    layers = _memories(net)
    for layer in layers:
        try:
            id_, is_read = memory_id(layer), reads(layer)
        except Malformed as problem:
            raise ModelFormatError(str(problem), file=file, layer=layer.name) from problem
        if not is_read:
            if id_ in written:
                raise ModelFormatError(
                    f"writes {id_!r}, as layer {written[id_].name!r} does",
                    file=file,
                    layer=layer.name,
                )
            written[id_] = layer
    for layer in layers:
        other = written.get(memory_id(layer))
        if reads(layer) and other and other.inputs[0].dims != layer.outputs[0].dims:
            raise ModelFormatError(
                f"reads {list(layer.outputs[0].dims)} where layer {other.name!r} writes "
                f"{list(other.inputs[0].dims)}",
                file=file,
                layer=layer.name,
            )
