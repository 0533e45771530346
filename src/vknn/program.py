"""Program: a compiled graph, its segments run in turn.

The nodes behind a data-dependent shape, and the graph's continuation (loops, branches, computed
shapes), have programs of their own. These are compiled during a run, when the shapes are known, and
kept for later runs. A network without such nodes is one segment, one plan, one recorded run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from vknn.graph import Arrays, Call, Graph, TensorType, Value
from vknn.partition import Partition, refine
from vknn.plan import Plan
from vknn.runtime import Executable
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
                outputs |= continuation.resume(taken, self._caller(execute))
        return outputs

    def close(self) -> None:
        """Release of the device objects of all segments and subprograms."""
        with self._lock:
            for segment in self.segments:
                segment.close()
            for program in self._subprograms.values():
                program.close()
            self._subprograms.clear()

    def _caller(self, execute: Execute) -> Call:
        """The call with which a continuation runs its graphs."""

        def call(
            key: Hashable, make: Callable[[], Graph], feeds: Mapping[str, np.ndarray]
        ) -> Arrays:
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
