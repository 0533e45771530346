"""TensorIterator: its body over the slices of its inputs, one copy for each iteration.

Bodies that are a recurrent cell become one recurrent op (``fused``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.iteration import body_inputs, resolved
from vknn.formats.openvino.layers.control.fused_cells import fuse
from vknn.formats.openvino.records import Iteration, Net, Place, PortRule
from vknn.formats.openvino.registry import layer
from vknn.formats.openvino.stages import body_stage
from vknn.formats.openvino.windows import Windows
from vknn.graph import Value
from vknn.ops.movement.shape import Concat, Slice


@dataclass(frozen=True)
class Loop:
    """A TensorIterator with its rules worked out for the inputs at hand.

    ``places``: body input -> value (whole). ``windows``: of those that are sliced, and of outputs
    that are put together from slices, by their number. ``carried``: body input -> body output.
    """

    iteration: Iteration
    places: Mapping[Place, Value]
    windows: Mapping[Place, Windows]
    carried: Mapping[Place, Place]
    outputs: Sequence[tuple[Place, PortRule | None]]
    count: int

    @property
    def body(self) -> Net:
        return self.iteration.body


@layer("TensorIterator", inputs=(0, None), outputs=(1, None))
def tensor_iterator(c: Context) -> Sequence[Value]:
    loop = read_loop(c)
    fused = fuse(c, loop)
    return unroll(c, loop) if fused is None else fused


def read_loop(c: Context) -> Loop:
    """Checks the rules against the shapes of the inputs."""
    iteration = c.layer.iteration
    assert iteration is not None
    takes = body_inputs(iteration.body)
    gives = {(x.id, p.id) for x in iteration.body.layers for p in x.outputs}
    number = {port.id: i for i, port in enumerate(c.layer.inputs)}
    places: dict[Place, Value] = {}
    windows: dict[Place, Windows] = {}
    for rule in iteration.inputs:
        place = resolved(iteration.body, rule.inner, takes)
        places[place] = value = c.value(number[rule.external])
        if rule.axis is not None:
            axis = c.axis(rule.axis, value.type.rank)
            inner = takes[place]
            width = inner[axis] if axis < len(inner) else None
            windows[place] = Windows.of(c, rule, axis, value.type.dims[axis], width)
    by_port = {rule.external: rule for rule in iteration.outputs}
    outputs: list[tuple[Place, PortRule | None]] = []
    for port in c.layer.outputs:
        rule = by_port[port.id]
        place = resolved(iteration.body, rule.inner, gives)
        outputs.append((place, None if rule.axis is None else rule))
    carried = {
        resolved(iteration.body, target, takes): resolved(iteration.body, source, gives)
        for source, target in iteration.back_edges
    }
    return Loop(iteration, places, windows, carried, outputs, _count(c, windows, outputs))


def _count(
    c: Context,
    windows: Mapping[Place, Windows],
    outputs: Sequence[tuple[Place, PortRule | None]],
) -> int:
    """The number of iterations: of the slices of the inputs or, without any, of the outputs."""
    counts = {w.count for w in windows.values()}
    if not counts:
        for number, (_, rule) in enumerate(outputs):
            if rule is not None:
                dims = c.declared(number)
                axis = c.axis(rule.axis or 0, len(dims))
                counts.add(Windows.of(c, rule, axis, dims[axis], None).count)
    c.require(len(counts) <= 1, f"its slices ask for {sorted(counts)} iterations at once")
    count = counts.pop() if counts else 1
    c.require(count > 0, "its slices are wider than what is sliced")
    return count


def unroll(c: Context, loop: Loop) -> list[Value]:
    """The body as often as there are iterations."""
    c.around.count_layers(c.layer.name, loop.count * len(loop.body.layers))
    collected: list[list[Value]] = [[] for _ in loop.outputs]
    state = {place: loop.places[place] for place in loop.carried}
    fixed = _invariant(loop)
    known: dict[Place, Value] = {}
    for turn in range(loop.count):
        fed = {**loop.places, **state}
        for place, windows in loop.windows.items():
            fed[place] = _window(c, loop.places[place], windows, turn)
        stage = body_stage(c, loop.body, fed, f"[{turn}]", known)
        stage.run()
        state = {place: stage.known[source] for place, source in loop.carried.items()}
        known = {place: stage.known[place] for place in fixed}
        for place, value in state.items():
            first = loop.places[place]
            c.require(
                value.type.shape == first.type.shape,
                f"a back edge carries {value.type} where the first value is {first.type}",
            )
        for number, (place, rule) in enumerate(loop.outputs):
            if rule is not None or turn == loop.count - 1:
                collected[number].append(stage.known[place])
    return [
        parts[0] if rule is None else _assembled(c, rule, number, parts)
        for number, ((_, rule), parts) in enumerate(zip(loop.outputs, collected, strict=True))
    ]


def _invariant(loop: Loop) -> list[Place]:
    """The body's outputs that are the same in all iterations."""
    varies = {place for place in loop.places if place in loop.windows or place in loop.carried}
    changing = {id_ for id_, _ in varies}
    fixed: list[Place] = []
    for layer_ in loop.body.layers:
        sources = [loop.body.sources.get((layer_.id, p.id)) for p in layer_.inputs]
        if any(s is not None and s[0] in changing for s in sources):
            changing.add(layer_.id)
        if layer_.id not in changing:
            fixed += [(layer_.id, p.id) for p in layer_.outputs]
    return fixed


def _window(c: Context, whole: Value, windows: Windows, turn: int) -> Value:
    start = windows.begin(turn)
    if windows.width == whole.type.dims[windows.axis]:
        return whole
    return c.add(Slice((start,), (start + windows.width,), (windows.axis,)), whole)


def _assembled(c: Context, rule: PortRule, number: int, parts: Sequence[Value]) -> Value:
    """The slices of an output at their places; what no slice covers is 0."""
    dims = parts[0].type.dims
    axis = c.axis(rule.axis or 0, len(dims))
    windows = Windows.for_output(c, rule, axis, dims[axis], len(parts), number)
    placed = sorted((windows.begin(turn), part) for turn, part in enumerate(parts))
    pieces: list[Value] = []
    filled = 0
    for begin, part in [*placed, (windows.size, None)]:
        c.require(begin >= filled, "the slices of an output lie over each other")
        if begin > filled:
            gap = (*dims[:axis], begin - filled, *dims[axis + 1 :])
            pieces.append(c.constant(np.zeros(gap, parts[0].type.dtype.numpy), "gap"))
        if part is not None:
            pieces.append(part)
            filled = begin + windows.width
    return pieces[0] if len(pieces) == 1 else c.add(Concat(axis), *pieces)
