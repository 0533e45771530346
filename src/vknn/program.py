"""Program: a compiled graph, its segments run in turn.

The nodes behind a data-dependent shape, and the graph's continuation (loops, branches, computed
shapes), have programs of their own. These are compiled during a run, when the shapes are known, and
kept for later runs. A network without such nodes is one segment, one plan, one recorded run.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

import numpy as np

from vknn import forks, run_limits
from vknn.errors import OutOfMemoryError
from vknn.graph import Arrays, Call, Graph, TensorType, Value
from vknn.partition import Partition, refine
from vknn.plan import Plan
from vknn.runtime import DeviceArray, Executable, PlanStream, close_all, on_host
from vknn.segment import Segment

#: Programs kept for different shapes of data-dependent tensors, and for a continuation's graphs.
MAX_SUBPROGRAMS = 16

Execute = Callable[[Segment, Arrays], Arrays]
#: Compiles a graph; False: one whose passes have run.
Compile = Callable[[Graph, bool], "Program"]


class Program:
    """A graph made ready to run on a target (``vknn.compile``). Close it to free device memory.

    ``timings``: seconds spent on plans ("plan"), and on pipelines, weights and command buffers
    ("prepare"). ``placement``: where each node runs, "vulkan" or "host".
    """

    def __init__(
        self,
        parts: Partition,
        segments: list[Segment],
        timings: dict[str, float],
        compile_graph: Compile,
        execute: Execute = Segment.run,
    ) -> None:
        self.graph, self.placement = parts.graph, parts.placement
        self.segments, self.timings = segments, timings
        #: Names of outputs that share memory with constants, inputs or other outputs; None: all,
        #: as the host makes some.
        self.shared: set[str] | None = _shared_outputs(parts.graph)
        later = bool(parts.deferred) or parts.graph.continuation is not None
        if later or any(segment.executable is None for segment in segments):
            self.shared = None
        self._deferred = parts.deferred
        self._compile, self._execute = compile_graph, execute
        self._lock = threading.RLock()
        forks.renew(self)
        self._subprograms: OrderedDict[Hashable, Program] = OrderedDict()

    @property
    def plans(self) -> list[Plan]:
        """The plans of the device segments, in order (without those of subprograms)."""
        return [s.plan for s in self.segments if s.plan is not None]

    @property
    def executables(self) -> list[Executable]:
        """The device segments' executables, in order (without those of subprograms)."""
        return [s.executable for s in self.segments if s.executable is not None]

    @property
    def is_plain(self) -> bool:
        """Whether its runs are nobody's but its own: no debug level looks on."""
        return self._execute is Segment.run

    @property
    def subprograms(self) -> list[Program]:
        """The programs compiled so far for deferred nodes and for the graph's continuation."""
        return list(self._subprograms.values())

    def run(
        self,
        feeds: Mapping[str, np.ndarray | DeviceArray],
        execute: Execute | None = None,
        kept: Collection[str] = (),
    ) -> dict[str, Any]:
        """Outputs by name; ``feeds`` by the names of the graph's inputs, with their exact types.

        ``execute`` runs a segment on its arrays, by name, in place of :meth:`Segment.run`.
        ``kept``: names of outputs that stay on the device, as DeviceArrays, where it computes them;
        feeds may be such. Runs with another ``execute`` are all the host's.
        """
        execute = execute or self._execute
        graph = self.graph
        if execute is not Segment.run:
            kept = ()
            feeds = {n: on_host(n, a, "the run is watched") for n, a in feeds.items()}
        stays = self._staying(kept) if kept else ()
        known: dict[Value, Any] = {}
        outputs: dict[str, Any] = {}
        # Loops and not comprehensions, which were function calls before Python 3.12.
        with self._lock:
            for v in graph.inputs:
                known[v] = feeds[v.name]
            for segment in self.segments:
                taken = {}
                for v in segment.graph.inputs:
                    taken[v.name] = known[v]
                if stays:
                    ends = segment.graph.outputs.items()
                    results = segment.run(taken, [n for n, v in ends if v in stays])
                else:
                    results = execute(segment, taken)
                for name, v in segment.graph.outputs.items():
                    known[v] = results[name]
            if self._deferred:
                known.update(self._run_deferred(known, execute, kept))
            for name, v in graph.outputs.items():
                array = known[v] if v.constant is None else v.constant
                if isinstance(array, DeviceArray) and name not in kept:
                    array = on_host(name, array, "it is an output of the host's")
                outputs[name] = array
            continuation = graph.continuation
            if continuation is not None:
                reason = "it decides how the network goes on"
                taken = {n: on_host(n, outputs.pop(n), reason) for n in continuation.takes}
                with np.errstate(all="ignore"):
                    outputs |= continuation.resume(taken, self._caller(execute))
        return outputs

    def own(self, outputs: dict[str, Any]) -> None:
        """Copies in place of outputs of :meth:`run` that share memory: results are the caller's."""
        for name in outputs if self.shared is None else self.shared & outputs.keys():
            if isinstance(outputs[name], np.ndarray):
                outputs[name] = outputs[name].copy()

    def stream(self, in_flight: int) -> ProgramStream | None:
        """A stream of up to so many runs that overlap; None where only one after another will do.

        That is where it is more than one plan on the device, where runs are traced, and where
        memory is not enough for further inputs and outputs; fewer overlap where it is enough for
        these.
        """
        alone = len(self.segments) == 1 and not self._deferred and self.graph.continuation is None
        executable = self.segments[0].executable if alone else None
        if executable is None or self._execute is not Segment.run:
            return None
        for depth in range(in_flight, 1, -1):
            with contextlib.suppress(OutOfMemoryError):
                return ProgramStream(self.graph, self.segments[0], executable.stream(depth))
        return None

    def close(self) -> None:
        """Release of the device objects of all segments and subprograms."""
        with self._lock:
            close_all([*self.segments, *self._subprograms.values()])
            self._subprograms.clear()

    def _caller(self, execute: Execute) -> Call:
        """The call with which a continuation runs its graphs."""

        def call(
            key: Hashable, make: Callable[[], Graph], feeds: Mapping[str, np.ndarray]
        ) -> Arrays:
            run_limits.check()
            return self._kept(key, make).run(feeds, execute)

        return call

    def _staying(self, kept: Collection[str]) -> set[Value]:
        """Values of the outputs that stay on the device; not those that a continuation takes."""
        continuation, outputs = self.graph.continuation, self.graph.outputs
        taken = () if continuation is None else continuation.takes
        return {outputs[name] for name in kept if name in outputs and name not in taken}

    def _run_deferred(
        self, known: Mapping[Value, Any], execute: Execute, kept: Collection[str]
    ) -> dict[Value, Any]:
        """The outputs of the graph that deferred nodes make."""
        wanted = dict.fromkeys(
            v for n in self._deferred for v in n.inputs if v is not None and v in known
        )
        types = tuple(TensorType.of(known[v]) for v in wanted)

        def refined() -> Graph:
            results = {v for n in self._deferred for v in n.outputs}
            names = {name: v for name, v in self.graph.outputs.items() if v in results}
            return refine(self._deferred, dict(zip(wanted, types, strict=True)), names)

        program = self._kept(types, refined, passes=False)
        feeds = {r.name: known[v] for r, v in zip(program.graph.inputs, wanted, strict=True)}
        outputs = program.run(feeds, execute, [n for n in kept if n in program.graph.outputs])
        return {self.graph.outputs[name]: array for name, array in outputs.items()}

    def _kept(self, key: Hashable, make: Callable[[], Graph], passes: bool = True) -> Program:
        """The program of the graph that ``make`` gives, kept by ``key``."""
        program = self._subprograms.get(key)
        if program is None:
            program = self._subprograms[key] = self._compile(make(), passes)
            if len(self._subprograms) > MAX_SUBPROGRAMS:
                self._subprograms.popitem(last=False)[1].close()
        self._subprograms.move_to_end(key)
        return program


