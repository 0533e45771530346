"""The one segment that a bundle holds: a graph's plan, or all that keeps it from being one."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vknn.bundle.ends import narrowed
from vknn.errors import ExportError, UnsupportedLayerError
from vknn.graph import Graph, Node, Value
from vknn.lowering import LoweringOptions, WeightCache
from vknn.lowering.choose.candidates import kernel_switch
from vknn.partition import Partition
from vknn.plan import DeviceLimits, Plan, View
from vknn.planning import outlined

_CUT = "cut the network in front of it with --outputs"


def planned(graph: Graph, limits: DeviceLimits, options: LoweringOptions) -> tuple[Graph, Plan]:
    """The graph as it runs on a device of these limits, and the plan of its one segment.

    Where kernels bind more storage buffers than the limits allow, others are taken, or operators
    are not fused, if the whole then keeps to the limit; else the plan says what it needs. Raises
    ExportError, which lists every layer that cannot be part of it.
    """
    graph = narrowed(graph)
    first = _planned(graph, limits, options)
    switches = _greedy(first[1], limits)
    if switches:
        for off in (switches, frozenset(("fusion",)), switches | {"fusion"}):
            with contextlib.suppress(ExportError):
                found = _planned(graph, limits, replace(options, disabled=options.disabled | off))
                if not _greedy(found[1], limits):
                    return found
    return first


def _planned(graph: Graph, limits: DeviceLimits, options: LoweringOptions) -> tuple[Graph, Plan]:
    outline = outlined(graph, limits, options)
    parts = outline.parts
    reasons = tuple(dict.fromkeys(_obstacles(parts, limits)))
    if reasons:
        raise ExportError(reasons)
    # Of a network without nodes, whose outputs are its inputs or constants, the plan is empty.
    [segment] = parts.segments or [Graph([], {}, [], graph.name)]
    try:
        plan = outline.lowered(segment, WeightCache())
    except UnsupportedLayerError as error:
        raise ExportError([f"{layer}: no kernel takes it; {_CUT}" for layer in error.layers]) from (
            error
        )
    _check_buffers(plan, limits)
    return parts.graph, plan


def _greedy(plan: Plan, limits: DeviceLimits) -> frozenset[str]:
    """Switches of the kernels that bind more storage buffers than the limits allow.

    Few kernels look at that limit: only the very least devices have so few.
    """
    bound = ((d, sum(b.view is View.STORAGE for b in d.bindings)) for d in plan.dispatches)
    labels = [d.label.partition(" ") for d, n in bound if n > limits.max_storage_buffers]
    return frozenset(kernel_switch(op, kernel) for op, _, kernel in labels)


def _obstacles(parts: Partition, limits: DeviceLimits) -> Iterator[str]:
    """Reasons why a graph is not one plan."""
    graph = parts.graph
    inputs = {value.name: value for value in graph.inputs}
    # What a continuation goes on with has names that no user knows.
    outputs = graph.outputs if graph.continuation is None else {}
    for what, values in (("input", inputs), ("output", outputs)):
        for name, value in values.items():
            if value.constant is None and not value.type.dtype.on_device:
                fix = "fix it with --fixed, " if what == "input" else ""
                yield (
                    f"{what} {name!r} has elements of type {value.type.dtype.value}, which no "
                    f"device holds; {fix}cut the network with --outputs, or convert it beforehand"
                )
            elif value.type.is_static and value.type.size == 0:
                yield f"{what} {name!r} has no elements; give another shape with --shape"
    for node in graph.nodes:
        if parts.placement[node] == "host" and node not in parts.deferred:
            yield f"{node.origin}: {_why_host(node, limits)}"
    for node in parts.deferred:
        sources = _inputs_of(graph, _open_shapes(graph, node))
        yield (
            f"{node.origin}: its shapes hang on data that are computed at run time; {_CUT}, or fix "
            f"with --fixed the inputs that decide: {sources}"
        )
    if graph.continuation is not None:
        counts = Counter(graph.continuation.layers)
        layers = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
        known = graph.continuation.decided_by
        sources = _inputs_of(graph, [graph.outputs[n] for n in known or graph.continuation.takes])
        yield (
            f"{layers or 'its end'}: loops, branches or computed shapes, of which data decide how "
            f"they go on; {_CUT}, or fix with --fixed the inputs that decide"
            f"{':' if known else ', some of'} {sources}"
        )


def _open_shapes(graph: Graph, node: Node) -> list[Value]:
    """What nodes of static inputs and open results read, on which a node's shapes hang."""
    makers, found = graph.producers(), list[Value]()
    for source in _behind(makers, node.inputs):
        given = [v for v in source.inputs if v is not None]
        if all(v.type.is_static for v in given) and any(
            not v.type.is_static for v in source.outputs
        ):
            found += given
    return found or [v for v in node.inputs if v is not None]


def _behind(makers: Mapping[Value, Node], values: Iterable[Value | None]) -> list[Node]:
    """The nodes of which values are made, directly or by others."""
    found: dict[Node, None] = {}
    waiting = list(values)
    for value in waiting:
        node = None if value is None else makers.get(value)
        if node is not None and node not in found:
            found[node] = None
            waiting += node.inputs
    return list(found)


def _inputs_of(graph: Graph, values: Sequence[Value]) -> str:
    """Names of the graph's inputs that values are made of, in its order."""
    nodes = _behind(graph.producers(), values)
    read = {*values, *(v for node in nodes for v in node.inputs)}
    names = [repr(v.name) for v in graph.inputs if v in read]
    return ", ".join(names) or "none is an input"


def _why_host(node: Node, limits: DeviceLimits) -> str:
    """Reason why a node is the host's, and what to do."""
    types = [t for t in (*node.input_types, *node.output_types) if t is not None]
    foreign = sorted({t.dtype.value for t in types if not t.dtype.on_device})
    if foreign:
        return f"tensors of type {', '.join(foreign)} stay on the host; {_CUT}"
    if any(t.is_static and t.size == 0 for t in types):
        return "one of its tensors has no elements; give other shapes with --shape"
    sizes = [4 * t.size for t in types if t.is_static]
    if sizes and max(sizes) > limits.max_storage_buffer_range:
        return too_long(max(sizes), limits)
    return f"{node.op.type_name} runs on the host in this form; {_CUT}"


def too_long(nbytes: int, limits: DeviceLimits) -> str:
    """Text about a tensor that a target's buffers are too short for."""
    return (
        f"a tensor of {nbytes:,} bytes is longer than the {limits.max_storage_buffer_range:,} that "
        f"target {limits.name!r} allows; give smaller shapes with --shape, or another --target"
    )


def _check_buffers(plan: Plan, limits: DeviceLimits) -> None:
    """Check that shaders can see each buffer whole."""
    bound = {b.buffer for d in plan.dispatches for b in d.bindings}
    most = limits.max_storage_buffer_range
    long = [plan.buffers[n] for n in sorted(bound) if plan.buffers[n].nbytes > most]
    if long:
        raise ExportError([f"{b.name}: {too_long(b.nbytes, limits)}" for b in long])
