"""Executor of networks with control flow: runs a graph, decides what is next, runs the next graph.

A graph that is needed again (a loop's body) is built once: it is kept by its position in the
network and by the types of the blobs that it reads. Blobs that change from iteration to iteration
are inputs of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.formats.coreml import control_flow
from vknn.formats.coreml.control_flow import LoopFrame, Stack
from vknn.formats.coreml.records import LayerRecord
from vknn.formats.coreml.stages import (
    End,
    Fixed,
    NetworkSource,
    Stage,
    missing_output,
)
from vknn.graph import Arrays, Call, Continuation, Graph, GraphBuilder, TensorType, Value

#: The result that holds the :class:`End` of a graph.
_END = "\0end"


def blob_port(blob: str) -> str:
    """The name of a blob among the inputs and outputs of graphs."""
    return f"blob:{blob}"


@dataclass(eq=False)
class _EndMarker(Continuation):
    """Continuation of a graph that the executor runs: hands it the graph's :class:`End`."""

    end: End

    def __post_init__(self) -> None:
        self.takes = ()

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        mark = np.empty((), object)
        mark[()] = self.end
        return {_END: mark}


def first_graph(
    source: NetworkSource,
    builder: GraphBuilder,
    blobs: Mapping[str, Value],
    outputs: Mapping[str, str],
) -> Graph:
    """The graph from the start of a network, with a continuation if it does not reach the end.

    ``blobs``: the network's inputs; ``outputs``: name of a result -> blob.
    """
    stage = Stage(source, builder, blobs, (control_flow.NetworkFrame(source.network),))
    end = stage.run()
    if not end.stack:
        results = {name: stage.output(blob) for name, blob in outputs.items()}
        return builder.finish(results, blobs=stage.blobs)
    wanted = control_flow.blobs_read_from(end.stack) | set(outputs.values())
    held = {blob: value for blob, value in sorted(stage.blobs.items()) if blob in wanted}
    fixed = {b: Fixed(v.constant) for b, v in held.items() if v.constant is not None}
    live = {b: v for b, v in held.items() if v.constant is None}
    rest = NetworkContinuation(source, dict(outputs), end, tuple(live), fixed)
    return builder.finish({blob_port(b): value for b, value in live.items()}, rest)


@dataclass(eq=False)
class NetworkContinuation(Continuation):
    """Execution of a network after its first graph.

    ``live``: blobs that the first graph computed; ``fixed``: blobs whose data it knew.
    """

    source: NetworkSource
    outputs: Mapping[str, str]
    end: End
    live: tuple[str, ...]
    fixed: Mapping[str, Fixed]

    def __post_init__(self) -> None:
        self.takes = tuple(blob_port(b) for b in self.live)
        self.decided_by = tuple(blob_port(b) for b in self.end.decisive if b in self.live)
        ahead = [
            layer.type
            for frame in self.end.stack
            if isinstance(frame, control_flow.NetworkFrame)
            for layer in frame.network.layers[frame.position :]
        ]
        self.layers = tuple(ahead)

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        live = {b: arrays[blob_port(b)] for b in self.live}
        run = _Executor(self.source, self.end.stack, live, dict(self.fixed), call)
        run.to_end(self.end.decisive)
        return {name: run.output(blob) for name, blob in self.outputs.items()}


