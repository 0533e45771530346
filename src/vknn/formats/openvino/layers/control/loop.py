"""TensorIterator's port map and back edges, worked out for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.iteration import body_inputs, resolve_port
from vknn.formats.openvino.layers.control.slices import AxisSlices
from vknn.formats.openvino.records import Iteration, Net, PortMapping, PortRef
from vknn.graph import Value


@dataclass(frozen=True)
class Loop:
    """A TensorIterator with its port map resolved for the shapes of its inputs.

    ``inputs``: body input -> value, not cut into slices. ``slices``: body input -> its slices, for
    those that are cut. ``carried``: body input -> body output, by back edges. ``outputs``: body
    output of each output, with its port mapping where the output is joined from slices. ``count``:
    the number of iterations.
    """

    iteration: Iteration
    inputs: Mapping[PortRef, Value]
    slices: Mapping[PortRef, AxisSlices]
    carried: Mapping[PortRef, PortRef]
    outputs: Sequence[tuple[PortRef, PortMapping | None]]
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
    inputs: dict[PortRef, Value] = {}
    slices: dict[PortRef, AxisSlices] = {}
    for mapping in iteration.inputs:
        ref = resolve_port(iteration.body, mapping.inner, takes)
        inputs[ref] = value = c.value(number[mapping.external])
        if mapping.axis is not None:
            axis = c.axis(mapping.axis, value.type.rank)
            inner = takes[ref]
            width = inner[axis] if axis < len(inner) else None
            slices[ref] = AxisSlices.of(c, mapping, axis, value.type.dims[axis], width)
    by_port = {mapping.external: mapping for mapping in iteration.outputs}
    outputs: list[tuple[PortRef, PortMapping | None]] = []
    for port in c.layer.outputs:
        mapping = by_port[port.id]
        ref = resolve_port(iteration.body, mapping.inner, gives)
        outputs.append((ref, None if mapping.axis is None else mapping))
    carried = {
        resolve_port(iteration.body, target, takes): resolve_port(iteration.body, source, gives)
        for source, target in iteration.back_edges
    }
    return Loop(iteration, inputs, slices, carried, outputs, _count(c, slices, outputs))


def _count(
    c: Context,
    slices: Mapping[PortRef, AxisSlices],
    outputs: Sequence[tuple[PortRef, PortMapping | None]],
) -> int:
    """The number of iterations: that of the inputs' slices or, without any, of the outputs'."""
    counts = {w.count for w in slices.values()}
    if not counts:
        for number, (_, mapping) in enumerate(outputs):
            if mapping is not None:
                dims = c.declared(number)
                axis = c.axis(mapping.axis or 0, len(dims))
                counts.add(AxisSlices.of(c, mapping, axis, dims[axis], None).count)
    c.require(len(counts) <= 1, f"its slices ask for {sorted(counts)} iterations at once")
    count = counts.pop() if counts else 1
    c.require(count > 0, "its slices are wider than what is sliced")
    return count
