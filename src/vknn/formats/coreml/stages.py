"""Networks -> graphs, in stages.

Graphs are built for concrete shapes. Where a layer needs data that are computed at run time (a
shape, a branch, a loop), or reads a blob whose shape depends on data, the graph ends there. The
rest is built when the arrays are known: what decides becomes a constant, everything else an input.
Loops that are known while a graph is built are unrolled, as far as they are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.errors import ModelFormatError
from vknn.formats.coreml import frames
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.custom import known_type
from vknn.formats.coreml.frames import Rounds, Stack, Undecided
from vknn.formats.coreml.holding import Held
from vknn.formats.coreml.records import COUNTER, LayerRecord, NetworkRecord
from vknn.formats.layer_context import NeedsData, unfold
from vknn.formats.layer_errors import errors_of
from vknn.graph import DType, GraphBuilder, TensorType, Value
from vknn.ops.elementwise.binary import Add, Cast
from vknn.ops.movement.shape import Reshape

#: Rounds of loops that one graph unrolls; longer loops run a graph for each round.
MAX_UNROLLED = 32
#: Layers of one graph that stand in unrolled loops.
_MAX_COPIES = 2000

COUNTER_TYPE = TensorType((1,), DType.INT32)


@dataclass(frozen=True, eq=False)
class Source:
    """A network to build graphs of.

    ``outputs`` are the blobs that a run gives, ``held`` the constants of all its graphs.
    """

    network: NetworkRecord
    outputs: tuple[str, ...]
    rank5: bool = False
    file: str | None = None
    held: Held = field(default_factory=Held)


@dataclass(frozen=True, eq=False)
class Fixed:
    """A blob whose data are known while graphs are built; compared by identity."""

    array: np.ndarray


@dataclass(frozen=True, eq=False)
class End:
    """Where a graph ends.

    ``stack``: what is next (empty: nothing). ``decisive``: blobs whose data the next layer needs.
    ``fixed``: blobs that became known. ``live``: outputs of the graph that change blobs, by blob.
    """

    stack: Stack
    decisive: tuple[str, ...]
    fixed: Mapping[str, Fixed]
    live: tuple[str, ...]


class Stage:
    """Converts layers until the end or until one cannot be converted yet."""

    def __init__(
        self, source: Source, builder: GraphBuilder, blobs: Mapping[str, Value], stack: Stack
    ) -> None:
        self.source, self.builder, self.stack = source, builder, stack
        self.blobs = dict(blobs)
        self._given = dict(blobs)
        self._decisive: tuple[str, ...] = ()
        self._copies = 0

    def run(self) -> End:
        """Goes on from the stack as far as possible."""
        while self._next():
            pass
        return self._end()

    def _next(self) -> bool:
        """One layer; False at the end or where it has to wait for arrays."""
        try:
            self.stack = self._settled()
        except Undecided:
            return False
        layer = frames.current_layer(self.stack)
        if layer is None:
            return False
        inputs = [self.value(name) for name in layer.inputs]
        if any(not v.type.is_static for v in inputs):
            return False
        try:
            results = self._convert(layer, inputs)
        except NeedsData as need:
            found = [n for n, v in zip(layer.inputs, inputs, strict=True) if v is need.value]
            self._decisive = tuple(found[:1])
            return False
        self.blobs.update(zip(layer.outputs, results, strict=True))
        self.stack = frames.advanced(self.stack)
        return True

    def _settled(self) -> Stack:
        """Moves to the next ordinary layer, leaving loops that grow too long to those behind."""
        stack = self.stack
        while stack:
            self.stack = stack
            top = stack[-1]
            if isinstance(top, Rounds) and not top.decided and self._too_long(top):
                raise Undecided
            moved = frames.step(stack, self._known)
            if moved == stack:
                break
            stack = moved
        return stack

    def _too_long(self, top: Rounds) -> bool:
        long = not frames.has_test(top.loop) and (top.limit or 0) > MAX_UNROLLED
        return long or top.done >= MAX_UNROLLED or self._copies > _MAX_COPIES

    def _known(self, blob: str) -> np.ndarray | None:
        return self.value(blob).constant

    def value(self, name: str) -> Value:
        """What a blob holds."""
        if name not in self.blobs:
            raise frames.undefined(self.stack, name)
        return self.blobs[name]

    def output(self, name: str) -> Value:
        """What a blob holds at the end."""
        if name not in self.blobs:
            raise missing_output(name, self.source.file)
        return self.blobs[name]

    def _convert(self, layer: LayerRecord, inputs: Sequence[Value]) -> list[Value]:
        found = known_type(layer)
        assert found is not None, "unknown layers are refused when a model is loaded"
        self._copies += any(isinstance(frame, Rounds) for frame in self.stack)
        context = Context(
            self.builder, layer, inputs, self.source.rank5, self._draw, self.source.held
        )  # fmt: skip
        with errors_of(layer.place, self.source.file):
            results = unfold(found.convert(context))
            if len(results) < len(layer.outputs):
                context.fail(f"names {len(layer.outputs)} outputs, has {len(results)}")
            return [_as_blob(context, v) for v in results[: len(layer.outputs)]]

    def _draw(self) -> Value:
        drawn = self.value(COUNTER)
        one = self.builder.constant(np.ones(1, np.int32), "one draw")
        self.blobs[COUNTER] = self.builder.add(Add(), drawn, one, name="draws")
        return drawn

    def _end(self) -> End:
        wanted = frames.reads(self.stack) | set(self.source.outputs)
        fixed: dict[str, Fixed] = {}
        live: list[str] = []
        for name in sorted(wanted & self.blobs.keys()):
            value = self.blobs[name]
            if value is self._given.get(name):
                continue
            if value.constant is not None:
                fixed[name] = Fixed(value.constant)
            else:
                live.append(name)
        return End(self.stack, self._decisive, fixed, tuple(live))


def _as_blob(c: Context, value: Value) -> Value:
    """Blobs are float32 and have one axis or more."""
    if value.type.dtype is not DType.FLOAT32:
        value = c.add(Cast(DType.FLOAT32), value)
    return value if value.type.rank else c.add(Reshape((1,)), value)


def missing_output(name: str, file: str | None) -> ModelFormatError:
    """The error for an output of the model that no layer on the way has made."""
    return ModelFormatError(f"the output {name!r} was made by no layer that ran", file=file)
