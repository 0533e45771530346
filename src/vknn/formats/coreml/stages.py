"""Staged building of graphs from networks.

Graphs are built for concrete shapes. Where a layer needs data that are computed at run time (a
shape, a branch, a loop), or reads a blob whose shape depends on data, the graph ends. The next
graph is built when the data are known: those that a layer needs become constants, the others
inputs. Loops whose iterations are known while a graph is built are unrolled if they are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.errors import ModelFormatError
from vknn.formats.coreml import control_flow
from vknn.formats.coreml.constant_cache import ConstantCache
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.control_flow import LoopFrame, Stack, Undecided
from vknn.formats.coreml.custom import known_type
from vknn.formats.coreml.records import COUNTER, LayerRecord, NetworkRecord
from vknn.formats.layer_context import NeedsData, unfold
from vknn.formats.layer_errors import errors_of
from vknn.graph import DType, GraphBuilder, TensorType, Value
from vknn.ops.elementwise.binary import Add, Cast
from vknn.ops.movement.shape import Reshape

#: Iterations of loops that one graph unrolls; longer loops run a graph for each iteration.
MAX_UNROLLED = 32
#: The most layers and rounds of unrolled loops in one graph.
_MAX_COPIES = 2000

COUNTER_TYPE = TensorType((1,), DType.INT32)


@dataclass(frozen=True, eq=False)
class NetworkSource:
    """A network to build graphs of.

    ``outputs``: the blobs that are results; ``constants``: those of all its graphs.
    """

    network: NetworkRecord
    outputs: tuple[str, ...]
    rank5: bool = False
    file: str | None = None
    constants: ConstantCache = field(default_factory=ConstantCache)


@dataclass(frozen=True, eq=False)
class Fixed:
    """The data of a blob that are known while a graph is built; compared by identity."""

    array: np.ndarray


@dataclass(frozen=True, eq=False)
class End:
    """The end of a graph.

    ``stack``: the position of the next layer, empty at the end of the network. ``decisive``: blobs
    whose data the next layer needs. ``fixed``: blobs with known data that the graph set. ``live``:
    blobs that the graph computes.
    """

    stack: Stack
    decisive: tuple[str, ...]
    fixed: Mapping[str, Fixed]
    live: tuple[str, ...]


class Stage:
    """Conversion of layers to one graph, up to a layer that needs data or to the network's end."""

    def __init__(
        self, source: NetworkSource, builder: GraphBuilder, blobs: Mapping[str, Value], stack: Stack
    ) -> None:
        self.source, self.builder, self.stack = source, builder, stack
        self.blobs = dict(blobs)
        self._given = dict(blobs)
        self._decisive: tuple[str, ...] = ()
        self._copies = 0

    def run(self) -> End:
        """Conversion of as many layers as possible."""
        while self._next():
            pass
        return self._end()

    def _next(self) -> bool:
        """Converts one layer; False at the end and where the next layer needs data."""
        try:
            self.stack = self._settled()
        except Undecided:
            return False
        layer = control_flow.current_layer(self.stack)
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
        self.stack = control_flow.after_layer(self.stack)
        return True

    def _settled(self) -> Stack:
        """The stack at the next ordinary layer. Raises Undecided for loops too long to unroll."""
        stack = self.stack
        while stack:
            self.stack = stack
            top = stack[-1]
            if isinstance(top, LoopFrame) and not top.tested:
                if self._too_long(top):
                    raise Undecided
                self._copies += 1  # rounds of loops without layers take time, too
            moved = control_flow.step(stack, self._known)
            if moved == stack:
                break
            stack = moved
        return stack

    def _too_long(self, top: LoopFrame) -> bool:
        long = not control_flow.has_condition(top.loop) and (top.limit or 0) > MAX_UNROLLED
        return long or top.done >= MAX_UNROLLED or self._copies > _MAX_COPIES

    def _known(self, blob: str) -> np.ndarray | None:
        return self.value(blob).constant

    def value(self, name: str) -> Value:
        """The value of a blob at this point."""
        if name not in self.blobs:
            raise control_flow.undefined_blob(self.stack, name)
        return self.blobs[name]

    def output(self, name: str) -> Value:
        """The value of an output blob."""
        if name not in self.blobs:
            raise missing_output(name, self.source.file)
        return self.blobs[name]

    def _convert(self, layer: LayerRecord, inputs: Sequence[Value]) -> list[Value]:
        found = known_type(layer)
        assert found is not None, "unknown layers are refused when a model is loaded"
        self._copies += any(isinstance(frame, LoopFrame) for frame in self.stack)
        context = Context(
            self.builder, layer, inputs, self.source.rank5, self._draw, self.source.constants
        )  # fmt: skip
        with errors_of(layer.place, self.source.file, layer.name):
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
        wanted = control_flow.blobs_read_from(self.stack) | set(self.source.outputs)
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
    """``value`` as blobs are: float32, with one axis or more."""
    if value.type.dtype is not DType.FLOAT32:
        value = c.add(Cast(DType.FLOAT32), value)
    return value if value.type.rank else c.add(Reshape((1,)), value)


def missing_output(name: str, file: str | None) -> ModelFormatError:
    """The error for an output of the model that no layer on the path taken has written."""
    return ModelFormatError(f"the output {name!r} was made by no layer that ran", file=file)