class ProgramStream:
    """A program's runs, that of the next inputs begun before the outputs of the last are taken."""

    def __init__(self, graph: Graph, segment: Segment, runs: PlanStream) -> None:
        self._graph, self._segment, self._runs = graph, segment, runs
        self._copied = _shared_outputs(graph)
        #: Of each run that is pending, the inputs that are outputs, too.
        self._passed: deque[dict[Value, np.ndarray]] = deque()

    @property
    def pending(self) -> int:
        """Number of runs whose outputs were not taken yet."""
        return self._runs.pending

    @property
    def full(self) -> bool:
        """Whether outputs must be taken before the next inputs are given."""
        return self._runs.full

    @property
    def is_open(self) -> bool:
        """Whether runs can be pushed and popped still."""
        return self._runs.is_open

    def push(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Start of a run; arrays as of :meth:`Program.run`, which are the caller's afterwards."""
        results = set(self._graph.outputs.values())
        passed = {v: feeds[v.name].copy() for v in self._graph.inputs if v in results}
        self._runs.push({v.name: feeds[v.name] for v in self._segment.graph.inputs})
        self._passed.append(passed)

    def pop(self) -> Arrays:
        """Outputs of the oldest run, by name; waits for it."""
        try:
            results = self._runs.pop()
        finally:
            # A run that failed is gone; one that is late is pending still.
            gone = len(self._passed) > self._runs.pending
            known = self._passed.popleft() if gone else {}
        for name, v in self._segment.graph.outputs.items():
            known[v] = results[name]
        outputs = {}
        for name, v in self._graph.outputs.items():
            array = known[v] if v.constant is None else v.constant
            outputs[name] = array.copy() if name in self._copied else array
        return outputs

    def give_up(self) -> None:
        """End without a wait for work that is still going on; released with the program."""
        self._runs.give_up()

    def close(self) -> None:
        """Release of its device objects, after work that is still going on."""
        self._runs.close()


def _shared_outputs(graph: Graph) -> set[str]:
    """Names of outputs that are constants or inputs, or whose value an earlier output is."""
    seen = set(graph.inputs)
    shared = set()
    for name, value in graph.outputs.items():
        if value.constant is not None or value in seen:
            shared.add(name)
        seen.add(value)
    return shared
