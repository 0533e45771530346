"""Layers of a model with the tensors between them, as profiles and pages list them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from vknn.graph.graph import Graph, Node, Origin, Value


def layers_of(graph: Graph, met: Sequence[Graph]) -> list[dict[str, Any]]:
    """The layers of a graph before any pass, then those that only the graphs ``met`` have."""
    layers = _layers(graph, graph.nodes)
    known = {node.origin.name for node in graph.nodes}
    for other in met:
        new = [n for n in other.nodes if not known.issuperset(apart((n.origin.name,), known))]
        layers += _layers(other, new)
        known |= {n.origin.name for n in new}
    return layers


def apart(names: Iterable[str], known: Collection[str]) -> list[str]:
    """Layers by the names of the file; passes join those of layers that they fuse by "+".

    A name that cannot be parted into names that are known stays as it is.
    """
    return list(dict.fromkeys(part for name in names for part in _apart(name, known)))


def _apart(name: str, known: Collection[str]) -> list[str]:
    if name in known or "+" not in name:
        return [name]
    # Names may hold a "+" themselves: at each place the longest that is known goes on.
    pieces, found, place = name.split("+"), [], 0
    while place < len(pieces):
        ends = range(len(pieces), place, -1)
        end = next((e for e in ends if "+".join(pieces[place:e]) in known), None)
        if end is None:
            return [name]
        found.append("+".join(pieces[place:end]))
        place = end
    return found


def _layers(graph: Graph, nodes: Iterable[Node]) -> list[dict[str, Any]]:
    groups: dict[Origin, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.origin, []).append(node)
    readers = graph.consumers()
    results = set(graph.outputs.values())
    return [_layer(origin, own, readers, results) for origin, own in groups.items()]


def _layer(
    origin: Origin, nodes: list[Node], readers: dict[Value, list[Node]], results: set[Value]
) -> dict[str, Any]:
    """A layer's nodes; tensors that only they see are left out."""
    inside = set(nodes)
    made = {v: None for n in nodes for v in n.outputs}
    read = {v: None for n in nodes for v in n.inputs if v is not None and v.constant is None}
    out = [v for v in made if v in results or not inside.issuperset(readers.get(v, ()))]
    return {
        "name": origin.name,
        "type": origin.type,
        "ops": [n.op.type_name for n in nodes],
        "inputs": [_tensor(v) for v in read if v not in made],
        "outputs": [_tensor(v) for v in out],
    }


def _tensor(value: Value) -> dict[str, Any]:
    # Dimensions that depend on data are None (DetectionOutput's boxes).
    return {"name": value.name, "shape": list(value.type.shape), "dtype": value.type.dtype.value}
