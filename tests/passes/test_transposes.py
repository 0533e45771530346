from __future__ import annotations

import numpy as np

from vknn.graph import GraphBuilder, TensorType
from vknn.ops.elementwise import Add, Relu, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.movement import Reshape, Transpose
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


def test_a_transpose_read_twice_stays_above(stays) -> None:  # type: ignore[no-untyped-def]
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
