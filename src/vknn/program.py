"""A compiled graph: plans, host steps and their order.

The one place where planning and running take turns. A graph is cut into segments: runs of nodes
that the device can do (one plan each) and runs of nodes that only the host can (their references).
Where a shape depends on data, the nodes behind it wait: their part of the graph is compiled when
the shape is known, and kept by the shapes that came of it. Loops, branches and computed shapes are
the graph's ``rest``, which has programs of its own made here as it asks for them. A network without
such nodes is one segment, one plan, one recorded run.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn import debug, reference
from vknn.graph import Graph, Node, TensorType, Value
from vknn.graph.graph import unique_name
from vknn.lowering import LoweringOptions, WeightCache, candidates, lower
from vknn.lowering.choose.split_weights import split_columns
from vknn.lowering.kit.candidate import Candidate
from vknn.ops.elementwise import Fused
from vknn.passes.fusion import unfuse
from vknn.plan import Plan
from vknn.runtime import Device, Executable, WeightPool

#: Continuations kept for different shapes of data-dependent tensors.
MAX_CONTINUATIONS = 16


@dataclass(eq=False)
class Target:
    """Where device segments run, and what their plans share. ``device`` None: all on the host.

    ``debug``: the level of VKNN_DEBUG. ``prepare`` checks and rewrites a graph before it is
    compiled.
    """

    device: Device | None = None
    options: LoweringOptions = field(default_factory=LoweringOptions)
    weights: WeightCache = field(default_factory=WeightCache)
    pool: WeightPool | None = None
    debug: int = 0
    prepare: Callable[[Graph], Graph] = lambda graph: graph


@dataclass(eq=False)
class Segment:
    """Nodes that run together. ``plan`` and ``executable`` are None on the host.

    ``names`` gives the port names of the values that enter and leave.
    """

    graph: Graph
    outputs: tuple[Value, ...]
    plan: Plan | None = None
    executable: Executable | None = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results by port name, for arrays by port name."""
        if self.executable is not None:
            return self.executable.run(feeds)
        return reference.run(self.graph, feeds)


Execute = Callable[[Segment, dict[str, np.ndarray]], dict[str, np.ndarray]]


