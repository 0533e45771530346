"""Layouts are chosen for the whole graph: as few repacks as possible."""

import numpy as np
from tests.lowering.test_plans import CPU, random

from vknn.graph import GraphBuilder, TensorType
from vknn.lowering import Layout, LoweringOptions, lower
from vknn.lowering.choose.layout_assignment import _Assignment, assign, repack_cost
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.machine import machine_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Relu
from vknn.ops.movement.shape import Transpose

MACHINE = machine_of(CPU)
CONV = Conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))


def candidate(layout, cost=0.0, out=None):
    return Candidate(f"{layout.value}", (layout,), (out or layout,), lambda _: None, cost)


def chain(length, shape=(1, 8, 64, 64)):
    g = GraphBuilder()
    value = g.input("x", TensorType(shape))
    for _ in range(length):
        value = g.add(Relu(), value)
    return g.finish({"y": value})


def repacks(plan):
    return [
        d.kernel
        for d in plan.dispatches
        if d.kernel.startswith(("movement/pack", "movement/unpack"))
    ]


def test_a_node_between_two_of_one_layout_takes_that_layout():
    graph = chain(3)
    first, middle, last = graph.nodes
    c4 = [candidate(Layout.C4)]
    # By itself the middle one is cheaper in rows, but not by two repacks.
    both = [candidate(Layout.LINEAR, 1.0), candidate(Layout.C4, 2.0)]
    options = {first: c4, middle: both, last: c4}
    assert assign(graph, options, MACHINE)[middle].outputs == (Layout.C4,)
    assert assign(graph, options, MACHINE, together=False)[middle].outputs == (Layout.LINEAR,)


def test_a_node_that_is_dear_enough_is_repacked_for():
    graph = chain(3)
    first, middle, last = graph.nodes
    c4 = [candidate(Layout.C4)]
    both = [candidate(Layout.LINEAR, 1.0), candidate(Layout.C4, 1e6)]
    assert assign(graph, {first: c4, middle: both, last: c4}, MACHINE)[middle].outputs == (
        Layout.LINEAR,
    )


def test_many_readers_of_one_value_cost_no_more_than_as_many_values(monkeypatch):
    """A split into thousands of parts reads one value as often: no reader looks at all others."""
    looked = []
    wants = _Assignment.wants

    def counted(self, node, candidate):
        looked.append(node)
        return wants(self, node, candidate)

    monkeypatch.setattr(_Assignment, "wants", counted)
    g = GraphBuilder()
    x = g.add(Relu(), g.input("x", TensorType((1, 8, 64, 64))))
    graph = g.finish({f"y{i}": g.add(Relu(), x) for i in range(200)})
    both = [candidate(Layout.LINEAR, 2.0), candidate(Layout.C4, 1.0)]
    chosen = assign(graph, dict.fromkeys(graph.nodes, both), MACHINE)
    assert len(chosen) == 201
    assert len(looked) < 20 * len(graph.nodes)


def test_the_way_back_decides_too():
    """Greedy from the front keeps rows; looking back from the convolution changes its mind."""
    graph = chain(2)
    first, last = graph.nodes
    both = [
        candidate(Layout.LINEAR),
        Candidate("in c4", (Layout.LINEAR,), (Layout.C4,), lambda _: None, 1.0),
    ]
    chosen = assign(graph, {first: both, last: [candidate(Layout.C4)]}, MACHINE)
    assert chosen[first].outputs == (Layout.C4,)


def test_repacks_cost_nothing_where_the_bytes_are_the_same():
    g = GraphBuilder()
    pixel, row = TensorType((1, 8, 1, 1)), TensorType((1, 8, 2, 1))
    constant = g.constant(np.zeros((1, 3, 2), "f"))
    assert repack_cost(g.input("x", pixel), Layout.LINEAR, Layout.C4, MACHINE) == 0
    assert repack_cost(constant, Layout.LINEAR, Layout.C4, MACHINE) == 0
    assert repack_cost(g.input("y", row), Layout.LINEAR, Layout.C4, MACHINE) > 0
    assert repack_cost(g.input("z", row), Layout.C4, Layout.C4, MACHINE) == 0


def test_plans_repack_at_the_edges_only_and_more_when_switched_off():
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 8, 9, 9)))
    w = g.constant(random(8, 8, 1, 1))
    a = g.add(Transpose((0, 1, 3, 2)), g.add(CONV, x, w, None))
    y = g.add(CONV, a, w, None)
    graph = g.finish({"y": y})
    together = lower(graph, CPU)
    assert repacks(together) == ["movement/pack", "movement/unpack"]
    apart = lower(graph, CPU, LoweringOptions(disabled=frozenset({"layouts"})))
    assert len(repacks(apart)) >= len(repacks(together))
