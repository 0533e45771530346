"""Program: a compiled graph, its segments run in turn.

The nodes behind a data-dependent shape, and the graph's continuation (loops, branches, computed
shapes), have programs of their own. These are compiled during a run, when the shapes are known, and
kept for later runs. A network without such nodes is one segment, one plan, one recorded run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from vknn import forks, run_limits
from vknn.errors import OutOfMemoryError
from vknn.graph import Arrays, Call, Graph, TensorType, Value
from vknn.partition import Partition, refine
from vknn.plan import Plan
from vknn.runtime import Executable, PlanStream, close_all
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
    def subprograms(self) -> list[Program]:
        """The programs compiled so far for deferred nodes and for the graph's continuation."""
        return list(self._subprograms.values())

    def run(self, feeds: Mapping[str, np.ndarray], execute: Execute | None = None) -> Arrays:
        """Outputs by name; ``feeds`` by the names of the graph's inputs, with their exact types.

        ``execute`` runs a segment on its arrays, by name, in place of :meth:`Segment.run`.
        """
        execute = execute or self._execute
        graph = self.graph
        known: dict[Value, np.ndarray] = {}
        outputs: Arrays = {}
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
                known.update(self._run_deferred(known, execute))
            for name, v in graph.outputs.items():
                outputs[name] = known[v] if v.constant is None else v.constant
            continuation = graph.continuation
            if continuation is not None:
                taken = {name: outputs.pop(name) for name in continuation.takes}
                with np.errstate(all="ignore"):
                    outputs |= continuation.resume(taken, self._caller(execute))
        return outputs

    def stream(self) -> ProgramStream | None:
        """A stream of runs that overlap; None where only one after another will do.

        That is where it is more than one plan on the device, where runs are traced, and where
        memory is not enough for further inputs and outputs.
        """
        alone = len(self.segments) == 1 and not self._deferred and self.graph.continuation is None
        executable = self.segments[0].executable if alone else None
        if executable is None or self._execute is not Segment.run:
            return None
        try:
            return ProgramStream(self.graph, self.segments[0], executable.stream())
        except OutOfMemoryError:
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

    def _run_deferred(
        self, known: Mapping[Value, np.ndarray], execute: Execute
    ) -> dict[Value, np.ndarray]:
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
        outputs = program.run(feeds, execute)
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

    def push(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Start of a run; arrays as of :meth:`Program.run`, which are the caller's afterwards."""
        results = set(self._graph.outputs.values())
        passed = {v: feeds[v.name].copy() for v in self._graph.inputs if v in results}
        self._runs.push({v.name: feeds[v.name] for v in self._segment.graph.inputs})
        self._passed.append(passed)

    def pop(self) -> Arrays:
        """Outputs of the oldest run, by name; waits for it."""
        results = self._runs.pop()
        known = self._passed.popleft()
        for name, v in self._segment.graph.outputs.items():
            known[v] = results[name]
        outputs = self._graph.outputs.items()
        return {name: known[v] if v.constant is None else v.constant for name, v in outputs}

    def give_up(self) -> None:
        """End without a wait for work that is still going on; released with the program."""
        self._runs.give_up()

    def close(self) -> None:
        """Release of its device objects, after work that is still going on."""
        self._runs.close()
