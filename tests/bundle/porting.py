"""Ported plans of small models, run on the device of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.helpers import shared_device

import vknn
from vknn.bundle.ends import narrowed
from vknn.bundle.ports import PortedPlan, ported
from vknn.bundle.schema import Direction
from vknn.formats import Model
from vknn.graph import DType, Graph, TensorType
from vknn.lowering import LoweringOptions, WeightCache, check_plan
from vknn.plan import DeviceLimits, Dispatch
from vknn.planning import outlined
from vknn.runtime import Executable
from vknn.session import engine_of


@dataclass(frozen=True, eq=False)
class Ported:
    """A session's model with its plan for some inputs."""

    model: Model
    graph: Graph
    steps: int  # of the plan before
    result: PortedPlan

    def port(self, name: str) -> Any:
        (found,) = (p for p in self.result.ports if p.name == name)
        return found

    @property
    def inputs(self) -> list[str]:
        return [p.name for p in self.result.ports if p.direction is Direction.INPUT]

    @property
    def conversions(self) -> list[str]:
        """Ports at which dispatches convert, "input x" and the like."""
        return [
            f"{d.label.partition(' ')[0]} {d.nodes[0]}"
            for d in self.result.plan.dispatches
            if d.kernel == "movement/port"
        ]

    def run(self, feeds: Mapping[str, Any], **states: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs and states; first values of states that are not given."""
        plan, given = self.result.plan, {}
        for name, port in plan.inputs.items():
            dtype = port.type.dtype.numpy
            if name in self.model.state:
                first = np.full(port.type.dims, self.model.first_state.get(name, 0), dtype)
                given[name] = states.get(name, first)
            else:
                given[name] = np.ascontiguousarray(feeds[name], dtype).reshape(port.type.dims)
        with Executable(shared_device(), plan) as executable:
            return executable.run(given)


def port_session(
    session: vknn.Session,
    feeds: Mapping[str, Any],
    limits: DeviceLimits | None = None,
    options: LoweringOptions | None = None,
    blobs: Sequence[str] = (),
) -> Ported:
    """The ported plan of a session's model for inputs like these; ``blobs`` in place of outputs."""
    limits = limits or shared_device().limits
    model = session.model
    arrays = engine_of(session).encode(feeds)
    types = {n: TensorType(np.shape(feeds[n]), DType.of(arrays[n])) for n in feeds}
    built = model.build(types, {})
    if blobs:
        built.outputs = {name: built.blobs[name] for name in blobs}
    dtypes = {name: value.type.dtype for name, value in built.outputs.items()}
    graph = narrowed(built)
    outline = outlined(graph, limits, options or LoweringOptions(precision=session.precision))
    (segment,) = outline.segments
    plan = outline.lowered(segment, WeightCache())
    result = ported(model, outline.parts.graph, plan, limits, types, dtypes)
    check_plan(result.plan, limits)
    return Ported(model, outline.parts.graph, len(plan.steps), result)


def same_as_session(session: vknn.Session, feeds: Mapping[str, Any], made: Ported) -> None:
    """Asserts that a ported plan gives a session's outputs, bit for bit, in its types."""
    got = made.run(feeds)
    expected = engine_of(session).run(feeds)
    assert set(got) - set(made.model.state) == set(expected)
    for name, right in expected.items():
        wanted = np.asarray(right)
        if name in made.model.class_labels:
            wanted = wanted.reshape(-1)
        assert got[name].dtype == wanted.dtype, name
        assert got[name].shape == wanted.shape, name
        np.testing.assert_array_equal(got[name], wanted, err_msg=name)


def sends_every_dispatch_what_it_declares(made: Ported) -> None:
    """Asserts that conversions bind what the kernel declares."""
    from tests.lowering.declarations import check_declarations

    for dispatch in made.result.plan.dispatches:
        if isinstance(dispatch, Dispatch) and dispatch.kernel == "movement/port":
            check_declarations(dispatch)
