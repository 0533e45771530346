"""The sweep: values, names and what becomes of unread nodes."""

from __future__ import annotations

import numpy as np

from vknn.graph import GraphBuilder, Node, Origin, TensorType, Value, format_graph
from vknn.ops.elementwise import Abs, Add, Neg, Relu
from vknn.passes.rewriter import Rewriter, merged, sweep


def test_a_sweep_without_changes_keeps_nodes_and_values() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    graph = g.finish({"y": g.add(Relu(), g.add(Neg(), x))})
    after = sweep(graph, lambda rewriter, node: None)
    assert after.nodes == graph.nodes
    assert after.outputs == graph.outputs


def test_unread_nodes_go_with_everything_that_only_they_read() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    y = g.add(Relu(), x)
    dead = x
    for _ in range(3000):  # deeper than Python's recursion limit
        dead = g.add(Neg(), dead)
    after = sweep(g.finish({"y": y}), lambda rewriter, node: None)
    assert [n.op for n in after.nodes] == [Relu()]


def test_a_replaced_chain_leaves_nothing_behind() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    y = g.add(Add(), g.add(Neg(), x, name="a"), g.add(Abs(), x, name="b"), name="sum")
    graph = g.finish({"y": y, "z": y})

    def rule(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
        if not isinstance(node.op, Add):
            return None
        assert rewriter.sole_producer(node.inputs[0]) is graph.nodes[0]
        assert rewriter.sole_producer(node.outputs[0]) is None
        origin = merged(graph.nodes[0].origin, node.origin)
        return rewriter.emit(Relu(), (x,), origin, node)

    after = sweep(graph, rule)
    assert [n.name for n in after.nodes] == ["a+sum"]
    assert after.nodes[0].origin == Origin("a+sum", "Neg+Add")
    assert after.nodes[0].outputs == (y,)
    assert after.outputs == {"y": y, "z": y}


def test_results_of_one_node_can_stand_for_another() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    y = g.add(Relu(), g.add(Neg(), x))

    def skip(rewriter: Rewriter, node: Node) -> tuple[Value | None, ...] | None:
        return node.inputs

    after = sweep(g.finish({"y": y}), skip)  # type: ignore[arg-type]
    assert after.nodes == []
    assert after.outputs == {"y": x}


def test_names_stay_unique() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    y = g.add(Relu(), x, name="x.1")

    def twice(rewriter: Rewriter, node: Node) -> tuple[Value, ...]:
        inner = rewriter.emit(Abs(), node.inputs, Origin("x", "Abs"))
        assert rewriter.constant(np.zeros(1), "x.1").name == "x.1.1"
        return rewriter.emit(node.op, inner, node.origin, node)

    after = sweep(g.finish({"y": y}), twice)
    names = [v.name for v in after.values()]
    assert len(set(names)) == len(names), format_graph(after)
