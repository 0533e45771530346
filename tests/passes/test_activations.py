from __future__ import annotations

import numpy as np
import pytest

from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.ops.elementwise import (
    Add,
    Clip,
    Div,
    HardSigmoid,
    Mul,
    Sigmoid,
    Softplus,
    Tanh,
)
from vknn.passes.activations import recognise_activations


def scalar(value: float) -> np.ndarray:
    return np.array([value], np.float32)


@pytest.mark.parametrize("swapped", [False, True])
def test_swish(becomes, swapped) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 5)))
    gate = g.add(Sigmoid(), x)
    y = g.add(Mul(), *((gate, x) if swapped else (x, gate)))
    becomes(
        g.finish({"y": y}),
        recognise_activations,
        """
        Mul: float32[1, 5] = Swish()(x)
        output y = Mul
        """,
    )


def test_hard_swish_and_mish(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 5)))
    h = g.add(Mul(), x, g.add(HardSigmoid(0.25, 0.5), x))
    m = g.add(Mul(), h, g.add(Tanh(), g.add(Softplus(), h)))
    becomes(
        g.finish({"y": m}),
        recognise_activations,
        """
        Mul: float32[1, 5] = HardSwish(alpha=0.25, beta=0.5)(x)
        Mul.1: float32[1, 5] = Mish()(Mul)
        output y = Mul.1
        """,
    )


def spelled(by: str) -> Graph:
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 5)))
    clipped = g.add(Clip(0.0, 6.0), g.add(Add(), x, g.constant(scalar(3))))
    if by == "div":
        gate = g.add(Div(), clipped, g.constant(scalar(6)))
    else:
        gate = g.add(Mul(), clipped, g.constant(scalar(1 / 6)))
    return g.finish({"y": g.add(Mul(), x, gate)})


@pytest.mark.parametrize("by", ["div", "mul"])
def test_hard_swish_in_four_layers(becomes, by) -> None:  # type: ignore[no-untyped-def]
    after = recognise_activations(spelled(by))
    (node,) = after.nodes
    assert node.op.type_name == "HardSwish"
    assert node.op.attributes() == pytest.approx({"alpha": 1 / 6, "beta": 0.5})
    becomes(spelled(by), recognise_activations, str_of(after))


def str_of(graph: Graph) -> str:
    from vknn.graph import format_graph

    lines = format_graph(graph).splitlines()
    return "\n".join(line.strip() for line in lines[2:])


def test_a_gate_of_something_else_or_read_elsewhere_stays(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x, z = g.input("x", TensorType((1, 5))), g.input("z", TensorType((1, 5)))
    read_twice = g.add(Sigmoid(), z)
    graph = g.finish(
        {
            "a": g.add(Mul(), z, g.add(Sigmoid(), x)),
            "b": g.add(Mul(), z, read_twice),
            "c": read_twice,
        }
    )
    stays(graph, recognise_activations)


def test_other_limits_stay(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 5)))
    clipped = g.add(Clip(0.0, 6.0), g.add(Add(), x, g.constant(scalar(3))))
    stays(g.finish({"y": g.add(Div(), clipped, g.constant(scalar(5)))}), recognise_activations)
