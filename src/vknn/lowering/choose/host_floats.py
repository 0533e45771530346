"""Inputs and outputs that stay float32 at a float16 plan's edge: a repack on the device converts.

NumPy takes nanoseconds a number to convert; a GPU's repack between row-major order and C4 converts
what it moves anyway. On a CPU driver the same cores would do it, so there the host does.
"""

from __future__ import annotations

from collections.abc import Mapping

from vknn.graph import DType, Graph, Node, TensorType, Value
from vknn.lowering.choose.layout_assignment import wanted_layouts
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.layouts import Layout, same_bytes, storage_bytes
from vknn.lowering.kit.problem import LoweringOptions
from vknn.plan import DeviceLimits


def repack_converts(type_: TensorType, limits: DeviceLimits, options: LoweringOptions) -> bool:
    """True where a repack of this type to or from C4 may have float32 on its row-major side."""
    if not options.half or limits.kind == "cpu" or not type_.is_static:
        return False
    if type_.dtype is not DType.FLOAT32 or type_.rank < 2:
        return False
    fits = storage_bytes(type_, Layout.LINEAR) <= limits.max_storage_buffer_range
    return fits and not same_bytes(type_, Layout.LINEAR, Layout.C4)


def float32_inputs(
    graph: Graph,
    chosen: Mapping[Node, Candidate],
    limits: DeviceLimits,
    options: LoweringOptions,
) -> set[Value]:
    """The inputs that nothing but a repack to C4 reads, and for which it may convert.

    And those that layers read which keep float32: others have them converted on the device.
    """
    single: set[Value | None] = set()
    halves = []
    for node in chosen:
        if options.half and not options.of(node.origin.name).half:
            single.update(node.inputs)
        else:
            halves.append(node)
    kept = {v for v in graph.inputs if v in single}
    able = {v for v in graph.inputs if repack_converts(v.type, limits, options)} - kept
    if not able:
        return kept
    wanted = [pair for node in halves for pair in wanted_layouts(node, chosen[node])]
    packed = {v for v, layout in wanted if layout is Layout.C4}
    plain = {v for v, layout in wanted if layout is not Layout.C4} | set(graph.outputs.values())
    return kept | ((able & packed) - plain)
