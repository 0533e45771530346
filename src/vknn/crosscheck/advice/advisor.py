"""Advisor: what one advice is made of, step by step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.crosscheck.advice.ranges import RangeGathering
from vknn.crosscheck.advice.report import LayerAdvice, PlanTime, PrecisionAdvice
from vknn.crosscheck.advice.search import FoundList, SearchBudget, shortest
from vknn.crosscheck.advice.simulation import Simulation, distance
from vknn.crosscheck.advice.trials import AdvisedInput, ListTrials, shown
from vknn.crosscheck.over_data import InputRecord, device_name, is_fatal
from vknn.errors import InputError, VknnError
from vknn.graph import Graph, Node
from vknn.graph.layers import layers_of
from vknn.passes import run_passes
from vknn.session import Session, engine_of
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds

#: Share of the time for measuring what layers add, at most.
MEASURING = 0.5


@dataclass(eq=False)
class _Layer:
    """Nodes of one name. ``own``: error of their results by themselves.

    ``alone``, ``spread``: the largest and the mean square error of the outputs where nothing else
    takes 16 bits; None: not measured.
    """

    name: str
    nodes: list[Node] = field(default_factory=list)
    own: float = 0.0
    alone: float | None = None
    spread: float | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """The larger, the sooner it is kept in float32."""
        return (-1.0 if self.alone is None else self.alone, self.own)


class Advisor:
    """State of one advice. ``share``: error allowed to outputs; ``seconds``: for all of it."""

    def __init__(
        self,
        session: Session,
        precision: str,
        share: float,
        seconds: float,
        progress: ProgressCallback | None,
    ) -> None:
        self._session, self._precision, self._share = session, precision, share
        self._tell, self._seconds, self._begin = progress, seconds, time.perf_counter()
        self._graph: Graph | None = None
        self._names: set[str] = set()
        self._pieces: list[dict[str, Any]] = []
        self._key: object = None
        self._cases: list[AdvisedInput] = []
        self._broken: list[tuple[str, str]] = []

    def read(self, record: InputRecord, shapes: Shapes | None, seed: int) -> None:
        """One set of inputs: the ranges of its tensors, and the right results."""
        count = len(self._cases)
        self._progress(count, count + 1, f"ranges, {record.name}")
        try:
            if record.error is not None:
                raise record.error
            feeds = complete_feeds(self._session, record.feeds, shapes, seed)
            self._graph_of(feeds)
            simulation = self._simulation(feeds)
            self._ranges.add(simulation.known)
            expected = shown(self._session, simulation.outputs(lambda node: False))
            self._cases.append(AdvisedInput(record.name, feeds, expected))
        except (VknnError, MemoryError) as error:
            if is_fatal(error) or isinstance(error, _UnknownWayError):
                raise
            self._broken.append((record.name, str(error)))

    def advice(self, model: str) -> PrecisionAdvice:
        """The advice for all inputs that were read."""
        if not self._cases:
            why = f": {self._broken[0][1]}" if self._broken else ""
            raise InputError(f"no input could be computed{why}")
        assert self._graph is not None
        layers = self._layers(self._graph)
        trials = ListTrials(
            self._session, self._graph, self._names, self._cases, self._precision, self._share
        )
        without = trials.errors(())
        worst = max(range(len(without)), key=lambda n: without[n])
        self._measure(layers, trials, self._cases[worst])
        ordered = sorted(layers, key=lambda layer: layer.rank, reverse=True)
        found, single = self._search([layer.name for layer in ordered], trials)
        kept = found.layers if found.layers is None else self._in_order(layers, found.layers)
        times = {} if kept is None else trials.times(kept, self._left)
        return PrecisionAdvice(
            model=model,
            device=device_name(self._session),
            narrow=self._precision,
            tolerance=self._share,
            records=len(self._cases),
            ranges=self._ranges.ranges(),
            layers=_shares(layers, kept or ()),
            kept=kept,
            complete=found.complete,
            worst_input=self._cases[worst].name,
            error_without=max(without),
            error_with=None if kept is None else max(trials.errors(kept)),
            error_fp32=single,
            trials=trials.count,
            simulated=trials.simulated,
            times=tuple(PlanTime(name, *seconds) for name, seconds in times.items()),
            seconds=time.perf_counter() - self._begin,
            broken=tuple(self._broken),
            graph=self._pieces,
        )

    def _graph_of(self, feeds: Mapping[str, np.ndarray]) -> Graph:
        """The graph for inputs of these types, which is one for all."""
        engine, decisive = engine_of(self._session), self._session.model.value_inputs
        key = [
            (name, np.shape(array), np.asarray(array).tobytes() if name in decisive else b"")
            for name, array in sorted(feeds.items())
        ]
        if self._graph is not None:
            if key != self._key:
                raise InputError("its shapes are others than those of the first input")
            return self._graph
        graph = engine.graph(feeds)
        if graph.continuation is not None:
            raise _UnknownWayError(
                "data decide how this network goes on (loops, branches, computed shapes), which "
                "advice does not follow; vknn verify does"
            )
        self._names = {node.origin.name for node in graph.nodes}
        self._pieces = layers_of(graph, [])
        self._graph = run_passes(graph, engine.target.options.disabled)
        self._key = key
        self._ranges = RangeGathering(self._graph, self._precision)
        return self._graph

    def _simulation(self, feeds: Mapping[str, np.ndarray]) -> Simulation:
        assert self._graph is not None
        self._session.reset_state()
        arrays = engine_of(self._session).encode(feeds)
        taken = {v.name: arrays[v.name] for v in self._graph.inputs}
        return Simulation(self._graph, taken, self._precision)

    def _layers(self, graph: Graph) -> list[_Layer]:
        """Layers that have floats, in the order of the graph."""
        found: dict[str, _Layer] = {}
        for node in graph.nodes:
            values = [v for v in (*node.inputs, *node.outputs) if v is not None]
            if any(v.type.dtype.is_float for v in values):
                layer = found.setdefault(node.origin.name, _Layer(node.origin.name))
                layer.nodes.append(node)
        return list(found.values())

    def _measure(self, layers: Sequence[_Layer], trials: ListTrials, case: AdvisedInput) -> None:
        """What each layer alone does to the outputs; those that lose the most first."""
        simulation = self._simulation(case.feeds)
        end = self._begin + MEASURING * self._seconds
        for layer in layers:
            if time.perf_counter() >= end:
                break
            layer.own = max(simulation.own_error(node) for node in layer.nodes)
        ordered = sorted(layers, key=lambda layer: layer.own, reverse=True)
        right = simulation.outputs(lambda node: False)
        for number, layer in enumerate(ordered):
            if time.perf_counter() >= end:
                return
            self._progress(number, len(layers), f"what {layer.name} adds")
            nodes = set(layer.nodes)
            outputs = simulation.outputs(nodes.__contains__)
            layer.alone = trials.error_of(case, shown(self._session, outputs))
            floats = [n for n, a in right.items() if a.dtype.kind == "f"]
            layer.spread = max((distance(outputs[n], right[n]) for n in floats), default=0.0)

    def _search(self, order: list[str], trials: ListTrials) -> tuple[FoundList, float | None]:
        """The list, and the error with all layers in float32 where that was tried."""
        budget = SearchBudget(self._left)

        def passes(kept: Sequence[str]) -> bool:
            self._progress(trials.count, trials.count + 1, f"{len(kept)} layers in fp32")
            return trials.passes(kept)

        if passes(()):
            return FoundList((), True), None
        if not passes(order):
            return FoundList(None, True), max(trials.errors(order))
        return shortest(order, passes, budget), max(trials.errors(order))

    @property
    def _left(self) -> float:
        """Seconds that are left."""
        return self._seconds - (time.perf_counter() - self._begin)

    def _in_order(self, layers: Sequence[_Layer], names: Sequence[str]) -> tuple[str, ...]:
        return tuple(layer.name for layer in layers if layer.name in set(names))

    def _progress(self, done: int, total: int, what: str) -> None:
        if self._tell is not None:
            self._tell(done, total, what)


class _UnknownWayError(VknnError):
    """Error of a network that goes on as data decide."""


def _shares(layers: Sequence[_Layer], kept: Sequence[str]) -> tuple[LayerAdvice, ...]:
    """The layers with their shares of the error: squares add up, as roundings are independent."""
    spreads = [layer.spread or 0.0 for layer in layers]
    beyond = [math.isinf(s) for s in spreads]
    weights = [float(b) for b in beyond] if any(beyond) else [s * s for s in spreads]
    total = sum(weights) or 1.0
    return tuple(
        LayerAdvice(
            name=layer.name,
            ops=tuple(node.op.type_name for node in layer.nodes),
            share=None if layer.spread is None else weight / total,
            alone=layer.alone,
            own=layer.own,
            keep=layer.name in kept,
        )
        for layer, weight in zip(layers, weights, strict=True)
    )
