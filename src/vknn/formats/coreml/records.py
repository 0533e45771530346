"""Networks and layers as the file states them; parameters stay the file's own messages."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: The blob that counts the random numbers drawn; no name in a file can hold this character.
COUNTER = "\0counter"


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One layer. ``type`` is the name of its parameters ("innerProduct"), ``params`` these.

    ``networks``: those inside, as far as it has them: the two branches, or a loop's condition and
    body. ``path``: where it stands, indices from the main network on.
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
        """What errors call it."""
        return f"layer {self.name!r} ({self.type})"

    @functools.cached_property
    def draws(self) -> bool:
        """Whether it draws random numbers that differ from run to run."""
        random = self.type.startswith("random") or self.type == "categoricalDistribution"
        return random and self.params.seed < 0


@dataclass(frozen=True, eq=False)
class NetworkRecord:
    """Layers in the order in which they run. Compared by identity."""

    layers: tuple[LayerRecord, ...]

    def all_layers(self) -> Iterator[LayerRecord]:
        """All layers, those of networks inside too."""
        for layer in self.layers:
            yield layer
            for network in layer.networks:
                if network is not None:
                    yield from network.all_layers()

    @functools.cached_property
    def reads(self) -> tuple[frozenset[str], ...]:
        """The blobs that may be read from each layer on; the last entry is what no layer reads."""
        found: list[frozenset[str]] = [frozenset()]
        for layer in reversed(self.layers):
            found.append(found[-1].union(*_read(layer)))
        return tuple(reversed(found))

    @functools.cached_property
    def writes(self) -> frozenset[str]:
        """The blobs that its layers may write."""
        return frozenset().union(*(blobs_written(layer) for layer in self.layers))


def conditions(layer: LayerRecord) -> tuple[str, ...]:
    """The blobs that decide what a layer of control flow does next."""
    variable = layer.params.conditionVar if layer.type == "loop" else ""
    return (*layer.inputs, variable) if variable else layer.inputs


def _read(layer: LayerRecord) -> Iterator[Iterable[str]]:
    yield conditions(layer)
    if layer.draws:
        yield (COUNTER,)
    for inner in layer.networks:
        if inner is not None:
            yield inner.reads[0]


def blobs_read(layer: LayerRecord) -> frozenset[str]:
    """The blobs that a layer, or one inside it, may read."""
    return frozenset().union(*_read(layer))


def blobs_written(layer: LayerRecord) -> frozenset[str]:
    """The blobs that a layer, or one inside it, may write."""
    inside = [inner.writes for inner in layer.networks if inner is not None]
    return frozenset(layer.outputs).union((COUNTER,) if layer.draws else (), *inside)
