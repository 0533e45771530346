"""Conv and ConvInteger on the device: every kernel, layout and access mode against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import (
    ACCESS_MODES,
    check_op,
    shared_device,
    single_op_graph,
    skip_without_half,
)
from tests.lowering.limits import DISCRETE

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.convolution.depthwise import pack_depthwise
from vknn.lowering.kernels.convolution.packing import (
    pack_conv,
)
from vknn.ops.convolution.conv import Conv, ConvInteger, ExactConv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid
from vknn.runtime import Executable


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def conv(axes: int, stride=1, pad=0, dilation=1, group=1) -> Conv:
    return Conv((stride,) * axes, (pad,) * 2 * axes, (dilation,) * axes, group)


CASES = {
    "3x3": (conv(2, pad=1), (1, 5, 7, 6), (11, 5, 3, 3)),
    "3x3 stride 2": (conv(2, 2, 1), (1, 3, 9, 8), (13, 3, 3, 3)),
    "1x1": (conv(2), (1, 7, 5, 5), (6, 7, 1, 1)),
    "1x1 padded": (conv(2, pad=1), (1, 9, 3, 4), (5, 9, 1, 1)),
    "1x1 stride 2": (conv(2, 2), (1, 4, 7, 5), (8, 4, 1, 1)),
    "1x1 many pixels": (conv(2), (1, 3, 11, 13), (19, 3, 1, 1)),
    "one pixel": (conv(2), (1, 33, 1, 1), (37, 33, 1, 1)),
    "batch": (conv(2, pad=1), (3, 2, 5, 4), (5, 2, 3, 3)),
    "dilation": (conv(2, pad=2, dilation=2), (1, 3, 8, 9), (4, 3, 3, 3)),
    "uneven": (
        Conv((2, 1), (0, 2, 3, 1), (1, 3), 1),
        (2, 3, 7, 9),
        (5, 3, 4, 2),
    ),
    "aligned groups": (conv(2, pad=1, group=2), (1, 8, 5, 5), (24, 4, 3, 3)),
    "groups of three": (conv(2, pad=1, group=3), (1, 9, 4, 5), (6, 3, 3, 3)),
    "uneven groups": (conv(2, group=2), (2, 10, 3, 4), (6, 5, 1, 1)),
    "multiplier": (conv(2, pad=1, group=3), (1, 3, 5, 5), (6, 1, 3, 3)),
    "1-D": (conv(1, 2, 1), (1, 3, 11), (5, 3, 3)),
    "1-D groups": (conv(1, 1, 1, group=5), (2, 5, 11), (5, 1, 3)),
    "3-D": (conv(3, pad=1), (1, 2, 3, 4, 5), (5, 2, 3, 3, 3)),
    "3-D stride": (conv(3, 2, dilation=2), (2, 3, 7, 6, 5), (3, 3, 2, 2, 2)),
    "3-D groups": (conv(3, pad=1, group=4), (1, 4, 3, 4, 5), (4, 1, 3, 3, 3)),
    "depthwise": (conv(2, pad=1, group=7), (1, 7, 5, 9), (7, 1, 3, 3)),
    "depthwise stride 2": (conv(2, 2, 1, group=6), (2, 6, 9, 11), (6, 1, 3, 3)),
    "depthwise 5x5": (conv(2, 1, 2, group=5), (1, 5, 6, 7), (5, 1, 5, 5)),
    "depthwise dilation": (
        Conv((1, 3), (1, 2, 0, 3), (2, 3), 4),
        (1, 4, 7, 13),
        (4, 1, 2, 3),
    ),
    "depthwise wide": (conv(2, 3, 11, group=5), (1, 5, 3, 9), (5, 1, 1, 23)),
}


#: One of each kernel; the others differ in numbers only, so one access mode will do for them.
KERNELS = ["3x3", "1x1", "groups of three", "depthwise", "3-D"]


def access(name: str) -> tuple[str, ...]:
    return ACCESS_MODES if name in KERNELS else ("texel",)


@pytest.mark.parametrize("name", CASES)
def test_conv(name: str) -> None:
    op, x, w = CASES[name]
    check_op(op, random(*x), random(*w), random(w[0]), constants=(1, 2), access=access(name))


@pytest.mark.parametrize("name", ["3x3", "1x1 many pixels", "batch", "depthwise stride 2"])
def test_conv_as_on_a_gpu(name: str) -> None:
    op, x, w = CASES[name]
    arrays = random(*x), random(*w), random(w[0])
    check_op(op, *arrays, constants=(1, 2), access=("storage",), kind="discrete")


def test_conv_without_bias() -> None:
    op, x, w = CASES["3x3"]
    check_op(op, random(*x), random(*w), constants=(1,))
    op, x, w = CASES["depthwise"]
    check_op(op, random(*x), random(*w), constants=(1,))


@pytest.mark.parametrize(
    "name", ["3x3", "1x1", "aligned groups", "uneven groups", "depthwise", "3-D"]
)
@pytest.mark.parametrize("constants", [(), (1,), (2,)])
def test_conv_with_run_time_weights(name: str, constants: tuple[int, ...]) -> None:
    op, x, w = CASES[name]
    check_op(op, random(*x), random(*w), random(w[0]), constants=constants, access=("image",))


def test_conv_with_run_time_weights_without_bias() -> None:
    op, x, w = CASES["3x3"]
    check_op(op, random(*x), random(*w))


@pytest.mark.parametrize("name", ["3x3", "1x1", "depthwise", "groups of three", "3-D"])
def test_conv_with_an_epilogue(name: str) -> None:
    base, x, w = CASES[name]
    arrays = random(*x), random(*w), random(w[0])
    (y,) = base.reference(*arrays)
    full = Fused(base, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0), FusedStep(Relu(), None)))
    check_op(full, *arrays, random(*y.shape), constants=(1, 2), access=("image",))
    channel = Fused(base, (FusedStep(Add(), 0), FusedStep(Sigmoid(), None)))
    vector = random(1, y.shape[1], *[1] * (y.ndim - 2))
    check_op(channel, *arrays, vector, constants=(1, 2), access=("storage",))


@pytest.mark.parametrize("name", CASES)
def test_conv_integer(name: str) -> None:
    base, x, w = CASES[name]
    op = ConvInteger(base.strides, base.pads, base.dilations, base.group)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-128, 128, shape).astype(np.int8) for shape in (x, w)]
    check_op(op, *arrays, constants=(1,), access=("texel",))


def test_conv_integer_with_run_time_weights() -> None:
    rng = np.random.default_rng(0)
    shapes = (1, 5, 4, 6), (9, 5, 3, 3)
    arrays = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    check_op(ConvInteger((1, 1), (1, 1, 1, 1), (1, 1)), *arrays)


@pytest.mark.parametrize("name", ["3x3", "groups of three", "uneven groups", "3-D groups"])
def test_long_sums_take_several_dispatches(name: str) -> None:
    """As on a device that ends loops sooner: every kernel but the general one is out."""
    base, x, w = CASES[name]
    arrays = random(*x), random(*w), random(w[0])
    taps = int(np.prod(w[2:]))
    most = 4 * (taps + 4) + 1 + 4 * (taps + 2) * (w[1] // 3)
    (y,) = base.reference(*arrays)
    op = Fused(base, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0)))
    check_op(op, *arrays, random(*y.shape), constants=(1, 2), max_loop_rounds=most)
    integers = ConvInteger(base.strides, base.pads, base.dilations, base.group)
    given = [(10 * a).astype(np.int8) for a in arrays[:2]]
    check_op(integers, *given, access=("storage",), max_loop_rounds=most)


def test_more_products_than_a_lane_may_add_in_one_dispatch() -> None:
    x, w = random(1, 3, 1, 50_000), random(2, 3, 1, 50_000)
    check_op(conv(2), x, w, constants=(1,), tolerance=1e-4, access=("storage",))
    x, w = random(1, 2, 1, 70_000), random(2, 1, 1, 70_000)
    check_op(conv(2, group=2), x, w, constants=(1,), host=True)


def test_special_values_pass_through() -> None:
    x = random(1, 5, 4, 4)
    x[0, 2, 1, 1], x[0, 4, 2, 3] = np.nan, np.inf
    depthwise = conv(2, group=5)
    check_op(depthwise, x, np.ones((5, 1, 1, 1), np.float32), constants=(1,), access=("image",))


@pytest.mark.host
def test_pack_conv_puts_channels_in_vectors() -> None:
    w = np.arange(2 * 5 * 3, dtype=np.float32).reshape(5, 3, 1, 2)
    packed = pack_conv(1, 1, w, np.arange(5, dtype=np.float32))
    weights, bias = packed[: 2 * 2 * 16].reshape(2, 2, 4, 4), packed[2 * 2 * 16 :]
    assert weights.shape == (2, 2, 4, 4)  # block, tap, input channel, output channel
    np.testing.assert_array_equal(weights[0, 1, 2], w[:4, 2, 0, 1])
    np.testing.assert_array_equal(weights[1, 0, 1], [w[4, 1, 0, 0], 0, 0, 0])
    np.testing.assert_array_equal(weights[:, :, 3], 0)
    np.testing.assert_array_equal(bias, [0, 1, 2, 3, 4, 0, 0, 0])


@pytest.mark.host
def test_pack_depthwise_puts_channels_in_vectors() -> None:
    w = np.arange(5 * 6, dtype=np.float32).reshape(5, 1, 2, 3)
    packed = pack_depthwise(w, np.arange(5, dtype=np.float32)).reshape(14, 4)
    np.testing.assert_array_equal(packed[4], w[:4, 0, 1, 1])
    np.testing.assert_array_equal(packed[6 + 5], [w[4, 0, 1, 2], 0, 0, 0])
    np.testing.assert_array_equal(packed[12:], [[0, 1, 2, 3], [4, 0, 0, 0]])


@pytest.mark.host
@pytest.mark.parametrize(("kind", "widest"), [("discrete", 7), ("cpu", 8)])
def test_lanes_of_gpus_hold_what_there_are_registers_for(kind: str, widest: int) -> None:
    op = conv(2, 2, 1, group=8)
    graph = single_op_graph(op, [random(1, 8, 33, 33), random(8, 1, 3, 3)], [1])
    limits = dataclasses.replace(DISCRETE, kind=kind)
    found = {c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())}
    widths = [int(n.removeprefix("depthwise")) for n in found if n.startswith("depthwise")]
    assert max(widths) == widest and min(widths) == 1


def test_depthwise_of_three_axes() -> None:
    op = Conv((2, 1, 1), (1, 0, 2, 0, 1, 1), (1, 2, 1), 5)
    x, w, bias = random(2, 5, 4, 5, 9), random(5, 1, 2, 3, 3), random(5)
    check_op(op, x, w, bias, constants=(1, 2), access=("storage",))
    check_op(op, x, w, constants=(1,), access=("image",), precision="fp16")


@pytest.mark.parametrize("constants", [(), (1, 2)], ids=["run-time", "constant"])
def test_groups_that_share_vectors_in_fp16(constants: tuple[int, ...]) -> None:
    op, x, w = CASES["groups of three"]
    arrays = random(*x), random(*w), random(w[0])
    check_op(op, *arrays, constants=constants, access=("storage",), precision="fp16")


@pytest.mark.device
@pytest.mark.parametrize("kind", ["cpu", "integrated", "discrete"])
def test_sums_that_are_exact_stay_so_in_float16_arithmetic(kind: str) -> None:
    """Float16 has no odd integers above 2048."""
    skip_without_half()
    device = shared_device()
    rng = np.random.default_rng(5)
    x, w = (
        rng.integers(-63, 64, shape).astype(np.float32) for shape in ((1, 9, 8, 8), (5, 9, 3, 3))
    )
    op = ExactConv((1, 1), (1, 1, 1, 1), (1, 1))
    half = LoweringOptions(precision="fp16", arithmetic="fp16")
    limits = dataclasses.replace(device.limits, kind=kind)
    graph = single_op_graph(op, [x, w, None], [1])
    [wanted] = op.reference(x, w, None)
    # The result alone is rounded, as it is stored.
    stored = wanted.astype(np.float16).astype(np.float32)
    found = candidates(graph.nodes[0], limits, half)
    assert found
    for candidate in found:
        options = dataclasses.replace(half, algorithm=candidate.name, layout=candidate.outputs[0])
        with Executable(device, lower(graph, limits, options)) as executable:
            [result] = executable.run({graph.inputs[0].name: x}).values()
        np.testing.assert_array_equal(result, stored, err_msg=candidate.name)
