"""Layout assignment: one candidate for each node, so that kernels plus repacks cost least.

Choosing is a labelling problem on the graph. A forward greedy pass gives a start (each node knows
its producers' layouts), then sweeps change one node at a time, looking both ways, until nothing
gets better. On the networks that exist in practice (long runs in one layout) that finds the
assignment with the fewest repacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vknn.graph import Graph, Node, Value
from vknn.lowering.choose.concat_inplace import PartCosts
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.layouts import Layout, same_bytes, storage_bytes
from vknn.lowering.kit.machine import Machine
from vknn.ops.elementwise import Fused

MAX_SWEEPS = 4


def wanted_layouts(node: Node, candidate: Candidate) -> list[tuple[Value, Layout]]:
    """The values that a candidate reads from buffers, each with the layout it wants."""
    operands = node.op.operand_count if isinstance(node.op, Fused) else 0
    base = node.inputs[: len(node.inputs) - operands]
    pairs = [
        (value, layout)
        for value, layout in zip(base, candidate.inputs, strict=True)
        if value is not None and layout is not None
    ]
    # An epilogue's operands are read with the output's own indices, so they share its layout.
    extra = node.inputs[len(base) :]
    return pairs + [(v, candidate.outputs[0]) for v in extra if v is not None]


def repack_cost(value: Value, have: Layout, want: Layout, machine: Machine) -> float:
    """Repack cost in estimated microseconds, from one layout to the other."""
    if value.constant is not None or same_bytes(value.type, have, want):
        return 0.0
    moved = storage_bytes(value.type, have) + storage_bytes(value.type, want)
    return machine.dispatch + moved * machine.byte


class _Assignment:
    def __init__(
        self, graph: Graph, options: Mapping[Node, Sequence[Candidate]], machine: Machine
    ) -> None:
        self.options, self.machine = options, machine
        self.producer = {v: (n, i) for n in graph.nodes for i, v in enumerate(n.outputs)}
        self.read = set(graph.consumers())
        self.results = set(graph.outputs.values())
        self.parts = PartCosts(graph, options)
        self.choice: dict[Node, Candidate] = {}
        self._wants: dict[tuple[Node, Candidate], list[tuple[Value, Layout]]] = {}
        #: How often readers that have a candidate want a value in a layout.
        self._wanted: dict[Value, dict[Layout, int]] = {}

    def choose(self, node: Node, candidate: Candidate) -> None:
        """Choice of a candidate in place of the node's former one."""
        before = self.choice.get(node)
        if before is candidate:
            return
        self.choice[node] = candidate
        if before is not None:
            self._count(node, before, -1)
        self._count(node, candidate, 1)

    def _count(self, node: Node, candidate: Candidate, change: int) -> None:
        for value, layout in self.wants(node, candidate):
            counts = self._wanted.setdefault(value, {})
            counts[layout] = counts.get(layout, 0) + change

    def layout_of(self, value: Value) -> Layout:
        made = self.producer.get(value)
        if made is None or made[0] not in self.choice:
            return Layout.LINEAR
        return self.choice[made[0]].outputs[made[1]]

    def wants(self, node: Node, candidate: Candidate) -> list[tuple[Value, Layout]]:
        key = (node, candidate)
        if key not in self._wants:
            self._wants[key] = wanted_layouts(node, candidate)
        return self._wants[key]

    def needed(self, value: Value) -> set[Layout]:
        """Layouts in which readers that have a candidate already want the value."""
        layouts = {Layout.LINEAR} if value in self.results else set()
        counts = self._wanted.get(value, {})
        return layouts | {layout for layout, count in counts.items() if count}

    def cost_around(self, node: Node, candidate: Candidate) -> float:
        """Cost of the candidate and of all repacks and copies of values that the node touches."""
        self.choose(node, candidate)
        touched = {v for v in node.inputs if v is not None} | set(node.outputs)
        repacks = sum(
            repack_cost(v, self.layout_of(v), want, self.machine)
            for v in touched
            for want in self.needed(v)
        )
        return candidate.cost + repacks - self.parts.saved_around(node, self.choice)

    def total(self) -> float:
        """Cost of all candidates that are chosen, of repacks, and of the fill of counters."""
        costs = sum(c.cost for c in self.choice.values())
        repacks = sum(
            repack_cost(v, self.layout_of(v), want, self.machine)
            for v in {*self.producer, *self.read}
            for want in self.needed(v)
        )
        fill = self.machine.fill if any(c.counts for c in self.choice.values()) else 0.0
        saved = sum(self.parts.saved(node, self.choice) for node in self.choice)
        return costs + repacks + fill - saved

    def best(self, node: Node) -> Candidate:
        offers = self.options[node]
        if len(offers) == 1:
            return offers[0]
        return min(offers, key=lambda c: self.cost_around(node, c))


def _distinct(offers: Sequence[Candidate]) -> list[Candidate]:
    """Candidates without those that another of the same layouts is cheaper than."""
    best: dict[object, Candidate] = {}
    for candidate in offers:
        kind: object = (candidate.inputs, candidate.outputs, candidate.view, candidate.view_offset)
        if candidate.parts:
            kind = id(candidate)
        if kind not in best or candidate.cost < best[kind].cost:
            best[kind] = candidate
    return list(best.values())


def assign(
    graph: Graph,
    options: Mapping[Node, Sequence[Candidate]],
    machine: Machine,
    *,
    together: bool = True,
) -> dict[Node, Candidate]:
    """A candidate for every node of the graph; each node must have at least one in ``options``.

    ``together=False`` ("layouts" in VKNN_DISABLE): the cheapest of each node by itself, whatever
    repacks come of it.
    """
    if not together:
        return {node: min(offers, key=lambda c: c.cost) for node, offers in options.items()}
    found = _assigned(graph, options, machine)
    if any(c.counts for c in found.choice.values()):
        # One fill clears the counters of all nodes: it has to pay for all that count together.
        plain = {n: [c for c in offers if not c.counts] or offers for n, offers in options.items()}
        without = _assigned(graph, plain, machine)
        found = min(found, without, key=lambda state: state.total())
    return found.choice


def _assigned(
    graph: Graph, options: Mapping[Node, Sequence[Candidate]], machine: Machine
) -> _Assignment:
    """The cheapest candidates that are found, whatever counters cost."""
    options = {node: _distinct(offers) for node, offers in options.items()}
    state = _Assignment(graph, options, machine)
    for node in graph.nodes:
        state.choose(node, state.best(node))
    for _ in range(MAX_SWEEPS):
        changed = False
        for node in graph.nodes:
            if len(options[node]) < 2:
                continue
            before = state.choice[node]
            now = state.cost_around(node, before)
            best = state.best(node)
            better = state.cost_around(node, best) < now - 1e-9
            state.choose(node, best if better else before)
            changed |= better
        if not changed:
            break
    return state
