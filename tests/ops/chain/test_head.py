"""Ends of classifiers in one dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.lowering.limits import DEVICES, DISCRETE, MINIMUM, check_limits

from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.chain import gate
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, HardSigmoid, Relu, Swish
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, GlobalMaxPool
from vknn.ops.reduction import LogSoftmax, Softmax
from vknn.plan import DeviceLimits
from vknn.runtime.device import open_device
from vknn.runtime.executor import Executable

RNG = np.random.default_rng(23)
check = functools.partial(check_op, kind="discrete", only="head")
LAYER, MEAN = MatMul(transpose_b=True), GlobalAveragePool()
CONV = Fused(Conv((1, 1), (0,) * 4, (1, 1)), (FusedStep(Relu(), None),))


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def weights(c: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return floats(m, c) / np.float32(c**0.5), floats(m)


def run(links: tuple[Op, ...], counts: tuple[int, ...], *arrays: np.ndarray, **more) -> None:  # type: ignore[no-untyped-def]
    check(Chain(links, counts), *arrays, constants=range(1, len(arrays)), **more)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("c", "m"), [(13, 3), (67, 71), (5, 1031), (131, 257)])
def test_layers_and_softmax(c: int, m: int, precision: str) -> None:
    for batch, op in ((1, Softmax(1)), (3, LogSoftmax(-1))):
        run((LAYER, op), (3, 0), floats(batch, c), *weights(c, m), precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("c", "m"), [(13, 3), (67, 71)])
def test_as_many_steps_a_round_as_on_rdna(
    c: int, m: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "STEPS", gate.RDNA_STEPS)
    own, links = weights(c, m), (MEAN, Reshape((2, c)), LAYER, Softmax(1))
    x = floats(2, c, 3, 5)
    run(links, (1, 0, 2, 0), x, *own, precision=precision, access=("storage",))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (11, 7), (37, 41)])
def test_means_layers_and_softmax(size: tuple[int, int], precision: str) -> None:
    x, (w, b) = floats(2, 29, *size), weights(29, 83)
    steps = Fused(LAYER, (FusedStep(Swish(), None),))
    flat = Reshape((2, 29))
    run((MEAN, flat, steps), (1, 0, 2), x, w, b, precision=precision)
    run((MEAN, flat, LAYER, Softmax(1)), (1, 0, 2, 0), x, w, b, precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("channels", "size"), [(3, (1, 1)), (29, (3, 5)), (67, (13, 13)), (131, (2, 1))]
)
def test_means_and_softmax(channels: int, size: tuple[int, int], precision: str) -> None:
    """Without a layer; a workgroup has some of the channels."""
    x = floats(2, channels, *size)
    steps = Fused(MEAN, (FusedStep(Swish(), None), FusedStep(Add(), scalar=0.5)))
    run((MEAN, Reshape((2, channels)), Softmax(1)), (1, 0, 0), x, precision=precision)
    run((steps, LogSoftmax(1)), (1, 0), x, precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_functions_of_means(precision: str) -> None:
    steps = FusedStep(Add(), scalar=0.5), FusedStep(HardSigmoid())
    x, (w, b) = floats(2, 13, 5, 3), weights(13, 7)
    for mean in (MEAN, AveragePool((5, 3), (1, 1), (0,) * 4)):
        links = (Fused(mean, steps), Reshape((2, 13)), LAYER)
        run(links, (1, 0, 2), x, w, b, precision=precision, access=("storage",))


def test_convolutions_of_one_pixel() -> None:
    w, b = floats(23, 19, 1, 1), floats(23)
    run((MEAN, CONV), (1, 2), floats(2, 19, 3, 3), w, b)
    flat = Reshape((1, 23))
    run((MEAN, CONV, flat, Softmax(1)), (1, 2, 0, 0), floats(1, 19, 3, 3), w, b)
    run((CONV, Softmax(1)), (2, 0), floats(1, 19, 1, 1), w)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_and_nans(value: float) -> None:
    x, (w, b) = floats(3, 7), weights(7, 13)
    x[1, 2] = value
    b[5] = value
    run((LAYER, Softmax(1)), (2, 0), x, w, access=("storage",))
    run((LAYER, Softmax(1)), (3, 0), np.nan_to_num(x), w, b, access=("storage",))


def test_large_results() -> None:
    x, (w, b) = 100 * floats(1, 31), weights(31, 37)
    run((LAYER, LogSoftmax(1)), (3, 0), x, w, b, access=("storage",))


@pytest.mark.parametrize("disabled", ["", "unified"])
def test_every_run_counts_workgroups_anew(disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    x, (w, b) = floats(2, 17, 5, 3), weights(17, 1031)
    chain = Chain((MEAN, Reshape((2, 17)), LAYER, Softmax(1)), (1, 0, 2, 0))
    plan = lower(single_op_graph(chain, (x, w, b), (1, 2)), limits, LoweringOptions(guard=64))
    with open_device(shared_device().name) as device, Executable(device, plan) as executable:
        for factor in (1, 2, -1):
            (y,) = executable.run({"x0": factor * x}).values()
            (expected,) = chain.reference(factor * x, w, b)
            assert np.abs(y - expected).max() < 1e-5 * expected.max()
            executable.check_guards()


def offered(op: Op, arrays: tuple[np.ndarray, ...], limits: DeviceLimits) -> list[str]:
    graph = single_op_graph(op, list(arrays), tuple(range(1, len(arrays))))
    return [c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())]


def test_devices_and_chains_that_it_is_offered() -> None:
    arrays = (floats(1, 67), *weights(67, 71))
    chain = Chain((LAYER, Softmax(1)), (3, 0))
    assert offered(chain, arrays, DISCRETE) == ["head4", "head8", "head16"]
    assert offered(chain, arrays, MINIMUM)
    assert not offered(chain, arrays, dataclasses.replace(DISCRETE, kind="cpu"))
    assert not offered(Chain((LAYER, Softmax(0)), (3, 0)), arrays, DISCRETE)
    assert not offered(Chain((LAYER, Reshape((71, 1))), (3, 0)), arrays, DISCRETE)
    summed = Fused(LAYER, (FusedStep(Add(), 0),))
    assert not offered(Chain((summed, Softmax(1)), (4, 0)), (*arrays, floats(1, 71)), DISCRETE)
    image = (floats(1, 67, 3, 3), *arrays[1:])
    largest = Chain((GlobalMaxPool(), Reshape((1, 67)), LAYER), (1, 0, 2))
    assert not offered(largest, image, DISCRETE)
    for kernel, pads in (((2, 2), (0,) * 4), ((3, 3), (1, 1, 0, 0))):
        part = AveragePool(kernel, (3, 3), pads)
        assert not offered(Chain((part, *largest.links[1:]), (1, 0, 2)), image, DISCRETE)


@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize(("c", "m"), [(13, 3), (67, 71), (1280, 1000)])
def test_it_fits_the_device(device: str, c: int, m: int) -> None:
    chain = Chain((MEAN, Reshape((2, c)), LAYER, Softmax(1)), (1, 0, 2, 0))
    arrays = floats(2, c, 7, 7), *weights(c, m)
    graph = single_op_graph(chain, arrays, (1, 2))
    for name in offered(chain, arrays, DEVICES[device]):
        plan = lower(graph, DEVICES[device], LoweringOptions(algorithm=name))
        check_limits(plan, DEVICES[device])
