"""Reader of .xml: elements -> records, with checks of all ids, sizes, offsets and shapes.

Only the structure is checked here; converters of layers check the attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from vknn.errors import ModelFormatError
from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.openvino.elements import MAX_RANK, ElementReader
from vknn.formats.openvino.iteration import read_iteration
from vknn.formats.openvino.preprocess import read_pre_process
from vknn.formats.openvino.records import (
    STORED,
    Blob,
    LayerPort,
    LayerRecord,
    Net,
    PortRef,
)
from vknn.formats.openvino.topological_order import topological_order
from vknn.formats.openvino.xml import Element, integer, parse

VERSIONS = range(2, 10)


def parse_net(data: bytes, file: str | None = None) -> Net:
    """The net in the bytes of a .xml. Raises ModelFormatError."""
    try:
        root = parse(data)
    except ModelFormatError as error:
        raise ModelFormatError(str(error), file=file) from None
    if root.tag != "net":
        message = f"the root element is <{root.tag[:40]}>, not <net>: this is no OpenVINO IR"
        raise ModelFormatError(message, file=file)
    reader = ElementReader(file, "FP32")
    version = _version(reader, root)
    precision = reader.precision_of(root, "FP32")
    return read_net(ElementReader(file, precision), root, version)


def _version(reader: ElementReader, root: Element) -> int:
    text = root.attributes.get("version")
    if text is None:
        reader.fail("<net> has no version")
    version = integer(text)
    if version is None or version < 1:
        reader.fail(f"<net> has the version {text[:40]!r}")
    if version < VERSIONS.start:
        reader.fail(f"this is OpenVINO IR version {version}; vknn reads versions 2 to 7")
    if version not in VERSIONS:
        reader.fail(
            f"this is OpenVINO IR version {version}, which holds operations of opsets; vknn reads "
            "the layers of versions 2 to 7: write them with the Model Optimizer of OpenVINO 2019 "
            "(2020's with its option generate_deprecated_IR_V7), or convert the network that it "
            "was made of to ONNX, ncnn (pnnx) or TensorFlow Lite"
        )
    return version


def read_net(reader: ElementReader, element: Element, version: int) -> Net:
    """The net of a <net> or <body> element."""
    listed = element.first("layers")
    if listed is None:
        reader.fail(f"<{element.tag}> has no <layers>")
    layers = [_layer(reader, e, version) for e in listed.all("layer")]
    if not layers:
        reader.fail(f"<{element.tag}> has no layers")
    _check_unique(reader, layers)
    by_id = {layer.id: layer for layer in layers}
    sources = _edges(reader, element.first("edges"), by_id)
    ordered = topological_order(layers, sources, reader.fail)
    name = element.attributes.get("name", "") or "openvino"
    pre_process = read_pre_process(reader, element, ordered) if element.tag == "net" else None
    return Net(name, version, ordered, sources, pre_process)


def _check_unique(reader: ElementReader, layers: Iterable[LayerRecord]) -> None:
    ids: set[int] = set()
    names: set[str] = set()
    for layer in layers:
        if layer.id in ids:
            reader.fail(f"two layers have the id {layer.id}", layer.name)
        if layer.name in names:
            reader.fail("two layers have this name", layer.name)
        ids.add(layer.id)
        names.add(layer.name)


def _layer(reader: ElementReader, element: Element, version: int) -> LayerRecord:
    id_ = reader.number(element, "id")
    name = element.attributes.get("name") or f"layer {id_}"
    type_ = element.attributes.get("type", "")
    if not type_:
        reader.fail("has no type", name)
    if element.attributes.get("version", "").startswith("opset"):
        reader.fail(
            f"is {type_} of {element.attributes['version'][:40]}: operations of opsets belong to "
            "OpenVINO IR version 10 and later, vknn reads versions 2 to 7",
            name,
        )
    precision = reader.precision_of(element, reader.precision, name)
    ports = {
        tag: _ports(reader, element.ports(tag), precision, name) for tag in ("input", "output")
    }
    iteration = None
    if type_.lower() == "tensoriterator":
        iteration = read_iteration(reader, element, precision, version, name, read_net)
    return LayerRecord(
        id_, name, type_, precision, _attributes(element), ports["input"], ports["output"],
        _blobs(reader, element, precision, ports["output"], name), iteration,
    )  # fmt: skip


def _attributes(element: Element) -> Mapping[str, str]:
    """The attributes of <data>, which the first versions call <convolution_data> and the like."""
    found: dict[str, str] = {}
    for child in element.children:
        if child.tag == "data" or child.tag.endswith("_data"):
            found.update(child.attributes)
    return found


def _ports(
    reader: ElementReader, elements: Iterable[Element], precision: str, layer: str
) -> tuple[LayerPort, ...]:
    ports: dict[int, LayerPort] = {}
    for child in elements:
        id_ = reader.number(child, "id", layer)
        if id_ in ports:
            reader.fail(f"two ports have the id {id_}", layer)
        dims = tuple(_dim(reader, d, layer) for d in child.all("dim"))
        if len(dims) > MAX_RANK:
            reader.fail(f"port {id_} has {len(dims)} dims", layer)
        if math.prod(dims) >= MAX_ELEMENTS:
            reader.fail(f"port {id_} of shape {list(dims)} is absurdly large", layer)
        ports[id_] = LayerPort(id_, dims, reader.precision_of(child, precision, layer))
    return tuple(ports[i] for i in sorted(ports))


def _dim(reader: ElementReader, element: Element, layer: str) -> int:
    value = integer(element.text)
    if value is None or value < 1:
        reader.fail(f"{element.text.strip()[:40]!r} is no dim", layer)
    return value


def _blobs(
    reader: ElementReader,
    element: Element,
    precision: str,
    outputs: tuple[LayerPort, ...],
    layer: str,
) -> Mapping[str, Blob]:
    """Blobs in <blobs>, or <weights> and <biases> in the layer, as in the first versions."""
    default = outputs[0].precision if outputs else precision
    found: dict[str, Blob] = {}
    listed = element.first("blobs")
    children = [e for e in element.children if e.tag in ("weights", "biases", "custom")]
    for child in (*children, *(listed.children if listed is not None else ())):
        if child.tag in found:
            reader.fail(f"has two blobs {child.tag[:40]!r}", layer)
        blob = reader.blob(child, default, layer)
        if blob.precision not in STORED:
            reader.fail(f"the blob {child.tag!r} is {blob.precision}", layer)
        found[child.tag] = blob
    return found


def _edges(
    reader: ElementReader, element: Element | None, layers: Mapping[int, LayerRecord]
) -> Mapping[PortRef, PortRef]:
    sources: dict[PortRef, PortRef] = {}
    for edge in element.all("edge") if element is not None else ():
        ends = [reader.number(edge, name) for name in ("from-layer", "from-port")]
        source = (ends[0], ends[1])
        ends = [reader.number(edge, name) for name in ("to-layer", "to-port")]
        target = (ends[0], ends[1])
        made = _end(reader, layers, source, "outputs")
        read = _end(reader, layers, target, "inputs")
        name = layers[target[0]].name
        if target in sources:
            reader.fail(f"two edges lead to input port {target[1]}", name)
        if made.dims != read.dims:
            reader.fail(
                f"input port {read.id} of shape {list(read.dims)} is fed by layer "
                f"{layers[source[0]].name!r}, port {made.id}, of shape {list(made.dims)}",
                name,
            )
        sources[target] = source
    return sources


def _end(
    reader: ElementReader, layers: Mapping[int, LayerRecord], ref: PortRef, side: str
) -> LayerPort:
    """The port at one end of an edge."""
    layer = layers.get(ref[0])
    if layer is None:
        reader.fail(f"an edge names the layer {ref[0]}, which does not exist")
    ports = layer.outputs if side == "outputs" else layer.inputs
    for port in ports:
        if port.id == ref[1]:
            return port
    what = "output" if side == "outputs" else "input"
    return reader.fail(f"an edge names {what} port {ref[1]}, which does not exist", layer.name)
