"""TensorIterator's port map and back edges, worked out for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.iteration import body_inputs, resolve_place
from vknn.formats.openvino.layers.control.slices import AxisSlices
from vknn.formats.openvino.records import Iteration, Net, Place, PortMapping
from vknn.graph import Value


@dataclass(frozen=True)
class Loop:
    """A TensorIterator with its port map resolved for the shapes of its inputs.

    ``places``: body input -> value, not cut into slices. ``slices``: body input -> its slices, for
    those that are cut. ``carried``: body input -> body output, by back edges. ``outputs``: body
    output of each output, with its port mapping where the output is joined from slices. ``count``:
    the number of iterations.
    """

    iteration: Iteration
    places: Mapping[Place, Value]
    slices: Mapping[Place, AxisSlices]
    carried: Mapping[Place, Place]
    outputs: Sequence[tuple[Place, PortMapping | None]]
    count: int

    @property
    def body(self) -> Net:
        return self.iteration.body


def read_loop(c: Context) -> Loop:
    """The Loop of a TensorIterator. Raises Malformed where its port map contradicts the shapes."""
    iteration = c.layer.iteration
    assert iteration is not None
    takes = body_inputs(iteration.body)
    gives = {(x.id, p.id) for x in iteration.body.layers for p in x.outputs}
    number = {port.id: i for i, port in enumerate(c.layer.inputs)}
    places: dict[Place, Value] = {}
    slices: dict[Place, AxisSlices] = {}
    for rule in iteration.inputs:
        place = resolve_place(iteration.body, rule.inner, takes)
        places[place] = value = c.value(number[rule.external])
        if rule.axis is not None:
            axis = c.axis(rule.axis, value.type.rank)
            inner = takes[place]
            width = inner[axis] if axis < len(inner) else None
            slices[place] = AxisSlices.of(c, rule, axis, value.type.dims[axis], width)
    by_port = {rule.external: rule for rule in iteration.outputs}
    outputs: list[tuple[Place, PortMapping | None]] = []
    for port in c.layer.outputs:
        rule = by_port[port.id]
        place = resolve_place(iteration.body, rule.inner, gives)
        outputs.append((place, None if rule.axis is None else rule))
    carried = {
        resolve_place(iteration.body, target, takes): resolve_place(iteration.body, source, gives)
        for source, target in iteration.back_edges
    }
    return Loop(iteration, places, slices, carried, outputs, _count(c, slices, outputs))


def _count(
    c: Context,
    slices: Mapping[Place, AxisSlices],
    outputs: Sequence[tuple[Place, PortMapping | None]],
) -> int:
    """The number of iterations: that of the inputs' slices or, without any, of the outputs'."""
    counts = {w.count for w in slices.values()}
    if not counts:
        for number, (_, rule) in enumerate(outputs):
            if rule is not None:
                dims = c.declared(number)
                axis = c.axis(rule.axis or 0, len(dims))
                counts.add(AxisSlices.of(c, rule, axis, dims[axis], None).count)
    c.require(len(counts) <= 1, f"its slices ask for {sorted(counts)} iterations at once")
    count = counts.pop() if counts else 1
    c.require(count > 0, "its slices are wider than what is sliced")
    return count