class Program:
    """A graph made ready to run on a target. Close it to free its device memory."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self._target = target
        self._execute: Execute = debug.traced(target.debug) if target.debug else Segment.run
        self._offers: dict[Node, list[Candidate]] = {}
        self.graph = graph = self._taken_apart(graph)
        _name_apart(graph)
        #: Seconds spent on plans, and on pipelines, weights and command buffers.
        self.timings = {"plan": 0.0, "prepare": 0.0}
        self._lock = threading.RLock()
        self._rest_cache: OrderedDict[Hashable, Program] = OrderedDict()
        ready, self._deferred = _split_static(graph.nodes)
        on_device = {n for n in ready if self._device_can(n)}
        self.placement: dict[Node, str] = {
            n: "vulkan" if n in on_device else "host" for n in graph.nodes
        }
        needed = set(graph.outputs.values())
        needed |= {v for n in self._deferred for v in n.inputs if v is not None}
        if target.debug >= debug.VALUES:
            needed |= {v for n in ready for v in n.outputs}
        groups = _group(ready, on_device)
        self.segments: list[Segment] = []
        try:
            for number, nodes in enumerate(groups):
                self.segments.append(self._segment(nodes, number, groups, needed))
        except BaseException:
            self.close()
            raise
        self._offers.clear()

    @property
    def plans(self) -> list[Plan]:
        """The plans of the device segments, in order (without those of continuations)."""
        return [s.plan for s in self.segments if s.plan is not None]

    @property
    def executables(self) -> list[Executable]:
        """The device segments' executables, in order (without those of continuations)."""
        return [s.executable for s in self.segments if s.executable is not None]

    @property
    def continuations(self) -> list[Program]:
        """The programs compiled so far for what follows data-dependent shapes."""
        return list(self._rest_cache.values())

    def run(
        self, feeds: Mapping[str, np.ndarray], execute: Execute | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs by name; ``feeds`` by the names of the graph's inputs, with their exact types.

        ``execute`` runs a segment on its arrays, by port names, in place of :meth:`Segment.run`.
        """
        execute = execute or self._execute
        graph = self.graph
        known: dict[Value, np.ndarray] = {}
        outputs: dict[str, np.ndarray] = {}
        # Loops and not comprehensions, which were function calls before Python 3.12.
        with self._lock:
            for v in graph.inputs:
                known[v] = feeds[v.name]
            for segment in self.segments:
                taken = {}
                for v in segment.graph.inputs:
                    taken[v.name] = known[v]
                results = execute(segment, taken)
                for name, v in segment.graph.outputs.items():
                    known[v] = results[name]
            if self._deferred:
                known.update(self._run_rest(known, execute))
            for name, v in graph.outputs.items():
                outputs[name] = known[v] if v.constant is None else v.constant
            rest = graph.rest
            if rest is not None:
                taken = {name: outputs.pop(name) for name in rest.takes}
                call = lambda key, make, feeds: self._kept(key, make).run(feeds, execute)  # noqa: E731
                outputs |= rest.resume(taken, call)
        return outputs

    def close(self) -> None:
        """Frees the device objects of all segments and continuations."""
        with self._lock:
            for segment in self.segments:
                if segment.executable is not None:
                    segment.executable.close()
                    segment.executable = None
            for rest in self._rest_cache.values():
                rest.close()
            self._rest_cache.clear()

    def _device_can(self, node: Node) -> bool:
        device = self._target.device
        if device is not None and node not in self._offers:
            self._offers[node] = candidates(node, device.limits, self._target.options)
        return bool(self._offers.get(node))

    def _taken_apart(self, graph: Graph) -> Graph:
        """The graph; a node that no kernel takes whole stands in parts where those fit better."""
        if self._target.device is None:
            return graph
        return graph.replace([part for node in graph.nodes for part in self._parts(node)])

    def _parts(self, node: Node) -> list[Node]:
        device = self._target.device
        if device is None or not _is_static(node) or self._device_can(node):
            return [node]
        if isinstance(node.op, Fused):
            parts: list[Node] | None = unfuse(node)
        else:
            parts = split_columns(node, device.limits.max_storage_buffer_range)
        return [node] if parts is None else [p for part in parts for p in self._parts(part)]

    def _segment(
        self, nodes: list[Node], number: int, groups: list[list[Node]], needed: set[Value]
    ) -> Segment:
        made = {v for n in nodes for v in n.outputs}
        read = dict.fromkeys(
            v for n in nodes for v in n.inputs if v is not None and v.constant is None
        )
        later = {v for group in groups[number + 1 :] for n in group for v in n.inputs}
        outputs = tuple(v for n in nodes for v in n.outputs if v in needed or v in later)
        names = {v: f"{i}:{v.name}" for i, v in enumerate(outputs)}
        inputs = [v for v in read if v not in made]
        graph = Graph(inputs, {names[v]: v for v in outputs}, nodes, self.graph.name)
        segment = Segment(graph, outputs)
        device = self._target.device
        if device is not None and self.placement[nodes[0]] == "vulkan":
            start = time.perf_counter()
            offers = {node: self._offers[node] for node in nodes}
            segment.plan = lower(
                graph, device.limits, self._target.options, self._target.weights, offers
            )
            planned = time.perf_counter()
            segment.executable = Executable(device, segment.plan, self._target.pool)
            self.timings["plan"] += planned - start
            self.timings["prepare"] += time.perf_counter() - planned
            if self._target.debug >= debug.PLANS:
                debug.say_plan(segment)
        return segment

    def _run_rest(
        self, known: Mapping[Value, np.ndarray], execute: Execute
    ) -> dict[Value, np.ndarray]:
        wanted = dict.fromkeys(
            v for n in self._deferred for v in n.inputs if v is not None and v in known
        )
        types = tuple(TensorType.of(known[v]) for v in wanted)

        def refined() -> Graph:
            results = {v for n in self._deferred for v in n.outputs}
            names = {name: v for name, v in self.graph.outputs.items() if v in results}
            return refine(self._deferred, dict(zip(wanted, types, strict=True)), names)

        rest = self._kept(types, refined, prepared=True)
        feeds = {r.name: known[v] for r, v in zip(rest.graph.inputs, wanted, strict=True)}
        outputs = rest.run(feeds, execute)
        return {self.graph.outputs[name]: array for name, array in outputs.items()}

    def _kept(self, key: Hashable, make: Callable[[], Graph], prepared: bool = False) -> Program:
        """The program of what ``make`` gives, kept by ``key``."""
        program = self._rest_cache.get(key)
        if program is None:
            graph = make()
            program = Program(graph if prepared else self._target.prepare(graph), self._target)
            self._rest_cache[key] = program
            if len(self._rest_cache) > MAX_CONTINUATIONS:
                self._rest_cache.popitem(last=False)[1].close()
        self._rest_cache.move_to_end(key)
        return program


def refine(
    nodes: list[Node], types: Mapping[Value, TensorType], outputs: Mapping[str, Value]
) -> Graph:
    """The nodes over new values: ``types`` are those known of what enters, the rest inferred."""
    renewed = {v: Value(v.name, t, None, v.quantization) for v, t in types.items()}
    inputs = list(renewed.values())
    fresh = []
    for node in nodes:
        ins = tuple(renewed.get(v, v) if v is not None else None for v in node.inputs)
        inferred = node.op.infer(*(v.type if v is not None else None for v in ins))
        outs = tuple(
            Value(v.name, t, None, v.quantization)
            for v, t in zip(node.outputs, inferred, strict=True)
        )
        renewed.update(zip(node.outputs, outs, strict=True))
        fresh.append(Node(node.op, ins, outs, node.name, node.origin))
    return Graph(inputs, {name: renewed[v] for name, v in outputs.items()}, fresh)


def _name_apart(graph: Graph) -> None:
    """Makes the names of values unique: segments exchange arrays by them."""
    taken: set[str] = set()
    for value in graph.values():
        value.name = unique_name(value.name, taken)
        taken.add(value.name)


def _split_static(nodes: list[Node]) -> tuple[list[Node], list[Node]]:
    """Nodes whose input types are known, and those behind a data-dependent shape."""
    ready: list[Node] = []
    deferred: list[Node] = []
    late: set[Value | None] = set()
    for node in nodes:
        if not _is_static(node) or not late.isdisjoint(node.inputs):
            deferred.append(node)
            late.update(node.outputs)
        else:
            ready.append(node)
    return ready, deferred


def _is_static(node: Node) -> bool:
    return all(t is None or t.is_static for t in node.input_types)


def _group(nodes: list[Node], on_device: set[Node]) -> list[list[Node]]:
    """Runs of nodes on one side, in an order that respects the data and changes sides seldom."""
    made_by = {v: n for n in nodes for v in n.outputs}
    waiting = list(nodes)
    done: set[Node] = set()
    groups: list[list[Node]] = []
    side = bool(waiting) and waiting[0] in on_device
    while waiting:
        group: list[Node] = []
        left: list[Node] = []
        for node in waiting:
            sources = {made_by[v] for v in node.inputs if v in made_by}
            if (node in on_device) == side and sources <= done:
                group.append(node)
                done.add(node)
            else:
                left.append(node)
        if group:
            groups.append(group)
        waiting, side = left, not side
    return groups
