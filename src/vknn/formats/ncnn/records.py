"""Records: the layers of a network as its file states them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field


class Bits(int):
    """A 32-bit word of a .param.bin as a signed int; the layer knows if it is that of a float."""

    def as_float(self) -> float:
        """The float32 with these bits."""
        return float(struct.unpack("<f", struct.pack("<i", self))[0])


#: A number, a string (such as a shape expression), or an array of numbers.
ParamValue = int | float | str | tuple[int | float, ...]

#: Ids that any layer may have: shapes of the outputs (hints, often out of date), a feature mask.
SHAPE_HINTS, FEATURE_MASK = 30, 31
MAX_PARAM_ID = 31


@dataclass(frozen=True)
class LayerRecord:
    """One layer. ``offset``: its byte position in the file, or None without a file."""

    type: str
    name: str
    bottoms: tuple[str, ...] = ()
    tops: tuple[str, ...] = ()
    params: Mapping[int, ParamValue] = field(default_factory=dict)
    offset: int | None = None


@dataclass(frozen=True)
class NetRecord:
    """A network: all layers in file order."""

    layers: tuple[LayerRecord, ...]

    def blobs(self) -> list[str]:
        """Names of all blobs in order of production."""
        return [top for layer in self.layers for top in layer.tops]
