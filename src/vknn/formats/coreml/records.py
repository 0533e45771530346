"""Networks and layers as the file states them; parameters stay the file's own messages."""

from __future__ import annotations

from collections.abc import Iterator
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

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers that differ from run to run."""
        random = self.type.startswith("random") or self.type == "categoricalDistribution"
        return random and self.params.seed < 0


@dataclass(frozen=True, eq=False)
class NetworkRecord:
    """Layers in the order in which they run. Compared by identity."""

    layers: tuple[LayerRecord, ...]

    def everything(self) -> Iterator[LayerRecord]:
        """All layers, those of networks inside too."""
        for layer in self.layers:
            yield layer
            for network in layer.networks:
                if network is not None:
                    yield from network.everything()


def conditions(layer: LayerRecord) -> tuple[str, ...]:
    """The blobs that decide what a layer of control flow does next."""
    variable = layer.params.conditionVar if layer.type == "loop" else ""
    return (*layer.inputs, variable) if variable else layer.inputs


def read_by(network: NetworkRecord, start: int = 0) -> set[str]:
    """The blobs that the layers from ``start`` on may read."""
    found: set[str] = set()
    for layer in network.layers[start:]:
        found.update(conditions(layer))
        if layer.draws:
            found.add(COUNTER)
        for inner in layer.networks:
            if inner is not None:
                found |= read_by(inner)
    return found


def written_by(network: NetworkRecord) -> set[str]:
    """The blobs that its layers may write."""
    found: set[str] = set()
    for layer in network.everything():
        found.update(layer.outputs)
        if layer.draws:
            found.add(COUNTER)
    return found
