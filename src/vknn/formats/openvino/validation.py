"""Checks that need no inputs: layers known and complete, fed ports, blobs inside the .bin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.custom import TO_REGISTER
from vknn.formats.openvino import layers as _layers  # noqa: F401 (registers the layers)
from vknn.formats.openvino.custom import known_type
from vknn.formats.openvino.iteration import body_inputs
from vknn.formats.openvino.memory import check_memories
from vknn.formats.openvino.records import LayerRecord, Net
from vknn.formats.openvino.required import missing_attributes
from vknn.formats.openvino.weights import Weights


def check(net: Net, weights: Path, file: str | None = None, *, given: bool = False) -> Weights:
    """The weights file, opened, after all checks of the net that need no inputs.

    ``given``: the user named it, so that it has to be there whether or not the net needs it.
    """
    check_layers(net, file)
    check_inputs(net, file)
    check_memories(net, file)
    blobs = list(_blobs(net))
    means = [m.blob for m in net.pre_process.means if m.blob] if net.pre_process else []
    found = Weights(weights, bool(given or blobs or means))
    for layer, name in blobs:
        found.check(layer.blobs[name], name, layer.name)
    for blob in means:
        assert net.pre_process is not None
        found.check(blob, "mean", net.pre_process.layer)
    found.check_end([*(layer.blobs[name] for layer, name in blobs), *means])
    return found


def _blobs(net: Net) -> Iterator[tuple[LayerRecord, str]]:
    for layer in net.all_layers():
        for name in layer.blobs:
            yield layer, name


def check_layers(net: Net, file: str | None = None) -> None:
    """Check: known types, right numbers of ports, and all required attributes.

    Raises UnsupportedLayerError, naming all layers of unknown types, and ModelFormatError.
    """
    unknown: list[str] = []
    for layer in net.all_layers():
        found = known_type(layer.type)
        if found is None:
            unknown.append(f"{layer.type} (layer {layer.name!r})")
        elif problem := found.arity_problem(len(layer.inputs), len(layer.outputs)):
            raise ModelFormatError(f"{layer.type} {problem}", file=file, layer=layer.name)
        elif missing := missing_attributes(found.name, layer.attributes, len(layer.inputs)):
            problem = f"{layer.type} has no {' and no '.join(missing)}, which it must have"
            raise ModelFormatError(problem, file=file, layer=layer.name)
    if unknown:
        raise UnsupportedLayerError(unknown, file=file, remedy=TO_REGISTER)


def check_inputs(net: Net, file: str | None = None) -> None:
    """Check: ModelFormatError for input ports of the net itself that no edge leads to."""
    layers = net.by_id()
    for id_, port in body_inputs(net):
        if layers[id_].inputs:
            raise ModelFormatError(
                f"no edge leads to input port {port}", file=file, layer=layers[id_].name
            )
