"""A network as its file states it, free of any file syntax."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field


class Bits(int):
    """32 bits of a .param.bin as a signed int; the layer decides whether they are a float's."""

    def as_float(self) -> float:
        """The number whose bits these are as a float32."""
        return float(struct.unpack("<f", struct.pack("<i", self))[0])


#: A number, a string (expressions), or an array of numbers.
ParamValue = int | float | str | tuple[int | float, ...]

#: Ids that every layer may carry: shapes of the outputs (hints, often stale) and a feature mask.
SHAPE_HINTS, FEATURE_MASK = 30, 31
MAX_PARAM_ID = 31


@dataclass(frozen=True)
class LayerRecord:
    """One layer. ``offset`` is its byte position in the file, where it came from one."""

    type: str
    name: str
    bottoms: tuple[str, ...] = ()
    tops: tuple[str, ...] = ()
    params: Mapping[int, ParamValue] = field(default_factory=dict)
    offset: int | None = None


@dataclass(frozen=True)
class NetRecord:
    """All layers in file order."""

    layers: tuple[LayerRecord, ...]

    def blobs(self) -> list[str]:
        """Names of all blobs in order of production."""
        return [top for layer in self.layers for top in layer.tops]
