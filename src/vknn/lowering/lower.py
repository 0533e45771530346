"""Lowering of a graph to a plan for a device's limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vknn.errors import UnsupportedLayerError
from vknn.graph import Graph, Node, TensorType, Value
from vknn.lowering.assemble.assembly import assemble
from vknn.lowering.assemble.pending import PendingCommand
from vknn.lowering.choose.candidates import candidates as find_candidates
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.concat_inplace import place_parts
from vknn.lowering.choose.host_floats import float32_inputs, repack_converts
from vknn.lowering.choose.layout_assignment import assign, wanted_layouts
from vknn.lowering.choose.share_pipelines import with_fewer_pipelines
from vknn.lowering.kernels.movement.rule import convert, repack
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.counters import Counters
from vknn.lowering.kit.emitter import Emitter, Ref
from vknn.lowering.kit.layouts import (
    Layout,
    element_bytes,
    narrowed,
    pack,
    same_bytes,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.problem import LoweringOptions, Problem
from vknn.lowering.kit.weight_cache import WeightCache, holds_floats
from vknn.ops.elementwise import Fused
from vknn.ops.movement.shape import Identity
from vknn.plan import DeviceLimits, Fill, Plan, Role


def lower(
    graph: Graph,
    limits: DeviceLimits,
    options: LoweringOptions | None = None,
    weights: WeightCache | None = None,
    candidates: Mapping[Node, Sequence[Candidate]] | None = None,
) -> Plan:
    """The plan of a graph whose every node has a candidate on the device.

    ``candidates``: those of each node where the caller has them already. All types must be
    static, except for outputs that no node of the graph reads. Raises UnsupportedLayerError,
    listing all nodes that have no candidate.
    """
    options = options or LoweringOptions()
    if candidates is None:
        candidates = {node: find_candidates(node, limits, options) for node in graph.nodes}
    missing = [str(node.origin) for node, found in candidates.items() if not found]
    if missing:
        raise UnsupportedLayerError(missing)
    together = "layouts" not in options.disabled
    machine = machine_of(limits)
    chosen = assign(graph, candidates, machine, together=together)
    chosen = with_fewer_pipelines(chosen, candidates, machine)
    lowering = _Lowering(graph, limits, options, weights or WeightCache())
    single = float32_inputs(graph, chosen, limits, options)
    for value in graph.inputs:
        lowering.add_input(value, single=value in single)
    for node in graph.nodes:
        lowering.add_node(node, chosen[node])
    outputs = {name: lowering.add_output(value) for name, value in graph.outputs.items()}
    return assemble(
        graph.name,
        [*lowering.first_commands(), *lowering.commands],
        {v.name: (lowering.input(v), v.type) for v in graph.inputs},
        outputs,
        limits,
        options,
    )


def _seen_in_part(source: Ref, read: Sequence[Ref]) -> bool:
    """True where another input is a part of ``source``: lanes may read it after others wrote."""
    return any(r.root is source.root and r.nbytes != source.nbytes for r in read)


class _Lowering:
    """State while the nodes of a graph are emitted in order."""

    def __init__(
        self, graph: Graph, limits: DeviceLimits, options: LoweringOptions, weights: WeightCache
    ) -> None:
        self.limits, self.options, self.weights = limits, options, weights
        #: Buffers by value, layout and whether floats take 16 bits there.
        self.refs: dict[tuple[Value, Layout, bool], Ref] = {}
        #: Whether a value takes 16 bits where it was made.
        self.made_half: dict[Value, bool] = {}
        self.bounds: dict[Value, TensorType] = {}
        self.counts: dict[Value, Ref] = {}
        self.commands: list[PendingCommand] = []
        self.counters = Counters(limits.alignment)
        self._names: dict[str, int] = {}

    def add_input(self, value: Value, single: bool) -> None:
        half = self.options.half and not single
        self._made(value, value.type, Layout.LINEAR, half).role = Role.INPUT

    def input(self, value: Value) -> Ref:
        """The buffer of an input of the plan."""
        return self.refs[value, Layout.LINEAR, self.made_half[value]]

    def first_commands(self) -> list[PendingCommand]:
        """What stands before the commands of all nodes."""
        root = self.counters.root
        return [PendingCommand(Fill(0, 0, (), "counters"), (root,))] if root.nbytes else []

    def add_node(self, node: Node, candidate: Candidate) -> None:
        problem = make_problem(node, self.limits, self.options)
        half = problem.options.half
        for value, layout in wanted_layouts(node, candidate):
            self._want(value, layout, half)
        if candidate.view is not None and self._add_view(node, candidate, half):
            return
        outputs = [
            self._made(v, t, layout, half)
            for v, t, layout in zip(node.outputs, node.bounds, candidate.outputs, strict=True)
        ]
        open_outputs = [v for v in node.outputs if not v.type.is_static]
        counts = [Ref(self._unique(f"{v.name}.count"), 16, False) for v in open_outputs]
        self.counts.update(zip(open_outputs, counts, strict=True))
        emitter = self._emitter(problem, node, candidate, outputs + counts)
        if candidate.parts and not isinstance(node.op, Fused):
            emitter.placed = place_parts(emitter.inputs, candidate.parts, outputs[0])
        candidate.emit(emitter)
        takes = self._inplace(node, candidate, emitter) if len(emitter.commands) == 1 else ()
        self._take(emitter, takes)

    def add_output(self, value: Value) -> tuple[Ref, TensorType, TensorType, Ref | None]:
        """The LINEAR buffer of a result, its host type, its bound and its count."""
        known, half = self.bounds.get(value, value.type), self.made_half.get(value)
        if half is None:
            half = self.options.half
        elif half and (value, Layout.LINEAR, True) not in self.refs:
            half = not repack_converts(known, self.limits, self.options)
        ref = self._want(value, Layout.LINEAR, half)
        if ref.root.role in (Role.INPUT, Role.WEIGHT):
            source = ref
            name = self._unique(f"{value.name}.copy")
            ref = Ref(name, source.nbytes, source.is_float, width=source.width)
            emitter = self._identity(value, source, ref)
            emitter.copy(source, ref, ref.nbytes)
            self._take(emitter)
        ref.root.role = Role.OUTPUT
        count = self.counts.get(value)
        if count is not None:
            count.role = Role.OUTPUT
        return ref, value.type, self.bounds.get(value, value.type), count

    def _emitter(
        self, problem: Problem, node: Node, candidate: Candidate, outputs: Sequence[Ref]
    ) -> Emitter:
        base, half = zip(node.inputs, candidate.inputs, strict=False), problem.options.half
        inputs = [
            self._want(v, layout, half) if v is not None and layout is not None else None
            for v, layout in base
        ]
        extra = node.inputs[len(candidate.inputs) :]
        operands = [self._want(v, candidate.outputs[0], half) for v in extra if v is not None]
        label = f"{problem.op.type_name} {candidate.name}"
        nodes = (node.origin.name,)
        take = self.counters.take
        return Emitter(
            problem, inputs, outputs, operands, self.weights, label, nodes, counters=take
        )

    def _inplace(
        self, node: Node, candidate: Candidate, emitter: Emitter
    ) -> tuple[tuple[Ref, Ref], ...]:
        sources = [emitter.inputs[i] for i in candidate.inplace]
        target = emitter.outputs[0]
        read = [r for r in (*emitter.inputs, *emitter.operands) if r is not None]
        return tuple(
            (s, target)
            for s in sources
            if s is not None and s.nbytes == target.nbytes and not _seen_in_part(s, read)
        )

    def _take(self, emitter: Emitter, inplace: Sequence[tuple[Ref, Ref]] = ()) -> None:
        for command, refs in emitter.commands:
            self.commands.append(PendingCommand(command, tuple(refs), tuple(inplace)))

    def _want(self, value: Value, layout: Layout, half: bool) -> Ref:
        """The buffer of a value in a layout; packs constants, repacks what lies otherwise.

        ``half``: floats take 16 bits there; they are converted where the value has others.
        """
        half = half and value.type.dtype.is_float
        key = (value, layout, half)
        if key in self.refs:
            return self.refs[key]
        if value.constant is not None:
            self.refs[key] = self._constant(value, layout, half)
            return self.refs[key]
        # Of the width that is wanted, else of the other one: what was converted may be rounded.
        places = [(lay, width) for width in (half, not half) for lay in Layout]
        other, stored = next(p for p in places if (value, *p) in self.refs)
        source, bound = self.refs[value, other, stored], self.bounds[value]
        alike = same_bytes(bound, other, layout)
        if alike and stored == half:
            self.refs[key] = source
            return source
        # Repacks convert at the edges of a GPU's plan: float32 lies in rows, float16 in C4.
        if not alike and stored != half and half != (layout is Layout.C4):
            source = self._want(value, other, half)
        target = self._new_ref(value, bound, layout, half)
        if alike:
            emitter = self._identity(value, source, target, "convert")
            convert(emitter, source, target, vector_count(bound, layout))
        else:
            emitter = self._identity(value, source, target)
            repack(emitter, source, target, bound, other, layout)
        self._take(emitter)
        return target

    def _constant(self, value: Value, layout: Layout, half: bool) -> Ref:
        array = value.constant
        assert array is not None
        precision = self.options.precision if half else "fp32"
        key = f"{layout.value}{value.type}" + (f" {precision}" if half else "")
        data = self.weights.get(key, (array,), lambda: narrowed(pack(array, layout), precision))
        nbytes = storage_bytes(value.type, layout, half)
        name, is_float = self._unique(value.name), holds_floats(data)
        return Ref(name, nbytes, is_float, data, role=Role.WEIGHT, width=data.itemsize)

    def _identity(self, value: Value, source: Ref, target: Ref, label: str = "repack") -> Emitter:
        type_ = self.bounds.get(value, value.type)
        problem = Problem(Identity(), (type_,), (type_,), (None,), self.limits, self.options)
        return Emitter(problem, [source], [target], [], self.weights, label, (value.name,))

    def _add_view(self, node: Node, candidate: Candidate, half: bool) -> bool:
        """Makes output 0 a view of an input, where the epilogue allows it."""
        assert candidate.view is not None
        value, source = node.inputs[candidate.view], node.outputs[0]
        layout = candidate.inputs[candidate.view]
        if isinstance(node.op, Fused) or value is None or layout is None or len(node.outputs) > 1:
            return False
        parent = self._want(value, layout, half)
        if parent.root.role is Role.WEIGHT:
            return False  # the runtime has weights as wholes
        half = half and source.type.dtype.is_float
        nbytes = storage_bytes(source.type, candidate.outputs[0], half)
        name = self._unique(source.name)
        self.refs[source, candidate.outputs[0], half] = Ref(
            name,
            nbytes,
            source.type.dtype.is_float,
            parent=parent,
            offset=candidate.view_offset,
            width=parent.width,
        )
        self.bounds[source], self.made_half[source] = source.type, half
        return True

    def _made(self, value: Value, type_: TensorType, layout: Layout, half: bool) -> Ref:
        """The buffer in which a value is made."""
        self.made_half[value] = half and type_.dtype.is_float
        return self._new_ref(value, type_, layout, self.made_half[value])

    def _new_ref(self, value: Value, type_: TensorType, layout: Layout, half: bool) -> Ref:
        name = self._unique(
            value.name if layout is Layout.LINEAR else f"{value.name}.{layout.value}"
        )
        nbytes, width = storage_bytes(type_, layout, half), element_bytes(type_.dtype, half, layout)
        ref = Ref(name, nbytes, type_.dtype.is_float, width=width)
        self.refs[value, layout, half] = ref
        self.bounds[value] = type_
        return ref

    def _unique(self, stem: str) -> str:
        stem = stem.replace("//", "/ /")
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return self._unique(f"{stem}#{count}") if count else stem
