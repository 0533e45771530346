from __future__ import annotations

import numpy as np
import pytest

from vknn.graph import DType, Graph, GraphBuilder, TensorType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, Mul, Neg, Relu, Sigmoid, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.pooling.pool import GlobalAveragePool, MaxPool
from vknn.passes.fusion import MAX_STEPS, fuse_elementwise

random = np.random.default_rng(2)


def array(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def conv(g: GraphBuilder, x: Value, maps: int = 4, name: str = "conv") -> Value:
    w = g.constant(array(maps, x.type.dims[1], 1, 1))
    return g.add(Conv((1, 1), (0,) * 4, (1, 1)), x, w, g.constant(array(maps)), name=name)


def image() -> tuple[GraphBuilder, Value]:
    g = GraphBuilder()
    return g, g.input("x", TensorType((1, 4, 3, 5)))


def names(graph: Graph) -> list[str]:
    return [n.op.type_name for n in graph.nodes]


def check(same_results, graph: Graph, *expected: str) -> Graph:  # type: ignore[no-untyped-def]
    after = fuse_elementwise(graph)
    same_results(graph, after)
    assert names(after) == list(expected)
    return after


def test_activation_and_scalars_join_a_convolution(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.add(Relu(), conv(g, x), name="relu")
    y = g.add(Sub(), g.constant(array(1)), y, name="sub")
    after = check(same_results, g.finish({"y": y}), "Conv+Relu+Sub")
    (node,) = after.nodes
    assert isinstance(node.op, Fused)
    assert node.op.steps[1].reverse
    assert node.name == node.origin.name == "conv+relu+sub"
    assert node.origin.type == "Conv+Relu+Sub"
    assert after.outputs["y"] is y


def test_a_residual_joins_the_later_convolution(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    a = conv(g, x, name="a")
    b = conv(g, x, name="b")
    y = g.add(Relu(), g.add(Add(), a, b, name="sum"), name="relu")
    after = check(same_results, g.finish({"y": y}), "Conv", "Conv+Add+Relu")
    assert after.nodes[1].name == "b+sum+relu"
    assert after.nodes[1].inputs[3] is a


def test_the_operand_may_be_made_after_the_base(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    a = conv(g, x, name="a")
    late = g.add(Neg(), g.add(MaxPool((1, 1), (1, 1), (0,) * 4), x))
    both = g.add(Mul(), late, a, name="both")
    graph = g.finish({"y": both, "late": late})
    check(same_results, graph, "MaxPool+Neg", "Conv+Mul")


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), (1, 4, 3, 5), (4, 3, 5)])
def test_vectors_and_whole_tensors_join(same_results, shape) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.add(Mul(), g.constant(array(*shape)), conv(g, x))
    after = check(same_results, g.finish({"y": y}), "Conv+Mul")
    assert after.nodes[0].inputs[-1] is not None
    assert after.nodes[0].inputs[-1].type.rank == 4


def test_a_vector_known_at_run_time_joins(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    s = g.add(Sigmoid(), g.add(GlobalAveragePool(), x))
    y = g.add(Mul(), conv(g, x), s)
    check(same_results, g.finish({"y": y}), "GlobalAveragePool+Sigmoid", "Conv+Mul")


def test_a_vector_of_lower_rank_is_reshaped(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    v = g.input("v", TensorType((4, 1, 1)))
    graph = g.finish({"y": g.add(Mul(), conv(g, x), v)})
    check(same_results, graph, "Reshape", "Conv+Mul")


@pytest.mark.parametrize("shape", [(7,), (1, 7), (3, 7), (1, 1, 7), (2, 3, 7)])
def test_vectors_along_the_last_axis_join_matmul(same_results, shape) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3, 5)))
    y = g.add(MatMul(), x, g.constant(array(5, 7)))
    y = g.add(Relu(), g.add(Add(), y, g.constant(array(*shape))))
    fits = shape != (3, 7)
    expected = ["MatMul+Add+Relu"] if fits else ["MatMul", "Add+Relu"]
    check(same_results, g.finish({"y": y}), *expected)


@pytest.mark.parametrize("shape", [(1, 1, 3, 5), (1, 4, 1, 5), (5,), (2, 4, 3, 5)])
def test_other_broadcasts_stay_apart(same_results, shape) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = g.add(Relu(), g.add(Add(), conv(g, x), g.constant(array(*shape))))
    check(same_results, g.finish({"y": y}), "Conv", "Add+Relu")


def test_what_others_read_is_not_fused_over(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    a, b = conv(g, x, name="a"), conv(g, x, name="b")
    relu = g.add(Relu(), b)
    graph = g.finish({"a": a, "ra": g.add(Relu(), a), "sum": g.add(Add(), relu, relu)})
    check(same_results, graph, "Conv", "Conv+Relu", "Relu", "Add")


def test_operands_are_counted(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    z = g.input("z", TensorType((1, 4, 3, 5)))
    y = g.add(Mul(), g.add(Add(), conv(g, x), z), z)
    y = g.add(Add(), y, g.constant(array(1, 4, 1, 1)))
    y = g.add(Mul(), y, g.constant(array(1, 4, 1, 1)))
    y = g.add(Sub(), y, z)
    y = g.add(Mul(), y, g.constant(array(4, 1, 1)))
    check(same_results, g.finish({"y": y}), "Conv+Add+Mul", "Add+Mul", "Sub+Mul")


def test_long_chains_are_cut(same_results) -> None:  # type: ignore[no-untyped-def]
    g, x = image()
    y = x
    for _ in range(MAX_STEPS + 3):
        y = g.add(Neg(), y)
    check(same_results, g.finish({"y": y}), "+".join(["Neg"] * (MAX_STEPS + 1)), "Neg+Neg")


def test_integers_stay_apart(same_results) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 4), DType.INT32))
    check(same_results, g.finish({"y": g.add(Neg(), g.add(Neg(), x))}), "Neg", "Neg")
