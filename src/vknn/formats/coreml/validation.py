"""Checks without shapes: known layers, numbers of inputs and outputs, blobs made before use."""

from __future__ import annotations

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.coreml.control_flow import CONTROL, has_condition
from vknn.formats.coreml.custom import known_type
from vknn.formats.coreml.records import LayerRecord, NetworkRecord
from vknn.formats.custom import TO_REGISTER
from vknn.formats.layer_table import Arity, count_problem

_CONTROL_INPUTS: dict[str, Arity] = {
    "branch": (1, 1),
    "loop": (0, 1),
    "loopBreak": (0, 0),
    "loopContinue": (0, 0),
}


def check_layers(network: NetworkRecord, file: str | None = None) -> None:
    """Check: UnsupportedLayerError, naming all unknown layers, or ModelFormatError."""
    unknown = []
    for layer in network.all_layers():
        if layer.type in CONTROL:
            _check_control(layer, file)
            continue
        found = known_type(layer)
        if found is None:
            unknown.append(_unknown(layer))
        elif problem := found.arity_problem(len(layer.inputs), len(layer.outputs)):
            raise ModelFormatError(f"{layer.type} {problem}", file=file, layer=layer.name)
    if unknown:
        raise UnsupportedLayerError(list(dict.fromkeys(unknown)), file=file, remedy=TO_REGISTER)


def _unknown(layer: LayerRecord) -> str:
    if layer.type == "custom":
        return f"{layer.place}: the custom layer {layer.params.className!r} is not registered"
    return layer.place


def _check_control(layer: LayerRecord, file: str | None) -> None:
    problem = count_problem(
        len(layer.inputs), _CONTROL_INPUTS[layer.type], "inputs"
    ) or count_problem(len(layer.outputs), (0, 0), "outputs")
    if problem:
        problem = f"{layer.type} {problem}"
    elif layer.type == "branch" and layer.networks[0] is None:
        problem = "a branch without an ifBranch"
    elif layer.type == "loop" and layer.networks[1] is None:
        problem = "a loop without a bodyNetwork"
    elif layer.type == "loop" and has_condition(layer) and not layer.params.conditionVar:
        problem = "a loop with a conditionNetwork, but without a conditionVar"
    if problem:
        raise ModelFormatError(problem, file=file, layer=layer.name)


def check_blobs(
    network: NetworkRecord, inputs: set[str], outputs: dict[str, str], file: str | None = None
) -> None:
    """Check: ModelFormatError for blobs that are read but written on no path to the reader.

    ``outputs``: blob -> what it is for, for those needed at the end. Within one network no blob is
    written twice but by copy layers.
    """
    made = _made(network, set(inputs), file)
    for blob, purpose in outputs.items():
        if blob not in made:
            raise ModelFormatError(f"no layer makes {blob!r}, {purpose}", file=file)
    _check_single(network, inputs, file)


def _made(network: NetworkRecord, made: set[str], file: str | None) -> set[str]:
    """The blobs that may exist after the network: ``made``, those before it, with its own added."""
    for layer in network.layers:
        for blob in layer.inputs:
            if blob not in made:
                raise ModelFormatError(
                    f"it reads {blob!r}, which nothing has made before", file=file, layer=layer.name
                )
        # Blobs of either branch count, and those of a loop even if it may run no iteration.
        behind = [_made(n, set(made), file) for n in layer.networks[:1] if n is not None]
        start = behind[0] if layer.type == "loop" and behind else made
        behind += [_made(n, set(start), file) for n in layer.networks[1:] if n is not None]
        made.update(*behind, layer.outputs)
        if layer.type == "loop" and has_condition(layer) and layer.params.conditionVar not in made:
            raise ModelFormatError(
                f"nothing makes its condition {layer.params.conditionVar!r}", file=file,
                layer=layer.name,
            )  # fmt: skip
    return made


def _check_single(network: NetworkRecord, inputs: set[str], file: str | None) -> None:
    made = set(inputs)
    for layer in network.layers:
        twice = made.intersection(layer.outputs)
        if twice and layer.type != "copy":
            message = f"it writes {min(twice)!r}, which is there already; only copy may"
            raise ModelFormatError(message, file=file, layer=layer.name)
        made.update(layer.outputs)
        for inner in layer.networks:
            if inner is not None:
                _check_single(inner, set(), file)
