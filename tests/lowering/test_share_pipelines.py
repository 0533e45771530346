"""Layers of a kind share a pipeline where that costs next to nothing."""

from tests.lowering.test_layout_assignment import chain
from tests.lowering.test_plans import CPU, random

from vknn.graph import GraphBuilder, TensorType
from vknn.lowering import Layout, lower
from vknn.lowering.choose.share_pipelines import PIPELINE_WORTH, with_fewer_pipelines
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.machine import machine_of
from vknn.ops.convolution.conv import Conv

MACHINE = machine_of(CPU)
#: Microseconds that a pipeline is worth there.
WORTH = PIPELINE_WORTH * MACHINE.dispatch


def offer(name, cost, layout=Layout.C4):
    return Candidate(name, (layout,), (layout,), lambda _: None, cost)


def names(offers, graph):
    """The names that nodes end up with which start on their cheapest candidate."""
    choice = {node: min(offers[node], key=lambda c: c.cost) for node in graph.nodes}
    settled = with_fewer_pipelines(choice, offers, MACHINE)
    return [settled[node].name for node in graph.nodes]


def test_the_cheapest_move_to_one_form_is_made():
    graph = chain(3)
    near = WORTH / 2
    offers = {
        graph.nodes[0]: [offer("wide", 100.0), offer("narrow", 100.0 + 3 * near)],
        graph.nodes[1]: [offer("wide", 100.0 + near), offer("narrow", 100.0)],
        graph.nodes[2]: [offer("wide", 100.0), offer("narrow", 100.0 + 3 * near)],
    }
    assert names(offers, graph) == ["wide"] * 3


def test_a_form_that_is_worth_its_pipeline_stays():
    graph = chain(2)
    much = 2 * WORTH
    offers = {
        graph.nodes[0]: [offer("wide", 100.0), offer("narrow", 100.0 + much)],
        graph.nodes[1]: [offer("wide", 100.0 + much), offer("narrow", 100.0)],
    }
    assert names(offers, graph) == ["wide", "narrow"]


def test_neighbours_see_no_change():
    graph = chain(2)
    offers = {
        graph.nodes[0]: [offer("wide", 1.0), offer("narrow", 2.0, Layout.LINEAR)],
        graph.nodes[1]: [offer("wide", 2.0, Layout.LINEAR), offer("narrow", 1.0)],
    }
    assert names(offers, graph) == ["wide", "narrow"]


def test_depthwise_convolutions_of_two_widths_share_a_pipeline():
    """By themselves 16 columns would be cut into eights and 14 into sevens."""
    g = GraphBuilder()
    results = {}
    for columns in (16, 14):
        x = g.input(f"x{columns}", TensorType((1, 8, columns, columns)))
        conv = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=8)
        results[f"y{columns}"] = g.add(conv, x, g.constant(random(8, 1, 3, 3), "w"))
    plan = lower(g.finish(results), CPU)
    constants = {d.specialization for d in plan.dispatches if d.kernel == "convolution/depthwise"}
    assert len(constants) == 1
