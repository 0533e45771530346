"""Runs what a graph leaves undone: the control flow, and the graphs between its decisions.

A graph that is needed again (a loop's body) is built once: it is kept by the place where it starts
and by the types of what it reads, and blobs that change from round to round are inputs of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.coreml import frames
from vknn.formats.coreml.frames import Rounds, Stack
from vknn.formats.coreml.records import LayerRecord
from vknn.formats.coreml.stages import (
    End,
    Fixed,
    Source,
    Stage,
    missing_output,
)
from vknn.graph import Arrays, Call, Continuation, Graph, GraphBuilder, TensorType, Value

#: The output under which a graph says where it ended.
_END = "\0end"


def port(blob: str) -> str:
    """What a blob is called between graphs."""
    return f"blob:{blob}"


@dataclass(eq=False)
class _Mark(Continuation):
    """Follows a graph that the driver runs: tells it where the graph ended."""

    end: End

    def __post_init__(self) -> None:
        self.takes = ()

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        mark = np.empty((), object)
        mark[()] = self.end
        return {_END: mark}


def first_graph(
    source: Source,
    builder: GraphBuilder,
    blobs: Mapping[str, Value],
    outputs: Mapping[str, str],
) -> Graph:
    """The graph from the start of a network, with a continuation where it goes on.

    ``blobs`` are those that are given, ``outputs`` names of results -> blobs.
    """
    stage = Stage(source, builder, blobs, (frames.Block(source.network),))
    end = stage.run()
    if not end.stack:
        return builder.finish({name: stage.output(blob) for name, blob in outputs.items()})
    wanted = frames.reads(end.stack) | set(outputs.values())
    held = {blob: value for blob, value in sorted(stage.blobs.items()) if blob in wanted}
    fixed = {b: Fixed(v.constant) for b, v in held.items() if v.constant is not None}
    live = {b: v for b, v in held.items() if v.constant is None}
    continuation = NetworkContinuation(source, dict(outputs), end, tuple(live), fixed)
    return builder.finish({port(b): value for b, value in live.items()}, continuation)


@dataclass(eq=False)
class NetworkContinuation(Continuation):
    """The computation that follows the first graph of a network."""

    source: Source
    outputs: Mapping[str, str]
    end: End
    live: tuple[str, ...]
    fixed: Mapping[str, Fixed]

    def __post_init__(self) -> None:
        self.takes = tuple(port(b) for b in self.live)
        ahead = [
            layer.type
            for frame in self.end.stack
            if isinstance(frame, frames.Block)
            for layer in frame.network.layers[frame.position :]
        ]
        self.layers = tuple(ahead)

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        live = {b: arrays[port(b)] for b in self.live}
        run = _Run(self.source, self.end.stack, live, dict(self.fixed), call)
        run.to_end(self.end.decisive)
        return {name: run.output(blob) for name, blob in self.outputs.items()}


@dataclass(eq=False)
class _Run:
    """A run on its way. Blobs are ``live`` arrays, or ``fixed`` where graphs may rely on them."""

    source: Source
    stack: Stack
    live: dict[str, np.ndarray]
    fixed: dict[str, Fixed]
    call: Call
    #: For loops without a limit: what decided about the latest round.
    decided: dict[int, list[bytes]] = field(default_factory=dict)
    deciding: dict[LayerRecord, set[str] | None] = field(default_factory=dict)

    def to_end(self, decisive: tuple[str, ...]) -> None:
        """Runs graph after graph until nothing is left."""
        while True:
            self._settle()
            if not self.stack:
                return
            end = self._graph(decisive)
            start, self.stack = self.stack, frames.owned(end.stack, self.stack)
            # A layer may need one blob after another: what was known for it stays so.
            same = start == self.stack
            decisive = tuple(dict.fromkeys((*decisive, *end.decisive) if same else end.decisive))

    def output(self, blob: str) -> np.ndarray:
        """What a blob holds at the end."""
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
            raise frames.undefined(self.stack, blob)
        return found

    def _settle(self) -> None:
        """Control flow, up to the next layer that computes; the arrays are all known here."""
        while self.stack:
            top = self.stack[-1]
            if isinstance(top, Rounds) and not top.decided:
                self._check_progress(top)
            moved = frames.step(self.stack, self._known)
            if moved == self.stack:
                return
            self.stack = moved

    def _check_progress(self, top: Rounds) -> None:
        """Raises ShapeError for a loop in which nothing that could end it changes any more."""
        depth = len(self.stack)
        self.decided = {d: s for d, s in self.decided.items() if d <= depth}
        if top.limit is not None:
            if top.limit > frames.MAX_ROUNDS and not frames.has_test(top.loop):
                raise ShapeError(f"{top.loop.place} is to run {top.limit} rounds, far too many")
            return
        if top.loop not in self.deciding:
            self.deciding[top.loop] = frames.deciding(top.loop)
        blobs = self.deciding[top.loop]
        if blobs is None:
            return
        arrays = [self._look(b) for b in sorted(blobs)]
        state = [b"" if a is None else a.tobytes() for a in arrays]
        if top.done and self.decided.get(depth) == state:
            raise ShapeError(f"{top.loop.place} cannot end: nothing changes its condition any more")
        self.decided[depth] = state

    def _graph(self, decisive: tuple[str, ...]) -> End:
        """Builds (or takes again) and runs the graph from here; blobs are what it made of them."""
        stack = frames.foreign(self.stack)
        wanted = frames.reads(stack) | set(self.source.outputs)
        varying = frames.changing(stack)
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

        results = self.call(key, make, {port(b): a for b, a in feeds.items()})
        end: End = results.pop(_END).item()
        for blob, held in end.fixed.items():
            self.live.pop(blob, None)
            self.fixed[blob] = held
        for blob in end.live:
            self.fixed.pop(blob, None)
            self.live[blob] = results[port(blob)]
        return end


def _segment(
    source: Source,
    stack: Stack,
    types: Mapping[str, TensorType],
    constants: Mapping[str, np.ndarray],
) -> Graph:
    """The graph from ``stack`` on, which gives what it changes and says where it ends."""
    builder = GraphBuilder("coreml")
    blobs = {b: builder.input(port(b), t) for b, t in types.items()}
    blobs |= {b: builder.constant(a, port(b)) for b, a in constants.items()}
    stage = Stage(source, builder, blobs, stack)
    end = stage.run()
    return builder.finish({port(b): stage.blobs[b] for b in end.live}, _Mark(end))
