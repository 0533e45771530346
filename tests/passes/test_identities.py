from __future__ import annotations

import math

import numpy as np
import pytest

from vknn.graph import DType, GraphBuilder, Op, TensorType
from vknn.ops.elementwise import Add, Cast, Clip, Div, Mul, Pow, Relu, Sub
from vknn.ops.movement.shape import (
    ChannelShuffle,
    Concat,
    Expand,
    Identity,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from vknn.ops.sampling.resize import Resize
from vknn.passes.identities import remove_identities

NO_OPS: list[tuple[Op, list[np.ndarray]]] = [
    (Identity(), []),
    (Reshape((1, 4, 3, 5)), []),
    (Reshape((-1, 4, 3, 5)), []),
    (Transpose((0, 1, 2, 3)), []),
    (Slice((0,), (100,), (2,)), []),
    (Slice((0, -5), (3, 5), (2, 3), (1, 1)), []),
    (Pad((0,) * 8), []),
    (Concat(1), []),
    (Expand((4, 1, 5)), []),
    (Cast(DType.FLOAT32), []),
    (ChannelShuffle(1), []),
    (Clip(-math.inf, math.inf), []),
    (Resize(sizes=(3, 5), mode="nearest", coordinates="asymmetric", steps=(1.0, 1.0)), []),
    (Resize(sizes=(3, 5), mode="cubic", coordinates="align_corners"), []),
    (Add(), [np.zeros(1, np.float32)]),
    (Sub(), [np.zeros((), np.float32)]),
    (Mul(), [np.ones((1, 1), np.float32)]),
    (Div(), [np.ones(1, np.float32)]),
    (Pow(), [np.ones(1, np.float32)]),
]

OPS: list[tuple[Op, list[np.ndarray]]] = [
    (Reshape((1, 3, 4, 5)), []),
    (Transpose((0, 1, 3, 2)), []),
    (Slice((2,), (-100,), (2,), (-1,)), []),
    (Slice((1,), (3,), (2,)), []),
    (Pad((0, 0, 1, 0, 0, 0, 0, 0)), []),
    (Expand((2, 4, 1, 5)), []),
    (Cast(DType.INT32), []),
    (ChannelShuffle(2), []),
    (Clip(-1.0, math.inf), []),
    (Resize(sizes=(3, 5), mode="linear", coordinates="asymmetric", steps=(0.5, 1.0)), []),
    (Add(), [np.ones(1, np.float32)]),
    (Mul(), [np.ones((2, 1, 1, 1), np.float32)]),
    (Sub(), [np.zeros((1, 1, 1, 1, 1), np.float32)]),
]


@pytest.mark.parametrize(("op", "constants"), NO_OPS, ids=lambda v: str(v)[:40])
def test_no_ops_go(becomes, op, constants) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 4, 3, 5)))
    y = g.add(op, x, *(g.constant(c) for c in constants))
    graph = g.finish({"y": g.add(Relu(), y)})
    becomes(
        graph,
        remove_identities,
        """
        Relu: float32[1, 4, 3, 5] = Relu()(x)
        output y = Relu
        """,
    )


@pytest.mark.parametrize(("op", "constants"), OPS, ids=lambda v: str(v)[:40])
def test_other_ops_stay(stays, op, constants) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 4, 3, 5)))
    stays(g.finish({"y": g.add(op, x, *(g.constant(c) for c in constants))}), remove_identities)


def test_an_input_can_become_an_output(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    graph = g.finish({"y": g.add(Identity(), g.add(Identity(), x))})
    becomes(graph, remove_identities, "output y = x")


@pytest.mark.parametrize(
    ("source", "between", "gone"),
    [
        (DType.INT32, DType.INT64, True),
        (DType.UINT8, DType.INT32, True),
        (DType.FLOAT32, DType.FLOAT64, True),
        (DType.FLOAT16, DType.FLOAT32, True),
        (DType.INT64, DType.INT32, False),
        (DType.INT32, DType.UINT32, False),
        (DType.INT32, DType.FLOAT32, False),
        (DType.INT32, DType.FLOAT64, False),
        (DType.FLOAT32, DType.FLOAT16, False),
        (DType.BOOL, DType.INT32, False),
    ],
)
def test_casts_to_a_wider_type_and_back(source: DType, between: DType, gone: bool) -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType((2, 3), source))
    y = b.add(Cast(source), b.add(Cast(between), x))
    (node, *_) = remove_identities(b.finish({"y": b.add(Transpose((1, 0)), y)})).nodes
    assert (node.inputs[0] is x and isinstance(node.op, Transpose)) == gone
