"""TensorIterator, unrolled: one copy of its body for each iteration.

A body that is one recurrent cell becomes one recurrent op instead (``fused_cells``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.control.fused_cells import fuse
from vknn.formats.openvino.layers.control.loop import Loop, read_loop
from vknn.formats.openvino.layers.control.slices import AxisSlices
from vknn.formats.openvino.records import PortMapping, PortRef
from vknn.formats.openvino.registry import layer
from vknn.formats.openvino.stages import body_stage
from vknn.graph import Value
from vknn.ops.movement.shape import Concat, Slice


@layer("TensorIterator", inputs=(0, None), outputs=(1, None))
def tensor_iterator(c: Context) -> Sequence[Value]:
    loop = read_loop(c)
    fused = fuse(c, loop)
    return unroll(c, loop) if fused is None else fused


def unroll(c: Context, loop: Loop) -> list[Value]:
    """The outputs of a TensorIterator whose body is converted once for each iteration."""
    c.build.count_layers(c.layer.name, loop.count * len(loop.body.layers))
    collected: list[list[Value]] = [[] for _ in loop.outputs]
    state = {ref: loop.inputs[ref] for ref in loop.carried}
    fixed = _invariant(loop)
    known: dict[PortRef, Value] = {}
    for iteration in range(loop.count):
        fed = {**loop.inputs, **state}
        for ref, slices in loop.slices.items():
            fed[ref] = _slice_of(c, loop.inputs[ref], slices, iteration)
        stage = body_stage(c, loop.body, fed, f"[{iteration}]", known)
        stage.run()
        state = {ref: stage.known[source] for ref, source in loop.carried.items()}
        known = {ref: stage.known[ref] for ref in fixed}
        for ref, value in state.items():
            first = loop.inputs[ref]
            c.require(
                value.type.shape == first.type.shape,
                f"a back edge carries {value.type} where the first value is {first.type}",
            )
        for number, (ref, mapping) in enumerate(loop.outputs):
            if mapping is not None or iteration == loop.count - 1:
                collected[number].append(stage.known[ref])
    return [
        parts[0] if mapping is None else _assembled(c, mapping, number, parts)
        for number, ((_, mapping), parts) in enumerate(zip(loop.outputs, collected, strict=True))
    ]


def _invariant(loop: Loop) -> list[PortRef]:
    """The body's outputs that are the same in all iterations."""
    varies = {ref for ref in loop.inputs if ref in loop.slices or ref in loop.carried}
    changing = {id_ for id_, _ in varies}
    fixed: list[PortRef] = []
    for layer_ in loop.body.layers:
        sources = [loop.body.sources.get((layer_.id, p.id)) for p in layer_.inputs]
        if any(s is not None and s[0] in changing for s in sources):
            changing.add(layer_.id)
        if layer_.id not in changing:
            fixed += [(layer_.id, p.id) for p in layer_.outputs]
    return fixed


def _slice_of(c: Context, whole: Value, slices: AxisSlices, iteration: int) -> Value:
    start = slices.begin(iteration)
    if slices.width == whole.type.dims[slices.axis]:
        return whole
    return c.add(Slice((start,), (start + slices.width,), (slices.axis,)), whole)


def _assembled(c: Context, mapping: PortMapping, number: int, parts: Sequence[Value]) -> Value:
    """An output joined from its slices; elements that no slice covers are 0."""
    dims = parts[0].type.dims
    axis = c.axis(mapping.axis or 0, len(dims))
    slices = AxisSlices.for_output(c, mapping, axis, dims[axis], len(parts), number)
    placed = sorted((slices.begin(iteration), part) for iteration, part in enumerate(parts))
    pieces: list[Value] = []
    filled = 0
    for begin, part in [*placed, (slices.size, None)]:
        c.require(begin >= filled, "the slices of an output lie over each other")
        if begin > filled:
            gap = (*dims[:axis], begin - filled, *dims[axis + 1 :])
            pieces.append(c.constant(np.zeros(gap, parts[0].type.dtype.numpy), "gap"))
        if part is not None:
            pieces.append(part)
            filled = begin + slices.width
    return pieces[0] if len(pieces) == 1 else c.add(Concat(axis), *pieces)
