from __future__ import annotations

import numpy as np
import pytest

from vknn import reference
from vknn.errors import ShapeError, VknnError
from vknn.graph import GraphBuilder, TensorType
from vknn.ops.elementwise import Add, Neg
from vknn.ops.elementwise.logic import LessOrEqual
from vknn.ops.movement.shape import Concat, Expand
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


def test_what_no_device_computes_is_folded_whatever_its_size(stays, becomes, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A causal mask of a sequence, as exporters make it of the sequence's length."""
    places = np.arange(311, dtype=np.int64)
    g = GraphBuilder()
    rows, columns = g.constant(places[:, None]), g.constant(places[None])
    wide = g.add(Expand((311, 311)), columns)
    graph = g.finish({"y": g.add(LessOrEqual(), wide, rows)})
    after = becomes(graph, fold_constants, "output y = LessOrEqual.1")
    np.testing.assert_array_equal(after.outputs["y"].constant, np.tri(311, dtype=bool))
    monkeypatch.setattr(constant_folding, "OF_THE_HOST", 311 * 311 * 8 - 1)
    stays(graph, fold_constants)


@pytest.mark.parametrize("error", [ShapeError, ValueError, MemoryError])
def test_failures_are_left_to_the_run(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    g = GraphBuilder()
    c = g.constant(np.ones((1, 8), np.float32))
    graph = g.finish({"y": g.add(Neg(), c)})

    def fails(self: Neg, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        raise error("not these")

    monkeypatch.setattr(Neg, "reference", fails)
    assert [n.op for n in fold_constants(graph).nodes] == [Neg()]
    with pytest.raises(VknnError, match="not these"):
        reference.run(graph, {})
