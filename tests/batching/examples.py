"""Graphs of one example, and checks of the graphs of several that are made of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from vknn import reference
from vknn.batching import NotIndependentError, stacked_graph
from vknn.graph import DType, Graph, GraphBuilder, Op, TensorType, Value

COUNT = 3
SEED = 5


class Made:
    """A graph in the making: ``x`` are inputs of examples, ``c`` constants."""

    def __init__(self) -> None:
        self.builder, self.rng = GraphBuilder("made"), np.random.default_rng(SEED)
        self.inputs: list[Value] = []

    def x(self, *shape: int, dtype: DType = DType.FLOAT32) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs.append(self.builder.input(name, TensorType(shape, dtype)))
        return self.inputs[-1]

    def c(self, *shape: int, dtype: DType = DType.FLOAT32) -> Value:
        return self.builder.constant(numbers(self.rng, shape, dtype))

    def at(self, value: Any, dtype: Any = np.int32) -> Value:
        return self.builder.constant(np.asarray(value, dtype))

    def __call__(self, op: Op, *inputs: Value | None) -> Any:
        made = self.builder.add_many(op, *inputs)
        return made[0] if len(made) == 1 else made

    def graph(self, *outputs: Value) -> Graph:
        return self.builder.finish({f"y{i}": v for i, v in enumerate(outputs)})


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0, 3, shape).astype(dtype.numpy)


def check(graph: Graph) -> None:
    """Examples of the stacked graph are computed as alone, and nothing of one reaches another."""
    rng, made = np.random.default_rng(SEED), stacked_graph(graph, COUNT)
    types = {v.name: v.type for v in graph.inputs}
    feeds = {n: numbers(rng, (COUNT, *t.dims), t.dtype) for n, t in types.items()}
    found = reference.run(made, feeds)
    for name, value in graph.outputs.items():
        assert found[name].shape == (COUNT, *value.type.dims)
    for number in range(COUNT):
        alone = reference.run(graph, {n: a[number] for n, a in feeds.items()})
        for name, right in alone.items():
            np.testing.assert_allclose(
                found[name][number].astype(np.float64), right, rtol=1e-6, atol=1e-6
            )
    changed = {n: a.copy() for n, a in feeds.items()}
    for array in changed.values():
        array[1] = np.nan if array.dtype.kind == "f" else array[1] ^ 1
    other = reference.run(made, changed)
    for name in graph.outputs:
        for number in (0, 2):
            assert other[name][number].tobytes() == found[name][number].tobytes(), name


def refused(graph: Graph, match: str | None = None) -> None:
    """Along the first axis examples mix; where they go along another one, they do not."""
    with pytest.raises(NotIndependentError, match=match):
        stacked_graph(graph, COUNT, (0,))
    with contextlib.suppress(NotIndependentError):
        check(graph)


def one(op: Op, *shapes: Any) -> Graph:
    """A graph of one operator; shapes in lists are those of inputs, in tuples of constants."""
    m = Made()
    values = [
        None if s is None else s if isinstance(s, Value)
        else m.x(*s) if isinstance(s, list) else m.c(*s) for s in shapes
    ]  # fmt: skip
    made = m.builder.add_many(op, *values)
    return m.graph(*made)
