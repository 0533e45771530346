"""Stages: commands that do not need each other stand between the same barriers on GPUs."""

import dataclasses

import numpy as np
import pytest
from tests.lowering.limits import DEVICES, DISCRETE

from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, check_plan, lower
from vknn.lowering.assemble.pending import PendingCommand
from vknn.lowering.assemble.stages import stages
from vknn.lowering.kit.emitter import Ref
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Exp, Sigmoid
from vknn.plan import Barrier, Copy, Fill, Plan, Role


def pending(command: Copy | Fill, *refs: Ref) -> PendingCommand:
    return PendingCommand(command, refs)


def copy(source: Ref, target: Ref, nbytes: int = 64) -> PendingCommand:
    return pending(Copy(0, 1, nbytes), source, target)


def bufs(count: int) -> list[Ref]:
    return [Ref(f"b{i}", 64) for i in range(count)]


def test_what_waits_for_nothing_comes_first():
    a, b, c, d, e = bufs(5)
    chain = [copy(a, b), copy(b, c), copy(a, d), copy(d, e)]
    assert stages(chain) == [0, 1, 0, 1]


def test_reads_after_writes_writes_after_reads_and_writes_after_writes_wait():
    a, b, c = bufs(3)
    assert stages([copy(a, b), copy(b, c)]) == [0, 1]
    assert stages([copy(a, b), copy(c, a)]) == [0, 1]
    assert stages([copy(a, b), copy(c, b)]) == [0, 1]
    assert stages([copy(a, b), copy(a, c)]) == [0, 0]
    assert stages([pending(Fill(0), a), pending(Fill(0), a)]) == [0, 1]


def test_bytes_count_not_buffers():
    a, joined = Ref("a", 64), Ref("joined", 128)
    low = Ref("low", 64, parent=joined)
    high = Ref("high", 64, parent=joined, offset=64)
    assert stages([copy(a, low), copy(a, high)]) == [0, 0]
    assert stages([copy(a, low), copy(a, high), copy(joined, a, 128)]) == [0, 0, 1]
    assert stages([copy(a, low, 6), pending(Copy(0, 1, 6, 0, 6), a, low)]) == [0, 1]  # one word


def test_weights_never_change():
    w = Ref("w", 64, role=Role.WEIGHT)
    a, b = bufs(2)
    assert stages([copy(w, a), copy(w, b), copy(a, w)]) == [0, 0, 1]


def branches(count: int) -> Graph:
    """Chains of two ops each from one input, added up."""
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 8, 5, 7)))
    w = g.constant(np.ones((8, 8, 1, 1), "f"), "w")
    ends = []
    for _ in range(count):
        conv = g.add(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, w)
        ends.append(g.add(Exp(), g.add(Sigmoid(), conv)))
    total = ends[0]
    for end in ends[1:]:
        total = g.add(Add(), total, end)
    return g.finish({"y": total})


def barriers(plan: Plan) -> int:
    return sum(isinstance(step, Barrier) for step in plan.steps)


def test_branches_share_barriers_on_gpus():
    graph, apart = branches(4), LoweringOptions(disabled=frozenset({"side-by-side"}))
    plan, in_order = lower(graph, DISCRETE), lower(graph, DISCRETE, apart)
    for made in (plan, in_order):
        check_plan(made, DISCRETE)
    assert barriers(plan) < barriers(in_order)
    assert len(plan.commands) == len(in_order.commands)


@pytest.mark.parametrize("name", [name for name, limits in DEVICES.items() if limits.kind == "cpu"])
def test_cpus_keep_the_order_of_the_layers(name: str):
    graph, limits = branches(4), DEVICES[name]
    nodes = [d.nodes for d in lower(graph, limits).dispatches]
    apart = LoweringOptions(disabled=frozenset({"side-by-side"}))
    assert nodes == [d.nodes for d in lower(graph, limits, apart).dispatches]


def test_bytes_are_not_taken_over_where_another_command_of_the_stage_reads_them():
    """y = exp(x') may overwrite x' only if sigmoid(x'), beside it, does not read x'."""
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 4, 3, 5)))
    w = g.constant(np.ones((4, 4, 1, 1), "f"), "w")
    middle = g.add(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, w)
    graph = g.finish({"y": g.add(Exp(), middle), "z": g.add(Sigmoid(), middle)})
    for options in (LoweringOptions(), LoweringOptions(guard=64)):
        plan = lower(graph, dataclasses.replace(DISCRETE, unified_memory=True), options)
        check_plan(plan, DISCRETE)
