from __future__ import annotations

import numpy as np
import pytest

from vknn import reference
from vknn.graph import Graph, GraphBuilder, Op, TensorType
from vknn.ops.elementwise import Add, Relu, Sub
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Pad, Reshape, Slice, Transpose
from vknn.ops.reduction import CumSum, ReduceMax, ReduceMean, ReduceSum, Softmax
from vknn.passes.transposes import cancel_transposes


def test_inverse_transposes_cancel_through_elementwise_ops(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3, 4)))
    c = g.constant(np.arange(4, dtype=np.float32).reshape(4, 1))
    y = g.add(Transpose((0, 2, 1)), x)
    y = g.add(Sub(), c, g.add(Relu(), y))
    y = g.add(Transpose((0, 2, 1)), y)
    becomes(
        g.finish({"y": y}),
        cancel_transposes,
        """
        Relu.1: float32[2, 3, 4] = Relu()(x)
        Sub.1: float32[2, 3, 4] = Sub()(const float32[1, 1, 4], Relu.1)
        output y = Sub.1
        """,
    )


@pytest.mark.parametrize("shape", [(1, 1, 5), (5,), (2, 1, 1)], ids=str)
def test_transposes_sink_beside_vectors_that_a_reshape_turns(shape: tuple[int, ...]) -> None:
    """A vector computed at run time needs no transpose of its own."""
    g = GraphBuilder()
    x, v = g.input("x", TensorType((1, 5, 2, 3))), g.input("v", TensorType(shape))
    y = g.add(Sub(), g.add(Relu(), v), g.add(Transpose((0, 2, 3, 1)), x))
    before = g.finish({"y": g.add(Transpose((0, 3, 1, 2)), y)})
    after = cancel_transposes(before)
    assert not [node for node in after.nodes if isinstance(node.op, Transpose)]
    feeds = {i.name: np.arange(i.type.size).reshape(i.type.dims).astype(np.float32) - 7
             for i in before.inputs}  # fmt: skip
    np.testing.assert_array_equal(
        reference.run(after, feeds)["y"], reference.run(before, feeds)["y"]
    )


def test_transposes_merge(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3, 4)))
    y = g.add(Transpose((1, 2, 0)), g.add(Transpose((2, 0, 1)), x, name="a"), name="b")
    z = g.add(Transpose((0, 2, 1)), g.add(Transpose((2, 0, 1)), x, name="c"), name="d")
    becomes(
        g.finish({"y": y, "z": z}),
        cancel_transposes,
        """
        d: float32[4, 3, 2] = Transpose(perm=(2, 1, 0))(x)
        output y = x
        output z = d
        """,
    )


def test_both_operands_transposed(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x, z = g.input("x", TensorType((2, 3, 4))), g.input("z", TensorType((2, 1, 4)))
    a, b = (g.add(Transpose((2, 1, 0)), v) for v in (x, z))
    becomes(
        g.finish({"y": g.add(Add(), a, b)}),
        cancel_transposes,
        """
        Add.1: float32[2, 3, 4] = Add()(x, z)
        Add: float32[4, 3, 2] = Transpose(perm=(2, 1, 0))(Add.1)
        output y = Add
        """,
    )


def test_moving_axes_of_size_one_is_a_reshape(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 3, 1, 4)))
    y = g.add(Transpose((0, 2, 1, 3)), g.add(Relu(), x))
    y = g.add(Reshape((12,)), g.add(Reshape((6, 2)), y), name="last")
    becomes(
        g.finish({"y": y}),
        cancel_transposes,
        """
        Relu: float32[1, 3, 1, 4] = Relu()(x)
        last: float32[12] = Reshape(shape=(12,))(Relu)
        output y = last
        """,
    )


def test_reshapes_back_cancel(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 6)))
    y = g.add(Reshape((2, 6)), g.add(Relu(), g.add(Reshape((12,)), x)))
    becomes(
        g.finish({"y": y}),
        cancel_transposes,
        """
        Relu.1: float32[2, 6] = Relu()(x)
        output y = Relu.1
        """,
    )


