"""Reader of <pre-process>: means that are subtracted from an input."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.formats.openvino.elements import ElementReader
from vknn.formats.openvino.records import LayerRecord, Mean, PreProcess
from vknn.formats.openvino.value_parsing import parse_float
from vknn.formats.openvino.xml import Element, integer


def read_pre_process(
    reader: ElementReader, net: Element, layers: Sequence[LayerRecord]
) -> PreProcess | None:
    """The means of a net, or None. Scales are ignored, as OpenVINO ignores them."""
    element = net.first("pre-process")
    if element is None or not (channels := list(element.all("channel"))):
        return None
    layer = _reference(reader, element, layers)
    means: dict[int, Mean | None] = {}
    for channel in channels:
        given = channel.attributes.get("id")
        number = len(means) if given is None else integer(given)
        if number is None or number in means or not 0 <= number < len(channels):
            reader.fail(f"<pre-process> has the channel {str(given)[:40]!r} of {len(channels)}")
        means[number] = _mean(reader, element, channel, layer)
    found = [mean for _, mean in sorted(means.items()) if mean is not None]
    if not found:
        return None
    wanted = layer.outputs[0].dims[1]
    if len(found) != len(means) or len(found) != wanted:
        reader.fail(
            f"<pre-process> has means for {len(found)} channels of the input's {wanted}", layer.name
        )
    return PreProcess(layer.name, tuple(found))


def _reference(
    reader: ElementReader, element: Element, layers: Sequence[LayerRecord]
) -> LayerRecord:
    """The Input layer that is named, else the first of rank 4, else the first of 2 or more."""
    inputs = [layer for layer in layers if layer.type.lower() == "input" and layer.outputs]
    name = element.attributes.get("reference-layer-name", "")
    if name:
        found = [layer for layer in inputs if layer.name == name]
    else:
        found = [layer for layer in inputs if len(layer.outputs[0].dims) == 4]
        found = found or [layer for layer in inputs if len(layer.outputs[0].dims) > 1]
    if not found:
        reader.fail(f"<pre-process> is meant for {name[:80]!r}, which is no Input layer")
    if len(found[0].outputs[0].dims) < 2:
        reader.fail("<pre-process> is meant for an input without channels", found[0].name)
    return found[0]


def _mean(
    reader: ElementReader, element: Element, channel: Element, layer: LayerRecord
) -> Mean | None:
    mean = channel.first("mean")
    if mean is None or not ({"value", "offset"} & set(mean.attributes)):
        return None
    if "value" in mean.attributes:
        value = parse_float(mean.attributes["value"])
        if value is None or not math.isfinite(value):
            reader.fail(f"<mean> has the value {mean.attributes['value'][:40]!r}", layer.name)
        return Mean(value)
    stated = Element("pre-process", {"precision": element.attributes.get("mean-precision", "")})
    blob = reader.blob(mean, reader.precision_of(stated, "FP32", layer.name), layer.name)
    return Mean(blob=blob)
