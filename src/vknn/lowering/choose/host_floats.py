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
    """The inputs that nothing but a repack to C4 reads, and for which it may convert."""
    able = {v for v in graph.inputs if repack_converts(v.type, limits, options)}
    if not able:
        return able
    wanted = [
        pair for node, candidate in chosen.items() for pair in wanted_layouts(node, candidate)
    ]
    packed = {v for v, layout in wanted if layout is Layout.C4}
    plain = {v for v, layout in wanted if layout is not Layout.C4} | set(graph.outputs.values())
    return (able & packed) - plain
