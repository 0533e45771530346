"""Random graphs of what joins, cuts and computes: plans are sound, results are the reference's."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers import ACCESS_MODES, GUARD_BYTES, assert_close, run_graph, shared_device
from tests.lowering.test_plans import CPU, DISCRETE, MINIMUM, random

from vknn import reference
from vknn.graph import Graph, GraphBuilder, TensorType, Value
from vknn.lowering import LoweringOptions, check_plan, lower
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Exp, Sigmoid
from vknn.ops.movement.shape import ChannelShuffle, Concat, Reshape, Slice
from vknn.ops.pooling.pool import MaxPool

pytestmark = pytest.mark.long

POOL = MaxPool(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
STEPS = ("conv", "slice", "concat", "concat", "sigmoid", "add", "pool", "reshape", "shuffle")
SWITCHES = ("concat", "aliasing", "layouts", "texel", "side-by-side")
#: The fixture that sets a cache folder is the same for all examples of a test.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


class Growth:
    """A graph that takes its steps from ``draw``; every value has values between 0 and some 10."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.g = GraphBuilder("random")
        batch, channels = draw(st.sampled_from((1, 1, 1, 2))), draw(st.integers(1, 13))
        size = draw(st.integers(1, 5))
        x = self.g.input("x", TensorType((batch, channels, size, draw(st.integers(1, 5)))))
        self.values = [x, self.g.add(Sigmoid(), x)]

    def pick(self, like: Value | None = None, axis: int | None = None) -> Value:
        """Any value, or one like another, but for its size along ``axis``."""
        fitting = [v for v in self.values if like is None or _differ(v, like) <= {axis}]
        return self.draw(st.sampled_from(fitting))

    def grow(self) -> None:
        value = getattr(self, self.draw(st.sampled_from(STEPS)))()
        if value is not None and value.type.size <= 4000:
            self.values.append(value)

    def conv(self) -> Value:
        x = self.pick()
        if x.type.rank != 4:
            return self.g.add(Exp(), self.g.add(Sigmoid(), x))
        shape = (self.draw(st.integers(1, 13)), x.type.dims[1], 1, 1)
        weights = np.abs(random(*shape)) / shape[1]
        return self.g.add(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, self.g.constant(weights), None)

    def slice(self) -> Value:
        x = self.pick()
        axis = self.draw(st.integers(0, x.type.rank - 1))
        start = self.draw(st.integers(0, x.type.dims[axis] - 1))
        end = self.draw(st.integers(start + 1, x.type.dims[axis]))
        return self.g.add(Slice((start,), (end,), (axis,)), x)

    def concat(self) -> Value:
        first = self.pick()
        axis = self.draw(st.sampled_from((1, 1, *range(first.type.rank))))
        axis = min(axis, first.type.rank - 1)
        count = self.draw(st.integers(0, 3))
        return self.g.add(Concat(axis), first, *(self.pick(first, axis) for _ in range(count)))

    def sigmoid(self) -> Value:
        return self.g.add(Sigmoid(), self.pick())

    def add(self) -> Value:
        x = self.pick()
        return self.g.add(Sigmoid(), self.g.add(Add(), x, self.pick(x)))

    def pool(self) -> Value | None:
        x = self.pick()
        return self.g.add(POOL, x) if x.type.rank == 4 else None

    def reshape(self) -> Value:
        x = self.pick()
        n = x.type.dims[0]
        return self.g.add(Reshape((n, x.type.size // n)), x)

    def shuffle(self) -> Value:
        x = self.pick()
        return self.g.add(ChannelShuffle(2 if x.type.dims[1] % 2 == 0 else 1), x)


def _differ(a: Value, b: Value) -> set[int]:
    """The axes along which the values differ; -1 where their ranks do."""
    if a.type.rank != b.type.rank:
        return {-1}
    pairs = zip(a.type.dims, b.type.dims, strict=True)
    return {axis for axis, (p, q) in enumerate(pairs) if p != q}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    growth = Growth(draw)
    for _ in range(draw(st.integers(1, 14))):
        growth.grow()
    others = draw(st.lists(st.sampled_from(growth.values), max_size=2))
    ends = dict.fromkeys([growth.values[-1], *others])
    return growth.g.finish({f"y{i}": v for i, v in enumerate(ends)})


@settings(max_examples=150, **COMMON)
@given(
    graphs(),
    st.sampled_from((CPU, DISCRETE, MINIMUM)),
    st.sampled_from((16, 64, 256)),
    st.sampled_from(("fp32", "fp16")),
    st.sets(st.sampled_from(SWITCHES), max_size=1),
    st.sampled_from((0, GUARD_BYTES)),
)
def test_plans_are_sound(graph, device, alignment, precision, disabled, guard):
    limits = dataclasses.replace(device, storage_alignment=alignment, texel_alignment=16)
    options = LoweringOptions(frozenset(disabled), guard=guard, precision=precision)
    check_plan(lower(graph, limits, options), limits)


@pytest.mark.device
@settings(max_examples=40, **COMMON)
@given(
    graphs(),
    st.sampled_from((16, 64)),
    st.sampled_from(ACCESS_MODES),
    st.sampled_from((0, GUARD_BYTES)),
    st.sampled_from(("cpu", "discrete")),
)
def test_results_are_the_references(graph, alignment, mode, guard, kind):
    """Plans for GPUs too: their forms of kernels, and commands side by side."""
    limits = dataclasses.replace(
        shared_device().limits, storage_alignment=alignment, preferred_access=mode, kind=kind
    )
    feeds = {v.name: random(*v.type.dims) for v in graph.inputs}
    results = run_graph(graph, limits, LoweringOptions(guard=guard), feeds)
    for name, want in reference.run(graph, feeds).items():
        assert_close(results[name], want, 1e-5, name)
