"""Checks of a network's blobs: each is produced once, before it is read; the network's outputs."""

from __future__ import annotations

from vknn.errors import ModelFormatError
from vknn.formats.ncnn.records import LayerRecord, NetRecord


def check_blobs(net: NetRecord, file: str | None = None) -> None:
    """Check: ModelFormatError unless each blob is produced once, and before any layer reads it."""
    all_blobs = set(net.blobs())
    producers: dict[str, str] = {}
    for layer in net.layers:
        for name in layer.bottoms:
            if name not in producers:
                raise _error(layer, file, _why_missing(name, layer, name in all_blobs))
        for name in layer.tops:
            if name in producers:
                message = f"blob {name!r} is produced twice, before by layer {producers[name]!r}"
                raise _error(layer, file, message)
            producers[name] = layer.name


def _why_missing(blob: str, layer: LayerRecord, later: bool) -> str:
    if blob in layer.tops:
        return f"reads its own output {blob!r} (a cycle)"
    if later:
        return f"reads blob {blob!r}, which is produced only later (a cycle or a wrong order)"
    return f"reads blob {blob!r}, which no layer produces"


def _error(layer: LayerRecord, file: str | None, message: str) -> ModelFormatError:
    return ModelFormatError(message, file=file, offset=layer.offset, layer=layer.name)


def output_blobs(net: NetRecord) -> list[str]:
    """Outputs of the network: blobs that no layer reads, in order of production."""
    read = {name for layer in net.layers for name in layer.bottoms}
    return [name for name in net.blobs() if name not in read]
