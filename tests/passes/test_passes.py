"""All passes together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vknn.graph import Graph, GraphBuilder, TensorType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Clip, Mul, Neg, Relu, Sigmoid, Sub, Tanh
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Identity, Pad, Reshape, Slice, Transpose
from vknn.ops.normalization import BatchNormalization
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool
from vknn.passes import PASSES, run_passes


def test_names_are_distinct() -> None:
    names = [name for name, _ in PASSES]
    assert len(set(names)) == len(names)


def network() -> Graph:
    g, random = GraphBuilder(), np.random.default_rng(0)

    def constant(*shape: int) -> Value:
        return g.constant(random.uniform(0.5, 1.5, shape).astype(np.float32))

    x = g.input("x", TensorType((1, 3, 6, 6)))
    y = g.add(Conv((1, 1), (1,) * 4, (1, 1)), x, constant(4, 3, 3, 3))
    y = g.add(BatchNormalization(), y, *(constant(4) for _ in range(4)))
    y = g.add(Mul(), y, g.add(Sigmoid(), y))
    z = g.add(Conv((1, 1), (0,) * 4, (1, 1)), g.add(Identity(), y), constant(4, 4, 1, 1))
    y = g.add(Relu(), g.add(Add(), z, y))
    y = g.add(Transpose((0, 2, 3, 1)), y)
    y = g.add(Mul(), y, constant(4))
    y = g.add(Transpose((0, 3, 1, 2)), y)
    y = g.add(Reshape((1, 4)), g.add(GlobalAveragePool(), y))
    y = g.add(MatMul(), y, g.add(Neg(), constant(4, 5)))
    return g.finish({"y": g.add(Tanh(), y)})


def test_a_network_shrinks_to_its_kernels(same_results) -> None:  # type: ignore[no-untyped-def]
    graph = network()
    after = run_passes(graph)
    same_results(graph, after)
    names = [n.op.type_name for n in after.nodes]
    assert names == [
        "Conv+Swish", "Conv+Add+Relu", "Mul", "GlobalAveragePool", "Reshape", "MatMul+Tanh"
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, _ in PASSES])
def test_each_pass_can_be_switched_off(same_results, name) -> None:  # type: ignore[no-untyped-def]
    graph = network()
    after = run_passes(graph, frozenset([name]))
    same_results(graph, after)
    others = frozenset(n for n, _ in PASSES if n != name)
    same_results(graph, run_passes(graph, others))


def test_all_switched_off_changes_nothing() -> None:
    graph = network()
    assert run_passes(graph, frozenset(name for name, _ in PASSES)) is graph


class RandomNet:
    """Grows a graph from a list of choices; every choice is legal on every value."""

    def __init__(self, seed: int) -> None:
        self.g, self.random = GraphBuilder(), np.random.default_rng(seed)
        self.values = [self.g.input("x", TensorType((1, 4, 5, 3)))]

    def constant(self, *shape: int) -> Value:
        return self.g.constant(self.random.uniform(0.5, 1.5, shape).astype(np.float32))

    def step(self, kind: int, pick: int) -> None:
        g, x = self.g, self.values[pick % len(self.values)]
        other = self.values[(pick // 7) % len(self.values)]
        n, c, h, w = x.type.dims
        match kind:
            case 0:
                op = Conv((1, 1), (pick % 2,) * 4, (1, 1))
                k = min(h, w, 2)
                y = g.add(op, x, self.constant(4, c, k, k), *[self.constant(4)] * (pick % 2))
            case 1:
                y = g.add(BatchNormalization(), x, *(self.constant(c) for _ in range(4)))
            case 2:
                y = g.add([Relu(), Sigmoid(), Tanh(), Clip(0.0, 1.0)][pick % 4], x)
            case 3:
                shape = [(1,), (c, 1, 1), (1, c, 1, 1), (w,), (h, w)][pick % 5]
                y = g.add([Add(), Mul(), Sub()][pick % 3], x, self.constant(*shape))
            case 4:
                y = g.add(Transpose([(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)][pick % 3]), x)
            case 5:
                same = other.type == x.type
                y = g.add([Add(), Mul()][pick % 2], x, other if same else g.add(Sigmoid(), x))
            case 6:
                y = g.add(Reshape((1, h * w, c, 1) if pick % 2 else (n, c, w, h)), x)
            case 7:
                y = g.add(MatMul(), x, self.constant(w, 3))
            case 8:
                y = g.add(AveragePool((1, 1), (1, 1), (0,) * 4), x)
            case _:
                y = g.add([Slice((0,), (c,), (1,)), Pad((0,) * 8), Concat(1)][pick % 3], x)
        self.values.append(y)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1000)), min_size=1, max_size=12),
    st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None)
def test_random_graphs_compute_the_same(steps: list[tuple[int, int]], seed: int) -> None:
    net = RandomNet(seed)
    for kind, pick in steps:
        net.step(kind, pick)
    outputs = {"last": net.values[-1], "middle": net.values[len(net.values) // 2]}
    graph = net.g.finish(outputs)
    compare(graph, run_passes(graph))


def compare(before: Graph, after: Graph) -> None:
    from vknn import reference
    from vknn.graph import validate

    validate(after)
    x = np.random.default_rng(3).standard_normal(before.inputs[0].type.dims).astype(np.float32)
    expected, actual = (reference.run(g, {"x": x}) for g in (before, after))
    for name, array in expected.items():
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(actual[name], array, rtol=1e-4, atol=1e-5 * scale)
