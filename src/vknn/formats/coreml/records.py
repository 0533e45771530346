"""Records of networks and layers; parameters stay messages of the file."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: The blob that counts the random numbers drawn; no name in a file can hold this character.
COUNTER = "\0counter"
#: Positions in a network whose blobs are kept: a set for each of many would take far more than the
#: file.
_KEPT_POSITIONS = 64


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """A layer. ``type``: the name of its parameters ("innerProduct"); ``params``: their message.

    ``networks``: of a branch the two branches, of a loop the condition and the body. ``path``: its
    position, as indices from the main network on.
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Any
    message: Any
    networks: tuple[NetworkRecord | None, ...] = ()
    path: tuple[int, ...] = ()

    @property
    def place(self) -> str:
        """The layer's name and type for errors."""
        return f"layer {self.name!r} ({self.type})"

    @functools.cached_property
    def draws(self) -> bool:
        """Whether the layer draws random numbers that differ from run to run."""
        random = self.type.startswith("random") or self.type == "categoricalDistribution"
        return random and self.params.seed < 0


@dataclass(frozen=True, eq=False)
class NetworkRecord:
    """Layers in the order in which they run. Compared by identity."""

    layers: tuple[LayerRecord, ...]

    def all_layers(self) -> Iterator[LayerRecord]:
        """All layers, those of inner networks included."""
        for layer in self.layers:
            yield layer
            for network in layer.networks:
                if network is not None:
                    yield from network.all_layers()

    def read_from(self, position: int) -> frozenset[str]:
        """The blobs that the layer at ``position`` and later ones may read."""
        known = self._read_from
        found = known.get(position)
        if found is None:
            last = self._last_reads.items()
            found = frozenset(blob for blob, number in last if number >= position)
            if len(known) >= _KEPT_POSITIONS:
                known.clear()
            known[position] = found
        return found

    @functools.cached_property
    def _read_from(self) -> dict[int, frozenset[str]]:
        return {}

    @functools.cached_property
    def _last_reads(self) -> dict[str, int]:
        """Blob -> the number of the last layer that may read it."""
        found: dict[str, int] = {}
        for number, layer in enumerate(self.layers):
            found.update(dict.fromkeys(blobs_read(layer), number))
        return found

    @functools.cached_property
    def writes(self) -> frozenset[str]:
        """The blobs that the layers may write."""
        return frozenset().union(*(blobs_written(layer) for layer in self.layers))


def conditions(layer: LayerRecord) -> tuple[str, ...]:
    """The blobs on which the next step of a control flow layer depends."""
    variable = layer.params.conditionVar if layer.type == "loop" else ""
    return (*layer.inputs, variable) if variable else layer.inputs


def _read(layer: LayerRecord) -> Iterator[Iterable[str]]:
    yield conditions(layer)
    if layer.draws:
        yield (COUNTER,)
    for inner in layer.networks:
        if inner is not None:
            yield inner.read_from(0)


def blobs_read(layer: LayerRecord) -> frozenset[str]:
    """The blobs that a layer, or one inside it, may read."""
    return frozenset().union(*_read(layer))


def blobs_written(layer: LayerRecord) -> frozenset[str]:
    """The blobs that a layer, or one inside it, may write."""
    inside = [inner.writes for inner in layer.networks if inner is not None]
    return frozenset(layer.outputs).union((COUNTER,) if layer.draws else (), *inside)
