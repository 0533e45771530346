"""Cases: graphs with the arrays of their inputs; stages of a model, parts and forms of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vknn import reference
from vknn.graph import Graph, Node, Op, TensorType, Value
from vknn.graph.graph import Arrays, unique_name
from vknn.partition import refine
from vknn.session import Session, engine_of

_SMALL = 1 << 20

Known = Mapping[Value, np.ndarray]


@dataclass(frozen=True, eq=False)
class GraphCase:
    """A graph without a continuation, and an array for each of its inputs, by name."""

    graph: Graph
    feeds: Mapping[str, np.ndarray]

    @cached_property
    def elements(self) -> int:
        """Elements of all tensors: inputs, constants and results (of known shape)."""
        return sum(v.type.size for v in self.graph.values() if v.type.is_static)

    @cached_property
    def known(self) -> Known:
        """Every value, as NumPy computes it."""
        found: dict[Value, np.ndarray] = {v: self.feeds[v.name] for v in self.graph.inputs}

        def keep(node: Node, results: tuple[np.ndarray, ...]) -> None:
            found.update(zip(node.outputs, results, strict=True))

        reference.run(self.graph, self.feeds, observe=keep)
        found.update((v, v.constant) for v in self.graph.values() if v.constant is not None)
        return found

    @property
    def arrays(self) -> dict[Value, np.ndarray]:
        """The arrays of inputs and constants by value."""
        found = {v: self.feeds[v.name] for v in self.graph.inputs}
        found.update((v, v.constant) for v in self.graph.values() if v.constant is not None)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of inputs and constants."""
        return sum(a.nbytes for a in self.arrays.values())

    @property
    def is_small(self) -> bool:
        """Whether compressing its arrays takes less time than trying it."""
        return self.nbytes <= _SMALL

    def part(self, nodes: Collection[Node]) -> GraphCase:
        """The case of some of the nodes; what the others make for them becomes recorded inputs."""
        kept = [node for node in self.graph.nodes if node in nodes]
        made = {v for node in kept for v in node.outputs}
        read = dict.fromkeys(v for n in kept for v in n.inputs if v is not None)
        entering = [v for v in read if v not in made and v.constant is None]
        inside = {v for n in kept for v in n.inputs}
        outside = {v for n in self.graph.nodes if n not in nodes for v in n.inputs}
        outside |= set(self.graph.outputs.values())
        leaving = [v for n in kept for v in n.outputs if v in outside or v not in inside]
        types = {v: TensorType.of(self.known[v]) for v in entering}
        graph = refine(kept, types, _named(leaving))
        graph.name = self.graph.name
        feeds: dict[str, np.ndarray] = {}
        for value, source in zip(graph.inputs, entering, strict=True):
            value.name = unique_name(value.name, set(feeds))
            feeds[value.name] = self.known[source]
        return GraphCase(graph, feeds)

    def changed(
        self, arrays: Mapping[Value, np.ndarray], ops: Mapping[Node, Op] | None = None
    ) -> GraphCase:
        """The case with other arrays for inputs and constants, and other operators of nodes.

        Raises whatever shape rules raise where they do not fit.
        """
        ops = ops or {}
        renewed: dict[Value, Value] = {}
        feeds: dict[str, np.ndarray] = {}
        for value, array in {**self.arrays, **arrays}.items():
            constant = None if value.constant is None else array
            renewed[value] = Value(value.name, TensorType.of(array), constant, value.quantization)
            if constant is None:
                feeds[value.name] = array
        nodes = []
        for node in self.graph.nodes:
            inputs = tuple(renewed[v] if v is not None else None for v in node.inputs)
            op = ops.get(node, node.op)
            types = op.infer(*(v.type if v is not None else None for v in inputs))
            outputs = tuple(
                Value(v.name, t, None, v.quantization)
                for v, t in zip(node.outputs, types, strict=True)
            )
            if any(t.is_static and t.size == 0 for t in types):
                raise ValueError("nothing is left")
            renewed.update(zip(node.outputs, outputs, strict=True))
            nodes.append(Node(op, inputs, outputs, node.name, node.origin))
        ends = {name: renewed[v] for name, v in self.graph.outputs.items()}
        inputs_ = [renewed[v] for v in self.graph.inputs]
        return GraphCase(Graph(inputs_, ends, nodes, self.graph.name), feeds)


def _named(values: Iterable[Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for value in values:
        found[unique_name(value.name, set(found))] = value
    return found


def stages(session: Session, feeds: Mapping[str, np.ndarray]) -> list[GraphCase]:
    """The case of a model; of one whose data decide how it goes on each graph that it comes to.

    The values between them are NumPy's.
    """
    engine = engine_of(session)
    graph, arrays = engine.graph(feeds), engine.encode(feeds)
    first = {v.name: arrays[v.name] for v in graph.inputs}
    found: list[GraphCase] = []
    _stage(graph, first, found)
    return [case for case in found if case.graph.nodes] or found[:1]


def _stage(graph: Graph, feeds: Arrays, found: list[GraphCase]) -> Arrays:
    """The outputs of a graph and of what follows it; adds the case of each."""
    plain = Graph(graph.inputs, graph.outputs, graph.nodes, graph.name)
    case = GraphCase(plain, feeds)
    found.append(case)
    if graph.continuation is None:
        return reference.run(plain, feeds) if len(found) > 1 else {}
    results = {name: case.known[v] for name, v in graph.outputs.items()}
    taken = {name: results.pop(name) for name in graph.continuation.takes}
    seen: dict[Hashable, Graph] = {}

    def call(key: Hashable, make: Callable[[], Graph], arrays: Mapping[str, np.ndarray]) -> Arrays:
        if key in seen:
            return reference.run(seen[key], arrays)
        seen[key] = make()
        return _stage(seen[key], dict(arrays), found)

    return results | graph.continuation.resume(taken, call)
