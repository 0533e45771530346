"""Gates of squeeze-and-excitation blocks in one dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, single_op_graph
from tests.lowering.limits import DEVICES, DISCRETE, MINIMUM, check_limits

from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.chain import gate
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Clip, Fused, FusedStep, HardSigmoid, Mul, Relu, Sigmoid, Swish
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.pooling.pool import GlobalAveragePool, GlobalMaxPool
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(14)
check = functools.partial(check_op, kind="discrete", only="gate")
CONV = Conv((1, 1), (0,) * 4, (1, 1))
SWISH, SIGMOID = (FusedStep(op, None) for op in (Swish(), Sigmoid()))


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def by_products(c: int, hidden: int, m: int, steps: tuple[FusedStep, ...] = (SWISH,)) -> tuple:
    """Links and weights of two matrix products, the first transposed; all with a bias."""
    links = Fused(MatMul(transpose_b=True), steps), Fused(MatMul(), (SIGMOID,))
    weights = floats(hidden, c) / c**0.5, floats(hidden), floats(hidden, m) / hidden**0.5, floats(m)
    return links, weights


def by_convolutions(c: int, hidden: int, m: int) -> tuple:
    links = Fused(CONV, (FusedStep(Relu(), None),)), Fused(CONV, (SIGMOID,))
    weights = floats(hidden, c, 1, 1), floats(hidden), floats(m, hidden, 1, 1), floats(m)
    return links, weights


@pytest.mark.parametrize("half", [False, True])
def test_panels_hold_what_a_row_multiplies(half: bool) -> None:
    w, bias = floats(271, 67), floats(271)
    layer = gate.Layer(w, bias, (), (w, bias))
    panels = gate.panels_of(layer, gate.RDNA_STEPS, half)
    assert (4 * panels.steps - 1) * panels.row * (8 if half else 16) <= gate.REACH
    packed, x = panels.packed(), np.zeros(4 * panels.rounds * panels.steps, np.float32)
    assert packed.size == panels.size
    x[:67] = floats(67)
    matrix = packed[: 4 * panels.bias].reshape(panels.count, x.size, 4 * panels.row)
    found = np.einsum("k,pkn->pn", x, matrix).ravel()
    np.testing.assert_allclose(found[:271], w @ x[:67], rtol=1e-4, atol=1e-4)
    assert not found[271:].any()
    np.testing.assert_array_equal(packed[4 * panels.bias :][:271], bias)


def run(links: tuple[Op, ...], counts: tuple[int, ...], *arrays: np.ndarray, **more) -> None:  # type: ignore[no-untyped-def]
    constants = tuple(range(1, len(arrays)))
    check(Chain(links, counts), *arrays, constants=constants, **more)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("c", "hidden", "m"), [(13, 3, 13), (67, 17, 71), (5, 130, 3)])
def test_two_products(c: int, hidden: int, m: int, precision: str) -> None:
    links, weights = by_products(c, hidden, m)
    for batch in (1, 3):
        run(links, (3, 2), floats(batch, c), *weights, precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (11, 7), (37, 41)])
def test_means_and_two_products(size: tuple[int, int], precision: str) -> None:
    links, weights = by_products(29, 7, 29)
    whole = (GlobalAveragePool(), Reshape((2, 29)), *links)
    run(whole, (1, 0, 2, 2), floats(2, 29, *size), *weights, precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("c", "hidden", "m"), [(13, 3, 13), (67, 131, 271)])
def test_as_many_steps_a_round_as_on_rdna(
    c: int, hidden: int, m: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors end within a round, and rows of many outputs take several panels."""
    monkeypatch.setattr(gate, "STEPS", gate.RDNA_STEPS)
    links, weights = by_products(c, hidden, m)
    whole = (GlobalAveragePool(), Reshape((2, c)), *links)
    run(whole, (1, 0, 2, 2), floats(2, c, 3, 5), *weights, precision=precision, access=("storage",))


def test_convolutions_of_one_pixel() -> None:
    links, weights = by_convolutions(19, 5, 23)
    run(links, (3, 2), floats(2, 19, 1, 1), *weights)
    run((GlobalAveragePool(), *links), (1, 2, 2), floats(2, 19, 3, 3), *weights)


def test_more_columns_than_lanes() -> None:
    for hidden, m in ((2061, 7), (7, 2061)):
        links, weights = by_products(6, hidden, m)
        run(links, (3, 2), floats(1, 6), *weights, access=("storage",))


def test_layers_without_a_bias_and_three_steps_each() -> None:
    steps = (FusedStep(Mul(), scalar=0.25), FusedStep(Clip(-1.0, 1.0)), FusedStep(HardSigmoid()))
    links = Fused(MatMul(), steps), Fused(MatMul(), steps)
    run(links, (2, 1), floats(1, 9), floats(9, 6), floats(6, 11), access=("storage",))


def test_infinite_weights_and_inputs_stay_in_their_own_results() -> None:
    w, v = floats(6, 9), floats(9, 6)
    w[2], v[3] = np.inf, np.nan
    (links, _) = by_products(9, 6, 9, (FusedStep(Relu(), None),))
    links = links[0], Fused(MatMul(transpose_b=True), (SIGMOID,))
    v[:, 2] = 0.5  # what the infinite one of the hidden layer is multiplied with
    x = np.abs(floats(1, 9))
    run(links, (2, 1), x, w, v, access=("storage",))


def offered(op: Op, arrays: tuple[np.ndarray, ...], limits: DeviceLimits) -> list[str]:
    graph = single_op_graph(op, list(arrays), tuple(range(1, len(arrays))))
    return [c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())]


def test_devices_and_chains_that_it_is_offered() -> None:
    links, weights = by_products(67, 17, 71)
    arrays = (floats(1, 67), *weights)
    assert offered(Chain(links, (3, 2)), arrays, DISCRETE) == ["gate1", "gate2"]
    assert offered(Chain(links, (3, 2)), arrays, MINIMUM)
    cpu = dataclasses.replace(DISCRETE, kind="cpu")
    assert not offered(Chain(links, (3, 2)), arrays, cpu)
    summed = Fused(MatMul(), (SIGMOID, FusedStep(Add(), 0)))
    assert not offered(Chain((links[0], summed), (3, 3)), (*arrays, floats(1, 71)), DISCRETE)
    image = (floats(1, 67, 3, 3), *weights)
    largest = (GlobalMaxPool(), Reshape((1, 67)), *links)
    assert not offered(Chain(largest, (1, 0, 2, 2)), image, DISCRETE)


@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize(("c", "hidden", "m"), [(13, 3, 13), (67, 17, 71), (960, 240, 960)])
def test_it_fits_the_device(device: str, c: int, hidden: int, m: int) -> None:
    links, weights = by_products(c, hidden, m)
    chain = Chain((GlobalAveragePool(), Reshape((2, c)), *links), (1, 0, 2, 2))
    arrays = [floats(2, c, 7, 9), *weights]
    graph = single_op_graph(chain, arrays, range(1, len(arrays)))
    for name in offered(chain, tuple(arrays), DEVICES[device]):
        plan = lower(graph, DEVICES[device], LoweringOptions(algorithm=name))
        check_limits(plan, DEVICES[device])
