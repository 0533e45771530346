from __future__ import annotations

import numpy as np

from vknn.graph import GraphBuilder, TensorType
from vknn.ops.elementwise import Add, Neg, Relu
from vknn.ops.movement import Concat, Expand
from vknn.passes import constant_folding
from vknn.passes.constant_folding import fold_constants


def test_what_depends_on_constants_alone_is_computed(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 4)))
    c = g.constant(np.array([[1, -2]], np.float32))
    both = g.add(Concat(1), g.add(Neg(), c), c)
    graph = g.finish({"y": g.add(Add(), x, both), "c": both})
    after = becomes(
        graph,
        fold_constants,
        """
        Add: float32[1, 4] = Add()(x, const float32[1, 4])
        output y = Add
        output c = Concat.1
        """,
    )
    np.testing.assert_array_equal(after.outputs["c"].constant, [[-1, 2, 1, -2]])


def test_large_growth_is_left_to_the_device(stays, becomes, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    c = g.constant(np.ones((1, 8), np.float32))
    graph = g.finish({"y": g.add(Expand((5, 8)), c)})
    becomes(graph, fold_constants, "output y = Expand.1")
    monkeypatch.setattr(constant_folding, "SMALL", 0)
    stays(graph, fold_constants)


def test_failures_are_left_to_the_run(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    stays(g.finish({"y": g.add(Relu(), x)}), fold_constants)
