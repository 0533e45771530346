"""Topological order of a net's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

from vknn.formats.openvino.records import LayerRecord, PortRef
from vknn.formats.topological_sort import topological_sort


class Fail(Protocol):
    """A function that raises the error for a file that contradicts itself."""

    def __call__(self, message: str, layer: str | None = None) -> NoReturn: ...


def topological_order(
    layers: Sequence[LayerRecord], sources: Mapping[PortRef, PortRef], fail: Fail
) -> tuple[LayerRecord, ...]:
    """The layers, each after those that feed it, otherwise in the order of the file.

    Calls ``fail``, naming the layers, where edges make a circle.
    """
    position = {layer.id: number for number, layer in enumerate(layers)}
    waits = [0] * len(layers)
    readers: list[list[int]] = [[] for _ in layers]
    for (target, _), (source, _) in sources.items():
        waits[position[target]] += 1
        readers[position[source]].append(position[target])
    ordered = tuple(layers[number] for number in topological_sort(waits, readers))
    if len(ordered) < len(layers):
        stuck = _circle(layers, sources, {layers[i].id for i, n in enumerate(waits) if n})
        names = ", ".join(repr(layer.name) for layer in stuck[:8])
        more = f" and {len(stuck) - 8} more" if len(stuck) > 8 else ""
        fail(f"the layers {names}{more} feed one another in a circle")
    return ordered


def _circle(
    layers: Sequence[LayerRecord], sources: Mapping[PortRef, PortRef], stuck: set[int]
) -> list[LayerRecord]:
    """The layers of a circle, found by walking back from a layer that waits for another."""
    feeds = {t: s for (t, _), (s, _) in sources.items() if t in stuck and s in stuck}
    by_id = {layer.id: layer for layer in layers}
    at = next(iter(feeds))
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        at = feeds[at]
    return [by_id[i] for i in reversed(seen[seen.index(at) :])]