def test_transposed_operands_become_flags(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    a, b = g.input("a", TensorType((2, 3, 4))), g.input("b", TensorType((2, 5, 4)))
    at, bt = (g.add(Transpose((0, 2, 1)), v) for v in (a, b))
    y = g.add(MatMul(transpose_a=True), at, bt, name="product")
    becomes(
        g.finish({"y": y, "bt": bt}),
        cancel_transposes,
        """
        Transpose.1: float32[2, 4, 5] = Transpose(perm=(0, 2, 1))(b)
        product: float32[2, 3, 5] = MatMul(transpose_a=False, transpose_b=True)(a, b)
        output y = product
        output bt = Transpose.1
        """,
    )


def test_a_transpose_that_is_an_output_stays_above(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    t = g.add(Transpose((1, 0)), x)
    stays(g.finish({"y": g.add(Relu(), t), "t": t}), cancel_transposes)


def test_a_transpose_beside_an_unmoved_value_stays(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x, z = g.input("x", TensorType((2, 3))), g.input("z", TensorType((3, 2)))
    w = g.input("w", TensorType((4, 1, 2, 3)))
    a = g.add(Add(), g.add(Transpose((1, 0)), x), z)
    lower_rank = g.add(Add(), g.add(Transpose((1, 0)), z), w)
    stays(g.finish({"a": a, "b": lower_rank}), cancel_transposes)


NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def _sunk(op: Op, *shapes: tuple[int, ...]) -> Graph:
    """What becomes of ``op`` on tensors turned from channels second to channels last."""
    g = GraphBuilder()
    inputs = [g.add(Transpose(NHWC), g.input(f"x{i}", TensorType(s))) for i, s in enumerate(shapes)]
    graph = g.finish({"y": g.add(op, *inputs)})
    result = cancel_transposes(graph)
    rng = np.random.default_rng(1)
    feeds = {v.name: rng.standard_normal(v.type.dims).astype(np.float32) for v in graph.inputs}
    expected, found = reference.run(graph, feeds), reference.run(result, feeds)
    np.testing.assert_array_equal(found["y"], expected["y"])
    return result


@pytest.mark.parametrize(
    "op",
    [
        Pad((0, 1, 2, 3, 0, 4, 5, 6)),
        Slice((1, -1), (3, -4), (1, 3), (1, -2)),
        Softmax(-1),
        ReduceSum((1, 2)),
        ReduceMax((3,), keepdims=False),
        ReduceSum((0, 3), keepdims=False),
        CumSum(2),
        Concat(3),
        Where(),
        Less(),
        Add(),
    ],
    ids=str,
)
def test_transposes_sink_below_ops_whose_axes_can_be_renamed(op: Op) -> None:
    count = 2 if isinstance(op, Concat | Less | Add) else 1
    if isinstance(op, Where):
        return _check_where()
    graph = _sunk(op, *[(2, 5, 4, 3)] * count)
    assert not isinstance(graph.nodes[0].op, Transpose)
    assert sum(isinstance(n.op, Transpose) for n in graph.nodes) <= 1
    return None


def _check_where() -> None:
    g = GraphBuilder()
    a, b = (g.add(Transpose(NHWC), g.input(n, TensorType((2, 5, 4, 3)))) for n in "ab")
    graph = g.finish({"y": g.add(Where(), g.add(Less(), a, b), a, b)})
    names = [n.op.type_name for n in cancel_transposes(graph).nodes]
    assert names == ["Less", "Where", "Transpose"]


def test_mean_over_the_image_needs_no_transpose() -> None:
    graph = _sunk(ReduceMean((1, 2), keepdims=False), (2, 5, 4, 3))
    assert [n.op.type_name for n in graph.nodes] == ["ReduceMean"]


def test_transposes_of_different_orders_stay(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x, z = g.input("x", TensorType((2, 3, 3, 3))), g.input("z", TensorType((2, 3, 3, 3)))
    y = g.add(Concat(1), g.add(Transpose(NHWC), x), g.add(Transpose(NCHW), z))
    stays(g.finish({"y": y}), cancel_transposes)
