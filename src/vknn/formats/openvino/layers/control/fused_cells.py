"""Fusion of TensorIterator bodies that are one recurrent cell to one op over the whole sequence.

The body may hold layers that only drop or add axes of size 1, as Model Optimizer writes them:
Reshape, Squeeze, Unsqueeze, Flatten.
"""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.openvino.build import GraphBuild
from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.control.loop import Loop
from vknn.formats.openvino.layers.control.slices import AxisSlices
from vknn.formats.openvino.layers.recurrent.cells import Cell, cell_kind, read_cell, walk
from vknn.formats.openvino.records import LayerRecord, Net, PortRef
from vknn.formats.openvino.stages import body_stage
from vknn.graph import DType, GraphBuilder, TensorType, Value
from vknn.ops.movement.shape import Slice

_SHAPING = ("reshape", "squeeze", "unsqueeze", "flatten")


def fuse(c: Context, loop: Loop) -> list[Value] | None:
    """The outputs of a TensorIterator whose body is one cell; None for other bodies."""
    found = _cell(loop.body)
    if found is None or not _is_plain(loop, found):
        return None
    slices = loop.slices[_entry(loop.body, found)]
    shapes = _shapes(c, loop)
    kind = cell_kind(found.type)
    assert kind is not None
    inner = Context(c.build, found, (), f"{c.origin.name}/")
    direction = "reverse" if slices.stride < 0 else "forward"
    cell = read_cell(inner, kind, direction)
    whole = c.cast(loop.inputs[_entry(loop.body, found)], DType.FLOAT32)
    rows = whole.type.size // slices.size // cell.inputs
    x = _steps_first(c, whole, slices, (rows, cell.inputs))
    states = [
        c.reshape(c.cast(loop.inputs[ref], x.type.dtype), (1, rows, cell.hidden))
        for ref in _states(loop.body, found)
    ]
    return _outputs(c, loop, found, cell, walk(inner, cell, x, states), shapes)


def _cell(body: Net) -> LayerRecord | None:
    """The cell of a body that holds one cell and otherwise shaping layers, inputs and constants."""
    cells = [x for x in body.layers if cell_kind(x.type)]
    others = [x for x in body.layers if not cell_kind(x.type)]
    plain = all(x.type.lower() in (*_SHAPING, "const", "input") for x in others)
    return cells[0] if len(cells) == 1 and plain else None


def _entry(body: Net, cell: LayerRecord) -> PortRef:
    """The body input that becomes the cell's X, through shaping layers only."""
    ref = (cell.id, cell.inputs[0].id)
    layers = body.by_id()
    while ref in body.sources:
        before = layers[body.sources[ref][0]]
        if not before.inputs:
            return body.sources[ref]
        ref = (before.id, before.inputs[0].id)
    return ref


def _states(body: Net, cell: LayerRecord) -> dict[PortRef, PortRef]:
    """Body input of a state -> the cell's output of that state."""
    enters = [(cell.id, port.id) for port in cell.inputs[1:]]
    pairs = zip(enters, cell.outputs, strict=False)
    return {body.sources.get(ref, ref): (cell.id, port.id) for ref, port in pairs}


def _exit(body: Net, ref: PortRef) -> PortRef:
    """The output that ``ref`` equals but for its shape."""
    layers = body.by_id()
    while layers[ref[0]].type.lower() in _SHAPING:
        source = body.sources.get((ref[0], layers[ref[0]].inputs[0].id))
        if source is None:
            return ref
        ref = source
    return ref


def _is_plain(loop: Loop, cell: LayerRecord) -> bool:
    """Whether X is cut into single steps, states return to the cell and outputs are the cell's."""
    entry, states = _entry(loop.body, cell), _states(loop.body, cell)
    if set(loop.slices) != {entry} or set(loop.inputs) != {entry, *states}:
        return False
    window = loop.slices[entry]
    if window.width != 1 or abs(window.stride) != 1 or dict(loop.carried) != states:
        return False
    first = (cell.id, cell.outputs[0].id)
    for ref, mapping in loop.outputs:
        if mapping is None and ref not in states.values():
            return False
        if mapping is not None and _exit(loop.body, ref) != first:
            return False
    return True


def _shapes(c: Context, loop: Loop) -> dict[PortRef, tuple[int, ...]]:
    """Shapes in the body: one iteration, converted to a separate graph, which also checks it."""
    builder = GraphBuilder("aside")
    fed = {}
    for ref, value in loop.inputs.items():
        dims = list(value.type.dims)
        if ref in loop.slices:
            dims[loop.slices[ref].axis] = 1
        fed[ref] = builder.input("x", TensorType(tuple(dims), value.type.dtype))
    build = GraphBuild(builder, c.build.source, c.build.as_declared)
    aside = Context(build, c.layer, c.inputs, c.scope)
    stage = body_stage(aside, loop.body, fed, "", {})
    stage.run()
    return {ref: value.type.dims for ref, value in stage.known.items()}


def _steps_first(c: Context, x: Value, slices: AxisSlices, row: Sequence[int]) -> Value:
    """The slices of x as [T, N, D]."""
    low = min(slices.begin(0), slices.begin(slices.count - 1))
    if slices.count < slices.size:
        x = c.add(Slice((low,), (low + slices.count,), (slices.axis,)), x)
    others = [a for a in range(x.type.rank) if a != slices.axis]
    return c.reshape(c.transpose(x, (slices.axis, *others)), (slices.count, *row))


def _outputs(
    c: Context,
    loop: Loop,
    cell: LayerRecord,
    op: Cell,
    results: Sequence[Value],
    shapes: dict[PortRef, tuple[int, ...]],
) -> list[Value] | None:
    """The loop's outputs, made of Y [T, 1, N, S] and the last states; None where Y does not do."""
    last = {(cell.id, p.id): v for p, v in zip(cell.outputs, results[1:], strict=False)}
    found: list[Value] = []
    for number, (ref, mapping) in enumerate(loop.outputs):
        dims = shapes[ref]
        if mapping is None:
            found.append(c.reshape(last[ref], dims))
            continue
        axis = c.axis(mapping.axis or 0, len(dims))
        slices = AxisSlices.for_output(c, mapping, axis, dims[axis], loop.count, number)
        if not slices.covers_all or slices.width != 1:
            return None
        y = results[0]
        if (slices.stride < 0) != (op.op.direction == "reverse"):
            y = c.add(Slice((-1,), (-(1 << 31),), (0,), (-1,)), y)
        rest = (*dims[:axis], *dims[axis + 1 :])
        y = c.reshape(y, (loop.count, *rest))
        order = list(range(1, len(dims)))
        order.insert(axis, 0)
        found.append(c.transpose(y, order))
    return found