@dataclass(eq=False)
class _Executor:
    """State of one execution.

    Blobs are ``live`` (inputs of graphs) or ``fixed`` (possibly constants in graphs).
    """

    source: NetworkSource
    stack: Stack
    live: dict[str, np.ndarray]
    fixed: dict[str, Fixed]
    call: Call
    #: Depth of a loop without a limit on the stack -> the data its latest condition depended on.
    _conditions: dict[int, list[bytes]] = field(default_factory=dict)
    _condition_blobs: dict[LayerRecord, set[str] | None] = field(default_factory=dict)

    def to_end(self, decisive: tuple[str, ...]) -> None:
        """Runs graph after graph to the end of the network.

        ``decisive``: blobs whose data the next layer needs.
        """
        while True:
            self._settle()
            if not self.stack:
                return
            end = self._graph(decisive)
            start, self.stack = self.stack, control_flow.with_counts(end.stack, self.stack)
            # A layer may need the data of several blobs, which it asks for one at a time.
            same = start == self.stack
            decisive = tuple(dict.fromkeys((*decisive, *end.decisive) if same else end.decisive))

    def output(self, blob: str) -> np.ndarray:
        """The data of an output blob at the end."""
        found = self._look(blob)
        if found is None:
            raise missing_output(blob, self.source.file)
        return found

    def _look(self, blob: str) -> np.ndarray | None:
        if blob in self.live:
            return self.live[blob]
        return self.fixed[blob].array if blob in self.fixed else None

    def _known(self, blob: str) -> np.ndarray:
        found = self._look(blob)
        if found is None:
            raise control_flow.undefined_blob(self.stack, blob)
        return found

    def _settle(self) -> None:
        """Moves the stack to the next layer that computes; the data of all blobs are known here."""
        while self.stack:
            top = self.stack[-1]
            if isinstance(top, LoopFrame) and not top.tested:
                run_limits.check()  # a loop without layers runs no graph, which would look
                self._check_progress(top)
            moved = control_flow.step(self.stack, self._known)
            if moved == self.stack:
                return
            self.stack = moved

    def _check_progress(self, top: LoopFrame) -> None:
        """Raises ShapeError for a loop that cannot end: its condition depends on unchanged data."""
        depth = len(self.stack)
        self._conditions = {d: s for d, s in self._conditions.items() if d <= depth}
        if top.limit is not None:
            if top.limit > control_flow.MAX_ITERATIONS and not control_flow.has_condition(top.loop):
                raise ShapeError(f"{top.loop.place} is to run {top.limit} iterations, far too many")
            return
        if top.loop not in self._condition_blobs:
            self._condition_blobs[top.loop] = control_flow.condition_blobs(top.loop)
        blobs = self._condition_blobs[top.loop]
        if blobs is None:
            return
        arrays = [self._look(b) for b in sorted(blobs)]
        state = [b"" if a is None else a.tobytes() for a in arrays]
        if top.done and self._conditions.get(depth) == state:
            raise ShapeError(f"{top.loop.place} cannot end: nothing changes its condition any more")
        self._conditions[depth] = state

    def _graph(self, decisive: tuple[str, ...]) -> End:
        """Runs the graph from the stack on, built now or before, and takes over its blobs."""
        stack = control_flow.without_counts(self.stack)
        wanted = control_flow.blobs_read_from(stack) | set(self.source.outputs)
        varying = control_flow.blobs_changed_by_loops(stack)
        feeds: dict[str, np.ndarray] = {}
        fixed: dict[str, Fixed] = {}
        known = {b: self._known(b) for b in decisive}
        for blob in sorted(wanted - known.keys()):
            if blob in self.fixed and blob not in varying:
                fixed[blob] = self.fixed[blob]
            elif (array := self._look(blob)) is not None:
                feeds[blob] = array
        types = {b: TensorType.of(a) for b, a in feeds.items()}
        key: Hashable = (
            stack,
            tuple(types.items()),
            tuple(fixed.items()),
            tuple((b, a.shape, a.tobytes()) for b, a in known.items()),
        )

        def make() -> Graph:
            constants = {b: f.array for b, f in fixed.items()} | known
            return _segment(self.source, stack, types, constants)

        results = self.call(key, make, {blob_port(b): a for b, a in feeds.items()})
        end: End = results.pop(_END).item()
        for blob, held in end.fixed.items():
            self.live.pop(blob, None)
            self.fixed[blob] = held
        for blob in end.live:
            self.fixed.pop(blob, None)
            self.live[blob] = results[blob_port(blob)]
        return end


def _segment(
    source: NetworkSource,
    stack: Stack,
    types: Mapping[str, TensorType],
    constants: Mapping[str, np.ndarray],
) -> Graph:
    """The graph from ``stack`` on. Outputs: the blobs that change; its continuation gives End."""
    builder = GraphBuilder("coreml")
    blobs = {b: builder.input(blob_port(b), t) for b, t in types.items()}
    blobs |= {b: builder.constant(a, blob_port(b)) for b, a in constants.items()}
    stage = Stage(source, builder, blobs, stack)
    end = stage.run()
    return builder.finish({blob_port(b): stage.blobs[b] for b in end.live}, _EndMarker(end))
