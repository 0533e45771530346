"""Constants 0 that multiply or divide: NaN and infinities are where NumPy has them.

Compilers that know the constant take 0 * x to be 0, and x / 0 to be anything.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.compile import Target, compile_graph
from vknn.graph import Graph, GraphBuilder, Op, TensorType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import activation as act
from vknn.ops.elementwise import binary, unary
from vknn.ops.recurrent.rnn import RNN
from vknn.runtime import WeightPool

pytestmark = pytest.mark.device

SPECIALS = [np.nan, np.inf, -np.inf, 0, -0.0, 1.5, -2.5, 3e38, -3e38, 7, -7]
X = np.array(SPECIALS, np.float32)
UNARY = [
    act.LeakyRelu(0.0),
    act.Selu(1.5, 0.0),
    act.Selu(0.0, 1.5),
    act.Elu(0.0),
    *(act.HardSigmoid(0.0, b) for b in (0.0, 1.0, -1.0, 0.3)),
    *(act.HardSwish(0.0, b) for b in (0.0, 1.0, -1.0, 0.3)),
    act.HardSwish(1.0, 0.0),
    act.Shrink(0.0, 0.0),
]
BINARY = (
    *(binary.Add, binary.Sub, binary.Mul, binary.Div, binary.FloorDiv, binary.Max, binary.Min),
    *(binary.Larger, binary.Smaller, binary.Pow, binary.Atan2, binary.Fmod, binary.Mod),
    *(binary.Remainder, binary.LogAddExp, binary.PRelu),
)


def check(graph: Graph, x: np.ndarray, host: bool = False) -> None:
    """Runs a graph on both sides; special values, and those beyond them, are the same."""
    (wanted,) = compile_graph(graph, Target(None)).run({"x": x}).values()
    device = shared_device()
    with WeightPool(device) as pool:
        program = compile_graph(graph, Target(device, pool=pool))
        (found,) = program.run({"x": x}).values()
        program.close()
    sides = set(program.placement.values())
    assert sides == ({"host"} if host else {"vulkan"}), sides
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), f"{found} for {wanted}")
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-30)


def number(g: GraphBuilder, value: float) -> Value:
    return g.constant(np.array(value, np.float32), "number")


def chain(*ops: Op, shape: tuple[int, ...] = X.shape) -> Graph:
    g = GraphBuilder("chain")
    y = g.input("x", TensorType(shape))
    for op in ops:
        y = g.add(op, y)
    return g.finish({"y": y})


@pytest.mark.parametrize("op", UNARY, ids=repr)
def test_activations(op: Op) -> None:
    """By themselves, and behind another operator that would take them as a step."""
    check(chain(op), X)
    check(chain(unary.Neg(), op), X)
    check(chain(op, unary.Neg(), op), X)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_numbers(op: type[Op], swapped: bool, zero: float) -> None:
    """A number 0 as an operand, in the first step of a fused operator."""
    g = GraphBuilder("number")
    y = g.add(unary.Neg(), g.input("x", TensorType(X.shape)))
    other = number(g, zero)
    y = g.add(op(), other, y) if swapped else g.add(op(), y, other)
    check(g.finish({"y": y}), X)


def test_steps_of_a_convolution() -> None:
    """NaN comes through a product with 0 in the epilogue, and where the product was summed up."""
    x = np.ones((1, 5, 3, 7), np.float32)
    x[0, 2, 1, 3] = np.nan
    g = GraphBuilder("conv")
    weights = g.constant(np.full((6, 5, 1, 1), 0.5, np.float32), "w")
    y = g.add(Conv((1, 1), (0, 0, 0, 0), (1, 1)), g.input("x", TensorType(x.shape)), weights)
    y = g.add(binary.Mul(), y, number(g, 0))
    check(g.finish({"y": g.add(act.HardSwish(0.0, 0.5), g.add(act.Relu(), y))}), x)


@pytest.mark.parametrize("name", ["Affine", "LeakyRelu", "ScaledTanh", "HardSigmoid", "Elu"])
def test_recurrent_activations(name: str) -> None:
    x = np.ones((3, 1, 5), np.float32)
    x[1, 0, 2] = np.nan
    g = GraphBuilder("rnn")
    rng = np.random.default_rng(3)
    weights = [g.constant(rng.standard_normal((1, 7, n)).astype(np.float32), "w") for n in (5, 7)]
    op = RNN(activations=(name,), activation_alpha=(0.0,), activation_beta=(0.5,))
    y, _ = g.add_many(op, g.input("x", TensorType(x.shape)), *weights)
    check(g.finish({"y": y}), x, host=name != "Elu")


def test_a_quantization_of_one_level() -> None:
    """As OpenVINO's FakeQuantize is converted: levels * 0 + low, behind clipping and rounding."""
    g = GraphBuilder("levels")
    y = g.add(
        binary.Max(),
        g.input("x", TensorType(X.shape)),
        number(g, -1),
    )
    y = g.add(unary.Round(), g.add(binary.Min(), y, number(g, 1)))
    y = g.add(binary.Mul(), y, number(g, 0))
    check(g.finish({"y": g.add(binary.Add(), y, number(g, 0.25))}), X)
