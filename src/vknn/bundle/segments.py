"""The one segment that a bundle holds: a graph's plan, or all that keeps it from being one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vknn.errors import ExportError, UnsupportedLayerError
from vknn.graph import DType, Graph, Node, TensorType, Value
from vknn.lowering import LoweringOptions, WeightCache, lower
from vknn.ops.elementwise import Cast
from vknn.partition import Partition
from vknn.plan import DeviceLimits, Plan
from vknn.planning import outlined

#: Integers that only the host holds; as the type of an output they are widened behind the plan.
_WIDE = (DType.INT64, DType.UINT32, DType.UINT64)
_CUT = "cut the network in front of it with --outputs"


def planned(graph: Graph, limits: DeviceLimits, options: LoweringOptions) -> tuple[Graph, Plan]:
    """The graph as it runs on a device of these limits, all of it, and its plan.

    The names of the plan's inputs and outputs are the graph's. Raises ExportError, which lists
    every layer that cannot be part of it.
    """
    parts = outlined(with_narrow_outputs(graph), limits, options).parts
    reasons = tuple(dict.fromkeys(_obstacles(parts, limits)))
    if reasons:
        raise ExportError(reasons)
    try:
        plan = lower(parts.graph, limits, options, WeightCache(), parts.candidates)
    except UnsupportedLayerError as error:
        raise ExportError([f"{layer}: no kernel takes it; {_CUT}" for layer in error.layers]) from (
            error
        )
    _check_buffers(plan, limits)
    return parts.graph, plan


def with_narrow_outputs(graph: Graph) -> Graph:
    """The graph with outputs of 64-bit integers in 32 bits, where a Cast of its end makes them.

    The device holds integers of 32 bits; a port's conversion widens them. Numbers beyond 32 bits
    saturate.
    """
    consumers = graph.consumers()
    nodes, replaced = [], {}
    for node in graph.nodes:
        if isinstance(node.op, Cast) and node.op.to in _WIDE and not consumers.get(node.outputs[0]):
            op, [source] = Cast(DType.INT32, node.op.nan_to_most), node.inputs
            assert source is not None
            old = node.outputs[0]
            value = Value(old.name, op.infer(source.type)[0])
            replaced[old] = value
            node = Node(op, node.inputs, (value,), node.name, node.origin)
        nodes.append(node)
    if not replaced:
        return graph
    narrow = graph.replace(nodes, replaced)
    narrow.blobs = graph.blobs
    return narrow


def _obstacles(parts: Partition, limits: DeviceLimits) -> Iterator[str]:
    """Reasons why a graph is not one plan."""
    graph = parts.graph
    for what, values in (("input", graph.inputs), ("output", graph.outputs.values())):
        for value in values:
            if not value.type.dtype.on_device:
                yield (
                    f"{what} {value.name!r} has elements of type {value.type.dtype.value}, which "
                    "no device holds; cut the network with --outputs, or convert it beforehand"
                )
            elif value.type.is_static and value.type.size == 0:
                yield f"{what} {value.name!r} has no elements; give another shape with --shape"
    for node in graph.nodes:
        if parts.placement[node] == "host" and node not in parts.deferred:
            yield f"{node.origin}: {_why_host(node, limits)}"
    for node in parts.deferred:
        yield (
            f"{node.origin}: its shapes hang on data that are computed at run time; {_CUT}, or fix "
            "with --fixed the input that decides"
        )
    if graph.continuation is not None:
        counts = Counter(graph.continuation.layers)
        layers = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
        yield (
            f"{layers or 'its end'}: loops, branches or computed shapes, of which data decide how "
            f"they go on; {_CUT}, or fix with --fixed the inputs that decide"
        )


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


def is_too_large(type_: TensorType, limits: DeviceLimits) -> bool:
    """Whether a tensor, of 32 bits an element, is longer than a target's buffers."""
    return 4 * type_.size > limits.max_storage_buffer_range
