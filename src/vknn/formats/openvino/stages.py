"""Staged building of graphs from nets.

Graphs are built for concrete shapes. Where a layer needs data that are computed at run time (a
shape, an axis), the graph ends; the next graph is built when the data are known.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.layer_context import NeedsData, unfold
from vknn.formats.layer_errors import Malformed, errors_of
from vknn.formats.openvino.build import GraphBuild, NetSource
from vknn.formats.openvino.context import SMALL_INTEGERS, Context
from vknn.formats.openvino.custom import known_type
from vknn.formats.openvino.records import LayerPort, LayerRecord, Net, PortRef
from vknn.graph import (
    Arrays,
    Call,
    Continuation,
    DType,
    Graph,
    GraphBuilder,
    Origin,
    TensorType,
    Value,
)
from vknn.ops.elementwise.binary import Cast, Sub
from vknn.ops.movement.shape import Reshape


class Stage:
    """Conversion of the layers of a net or body. ``known``: output port -> value.

    ``fed``: input port without an edge -> value. ``scope``: prefix of the layers' names; the body
    of a TensorIterator is converted by a stage of its own.
    """

    def __init__(
        self,
        build: GraphBuild,
        net: Net,
        scope: str = "",
        known: Mapping[PortRef, Value] | None = None,
        fed: Mapping[PortRef, Value] | None = None,
    ) -> None:
        self.build, self.net, self.scope = build, net, scope
        self.known = dict(known or {})
        self.fed = dict(fed or {})

    def run(self, start: int = 0) -> None:
        """Conversion of all layers from ``start`` on whose values are not known yet."""
        for position in range(start, len(self.net.layers)):
            self.convert(self.net.layers[position])

    def convert(self, layer: LayerRecord) -> None:
        """Addition of a layer to the graph. Raises NeedsData and NeedsShape where it must wait."""
        if layer.outputs and all((layer.id, p.id) in self.known for p in layer.outputs):
            return
        self.build.count_layers(layer.name)
        inputs = [self._input(layer, port) for port in layer.inputs]
        if any(not v.type.is_static for v in inputs):
            raise NeedsShape
        found = known_type(layer.type)
        assert found is not None, "unknown layers are refused when a net is loaded"
        context = Context(self.build, layer, inputs, self.scope)
        with errors_of(self.place(layer), self.build.source.file, context.origin.name):
            self._take(layer, context, unfold(found.convert(context)))

    def place(self, layer: LayerRecord) -> str:
        """The layer's name and type for errors."""
        return f"layer {self.scope + layer.name!r} ({layer.type})"

    def _input(self, layer: LayerRecord, port: LayerPort) -> Value:
        ref = (layer.id, port.id)
        source = self.net.sources.get(ref)
        value = self.fed[ref] if source is None else self.known[source]
        if source is None and self.build.as_declared and value.type.shape != port.dims:
            raise ShapeError(
                f"{self.place(layer)}: input port {port.id} is fed with {value.type}, the file "
                f"says {list(port.dims)}"
            )
        # OpenVINO converts images of bytes to floats in front of layers of floats.
        floats = any(p.dtype.is_float for p in layer.outputs)
        if floats and value.type.dtype in SMALL_INTEGERS:
            return self._add(layer, Cast(DType.FLOAT32), value)
        return value

    def _take(self, layer: LayerRecord, context: Context, results: Sequence[Value]) -> None:
        if len(results) < len(layer.outputs):
            raise Malformed(f"has {len(layer.outputs)} outputs, makes {len(results)}")
        for number, (port, value) in enumerate(zip(layer.outputs, results, strict=False)):
            value = self._as_declared(layer, port, value, number)
            self.known[layer.id, port.id] = self._typed(
                layer, context, value, context.dtype(number)
            )

    def _typed(self, layer: LayerRecord, context: Context, value: Value, declared: DType) -> Value:
        """``value`` in the dtype that the file states.

        Results of float inputs stay float where the file states integers: files are careless with
        the precision of indices and shapes. Floats that are made of integers alone are rounded.
        """
        if value.type.dtype is declared:
            return value
        if value.type.dtype.is_float:
            given = [v.type.dtype for v in context.inputs]
            if not given or any(d.is_float for d in given):
                return value
        if declared.is_integer:
            return context.rounded(value, declared)
        return self._add(layer, Cast(declared), value)

    def _as_declared(self, layer: LayerRecord, port: LayerPort, value: Value, number: int) -> Value:
        """The value in the file's shape, from which only axes of size 1 may deviate."""
        if not self.build.as_declared or not value.type.is_static:
            return value
        if value.type.shape == port.dims:
            return value
        same = math.prod(port.dims) == value.type.size
        if same and [d for d in port.dims if d > 1] == [d for d in value.type.dims if d > 1]:
            return self._add(layer, Reshape(port.dims), value)
        raise Malformed(
            f"output {number} has the shape {list(value.type.dims)}, the file says "
            f"{list(port.dims)}"
        )

    def _add(self, layer: LayerRecord, op: Cast | Reshape, value: Value) -> Value:
        name = f"{self.scope}{layer.name}"
        if value.constant is not None:
            return self.build.builder.constant(op.reference(value.constant)[0], name)
        stem = f"{name}/{op.type_name}"
        return self.build.builder.add(op, value, origin=Origin(name, layer.type), name=stem)


