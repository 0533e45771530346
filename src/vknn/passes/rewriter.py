"""Rewriter: the sweep that every pass is made of, a graph rebuilt node by node, in order.

A rule sees each node after everything before it has been rewritten, so one sweep follows whole
chains. Graphs are never changed: a sweep makes new nodes and keeps those that stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from vknn.graph import Graph, Node, Op, Origin, TensorType, Value
from vknn.graph.graph import unique_name

#: Gives the values that take the place of the node's outputs, or None to keep the node.
Rule = Callable[["Rewriter", Node], "Sequence[Value] | None"]


class Rewriter:
    """A graph under reconstruction. Rules read it and add to it through its methods."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[Node, int] = {}  # to the place in the order of emission
        self._producers: dict[Value, Node] = {}
        self._mapping: dict[Value, Value] = {}
        self._names = {v.name for v in graph.values()} | {n.name for n in graph.nodes}
        self._uses: Counter[Value] = Counter(graph.outputs.values())
        for node in graph.nodes:
            self._uses.update(_present(node.inputs))

    def producer(self, value: Value | None) -> Node | None:
        """The node, as rewritten, that makes a value; None for inputs and constants."""
        return self._producers.get(value) if value is not None else None

    def sole_producer(self, value: Value | None) -> Node | None:
        """The producer, where the value is its one output and is read exactly once."""
        node = self.producer(value)
        alone = node is not None and len(node.outputs) == 1 and self._uses[node.outputs[0]] == 1
        return node if alone else None

    def is_output(self, value: Value) -> bool:
        """Whether a value is an output of the graph."""
        return any(self._final(v) is value for v in self._graph.outputs.values())

    def position(self, node: Node) -> int:
        """Place of a rewritten node in the order of the graph."""
        return self._nodes[node]

    def constant(self, array: np.ndarray, name: str = "constant") -> Value:
        """A new constant."""
        return Value(self._unique(name), TensorType.of(array), array)

    def emit(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        origin: Origin,
        replacing: Node | None = None,
    ) -> tuple[Value, ...]:
        """Addition of a node; gives its outputs.

        The outputs of ``replacing`` become the new node's outputs where their types still hold,
        so that names survive; without it they are named after ``origin``.
        """
        types = op.infer(*(v.type if v is not None else None for v in inputs))
        if replacing is not None and origin == replacing.origin:
            name = replacing.name
        else:
            name = self._unique(origin.name)
        if replacing is not None:
            outputs = self._typed(replacing.outputs, types)
        else:
            outputs = tuple(
                Value(name if i == 0 else self._unique(name), t) for i, t in enumerate(types)
            )
        self._append(Node(op, tuple(inputs), outputs, name, origin))
        return outputs

    def sweep(self, rule: Rule) -> Graph:
        """The graph after ``rule`` has seen every node; nodes that nothing reads now are gone."""
        for node in self._graph.nodes:
            current = self._with_mapped_inputs(node) if self._mapping else node
            read = any(self._uses[v] for v in node.outputs)
            replaced = rule(self, current) if read else ()
            results = self._keep(current) if replaced is None else tuple(replaced)
            if read and results != node.outputs:
                for old, new in zip(node.outputs, results, strict=True):
                    self._replace(old, new)
            if replaced is not None:
                self._release(current.inputs)
        outputs = {name: self._final(v) for name, v in self._graph.outputs.items()}
        return Graph(
            list(self._graph.inputs),
            outputs,
            list(self._nodes),
            self._graph.name,
            self._graph.continuation,
        )

    def _with_mapped_inputs(self, node: Node) -> Node:
        inputs = tuple(self._final(v) if v is not None else None for v in node.inputs)
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        return Node(node.op, inputs, node.outputs, node.name, node.origin)

    def _keep(self, node: Node) -> tuple[Value, ...]:
        outputs = node.outputs
        if not all(v.type.is_static for v in outputs):
            # A folded producer may have closed dimensions that used to depend on data.
            outputs = self._typed(outputs, node.op.infer(*node.input_types))
            node = Node(node.op, node.inputs, outputs, node.name, node.origin)
        self._place(node)  # its inputs are read once, as before
        return outputs

    def _typed(self, values: Sequence[Value], types: Sequence[TensorType]) -> tuple[Value, ...]:
        """The values where they have these types, new ones of like name where not."""
        return tuple(
            v if v.type == t else Value(self._unique(v.name), t, quantization=v.quantization)
            for v, t in zip(values, types, strict=True)
        )

    def _append(self, node: Node) -> None:
        self._place(node)
        self._uses.update(_present(node.inputs))

    def _place(self, node: Node) -> None:
        self._nodes[node] = len(self._producers)
        for value in node.outputs:
            self._producers[value] = node

    def _replace(self, old: Value, new: Value) -> None:
        if old is not new:
            self._uses[new] += self._uses.pop(old, 0)
            self._mapping[old] = new

    def _release(self, values: Iterable[Value | None]) -> None:
        """Takes back one read of each value and drops the nodes that nobody reads any more."""
        pending = _present(values)
        while pending:
            value = pending.pop()
            self._uses[value] -= 1
            node = self._producers.get(value)
            if node in self._nodes and not any(self._uses[v] for v in node.outputs):
                del self._nodes[node]
                pending += _present(node.inputs)

    def _final(self, value: Value) -> Value:
        while value in self._mapping:
            value = self._mapping[value]
        return value

    def _unique(self, stem: str) -> str:
        name = unique_name(stem, self._names)
        self._names.add(name)
        return name


def sweep(graph: Graph, rule: Rule, ops: tuple[type[Op], ...] = (Op,)) -> Graph:
    """``graph`` after one sweep of ``rule``; as it is where it has no op of the classes ``ops``."""
    if not any(isinstance(node.op, ops) for node in graph.nodes):
        return graph
    return Rewriter(graph).sweep(rule)


def merged(*origins: Origin) -> Origin:
    """The origin of a node that does the work of several layers, in their order."""
    distinct = list(dict.fromkeys(origins))
    return Origin("+".join(o.name for o in distinct), "+".join(o.type for o in distinct))


def _present(values: Iterable[Value | None]) -> list[Value]:
    return [v for v in values if v is not None]