def body_stage(
    c: Context, body: Net, fed: Mapping[PortRef, Value], suffix: str, known: Mapping[PortRef, Value]
) -> Stage:
    """The stage of a TensorIterator's body for one iteration, with values for its inputs."""
    inputs = {layer.id for layer in body.layers if not layer.inputs}
    entered = {p: v for p, v in fed.items() if p[0] in inputs}
    ports = {p: v for p, v in fed.items() if p[0] not in inputs}
    scope = f"{c.origin.name}{suffix}/"
    return Stage(c.build, body, scope, {**known, **entered}, ports)


class NeedsShape(Exception):
    """A layer reads a tensor whose shape depends on data."""


def build_graph(
    source: NetSource,
    types: Mapping[PortRef, TensorType],
    states: Mapping[str, TensorType],
    names: Mapping[PortRef, str],
    as_declared: bool,
    means: Mapping[PortRef, np.ndarray],
) -> Graph:
    """The graph of a net for Input layers of these types.

    ``types``, ``names``: type and name of the graph's input, by output port of an Input layer.
    ``means``: arrays that are subtracted from inputs.
    """
    builder = GraphBuilder(source.net.name)
    build = GraphBuild(builder, source, as_declared)
    build.states = {id_: builder.input(source.states[id_], t) for id_, t in states.items()}
    known: dict[PortRef, Value] = {}
    for ref, type_ in types.items():
        value = builder.input(names[ref], type_)
        if ref in means:
            origin = Origin(names[ref], "pre-process")
            if not type_.dtype.is_float:
                value = builder.add(Cast(DType.FLOAT32), value, origin=origin)
            mean = builder.constant(means[ref], f"{names[ref]}/mean")
            value = builder.add(Sub(), value, mean, origin=origin)
        known[ref] = value
    return _convert(build, known, 0)


def _convert(build: GraphBuild, known: dict[PortRef, Value], start: int) -> Graph:
    source = build.source
    stage = Stage(build, source.net, known=known)
    for position in range(start, len(source.net.layers)):
        written = dict(build.written)
        try:
            stage.convert(source.net.layers[position])
        except NeedsData as need:
            build.written = written
            return _unfinished(stage, position, need)
        except NeedsShape:
            build.written = written
            return _unfinished(stage, position, None)
    outputs = {name: stage.known[ref] for name, ref in source.outputs.items()}
    for id_, name in source.states.items():
        outputs[name] = build.written.get(id_, build.states[id_])
    return build.builder.finish(outputs, blobs=_blobs(stage))


def _blobs(stage: Stage) -> dict[str, Value]:
    """Results of layers: by the layer's name and, where it has several, the port's id."""
    found = {}
    for layer in stage.net.layers:
        several = len(layer.outputs) > 1
        for port in layer.outputs:
            value = stage.known.get((layer.id, port.id))
            if value is not None:
                found[f"{layer.name}.{port.id}" if several else layer.name] = value
    return found


def _unfinished(stage: Stage, position: int, need: NeedsData | None) -> Graph:
    """The graph before ``position``; its continuation takes all values that later layers read."""
    build, source, net = stage.build, stage.build.source, stage.net
    if need is None and position == 0:
        raise ModelFormatError("its first layer waits for data", file=source.file)
    later = {layer.id for layer in net.layers[position:]}
    read = dict.fromkeys(s for (t, _), s in net.sources.items() if t in later and s in stage.known)
    read |= dict.fromkeys(p for p in source.outputs.values() if p in stage.known)
    values = {f"ref:{i}:{p}": stage.known[i, p] for i, p in read}
    values |= {f"state:{id_}": value for id_, value in build.states.items()}
    values |= {f"written:{id_}": value for id_, value in build.written.items()}
    constants = {n: v.constant for n, v in values.items() if v.constant is not None}
    takes = {n: v for n, v in values.items() if v.constant is None}
    if need is not None:
        assert need.value is not None
        takes[_DECISIVE] = need.value
    rest = _Continuation(
        source, position, build.as_declared, tuple(takes), constants,
        dict(build.given), None if need is None else need.key,
    )  # fmt: skip
    return build.builder.finish(takes, rest)


_DECISIVE = "decisive"


@dataclass(eq=False)
class _Continuation(Continuation):
    """Conversion and execution of the layers from ``position`` on."""

    source: NetSource
    position: int
    as_declared: bool
    takes: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    given: Mapping[Hashable, np.ndarray]
    decisive: Hashable

    def __post_init__(self) -> None:
        self.layers = tuple(layer.type for layer in self.source.net.layers[self.position :])
        self.decided_by = (_DECISIVE,) if self.decisive is not None else ()

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        given = dict(self.given)
        if self.decisive is not None:
            given[self.decisive] = arrays[_DECISIVE]
        fed = {n: a for n, a in arrays.items() if n != _DECISIVE}
        types = {n: TensorType.of(a) for n, a in fed.items()}
        key = (
            self.position,
            tuple(types.items()),
            tuple((k, a.shape, a.dtype.str, a.tobytes()) for k, a in given.items()),
        )
        return call(key, lambda: self._next(types, given), fed)

    def _next(self, types: Mapping[str, TensorType], given: Mapping[Hashable, np.ndarray]) -> Graph:
        builder = GraphBuilder(self.source.net.name)
        values = {n: builder.input(n, t) for n, t in types.items()}
        values |= {n: builder.constant(a, n) for n, a in self.constants.items()}
        build = GraphBuild(builder, self.source, self.as_declared, given)
        known: dict[PortRef, Value] = {}
        states: dict[str, Value] = {}
        for name, value in values.items():
            kind, _, rest = name.partition(":")
            if kind == "ref":
                id_, _, port = rest.partition(":")
                known[int(id_), int(port)] = value
            else:
                (states if kind == "state" else build.written)[rest] = value
        build.states = states
        return _convert(build, known, self.position)
