"""ConvTranspose on the device: every kernel, layout and access mode against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import ACCESS_MODES, check_op, single_op_graph
from tests.lowering.limits import DISCRETE

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.convolution.span import ChannelSpans, pack_span
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid

#: Id of the specialization constant AGAIN of convolution/span.glsl.
AGAIN = 13


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def op(axes: int, stride=1, pad=0, dilation=1, group=1, extra=0) -> ConvTranspose:
    padding = (extra,) * axes if extra else ()
    return ConvTranspose((stride,) * axes, (pad,) * 2 * axes, (dilation,) * axes, group, padding)


CASES = {
    "2x2 stride 2": (op(2, 2), (1, 5, 3, 4), (5, 7, 2, 2)),
    "3x3": (op(2, pad=1), (1, 5, 5, 4), (5, 6, 3, 3)),
    "3x3 stride 2": (op(2, 2, 1, extra=1), (2, 3, 4, 5), (3, 9, 3, 3)),
    "4x4 stride 2": (op(2, 2, 3), (1, 9, 5, 7), (9, 3, 4, 4)),
    "wide": (op(2, 2, 1), (1, 2, 3, 41), (2, 33, 4, 4)),
    "uneven": (
        ConvTranspose((3, 2), (0, 1, 2, 0), (1, 2), 1, (1, 0)),
        (2, 3, 4, 3),
        (3, 5, 2, 5),
    ),
    "stride beyond the kernel": (op(2, 5), (1, 2, 3, 2), (2, 3, 2, 3)),
    "stride and dilation": (op(2, 4, 1, 6), (1, 2, 3, 4), (2, 5, 3, 4)),
    "extra beyond the kernel": (op(2, 2, extra=5), (1, 2, 2, 3), (2, 3, 3, 3)),
    "pads beyond the kernel": (op(1, 1, 5), (1, 3, 13), (3, 2, 3)),
    "one pixel": (op(2, 3), (1, 37, 1, 1), (37, 5, 3, 3)),
    "aligned groups": (op(2, 2, 1, group=2), (1, 8, 3, 4), (8, 12, 3, 3)),
    "groups of three": (op(2, 2, group=3), (1, 9, 3, 4), (9, 3, 3, 3)),
    "uneven groups": (op(2, 2, group=5), (2, 10, 3, 2), (10, 3, 2, 2)),
    "two groups of many": (op(2, group=2), (1, 26, 3, 2), (26, 21, 1, 1)),
    "multiplier": (op(2, 2, 1, group=3), (1, 3, 4, 3), (3, 5, 3, 3)),
    "1-D": (op(1, 2, 1), (1, 3, 11), (3, 5, 3)),
    "1-D depthwise": (op(1, 3, 1, group=5), (2, 5, 11), (5, 1, 4)),
    "3-D": (op(3, 2, 1), (1, 3, 2, 3, 4), (3, 5, 3, 3, 3)),
    "3-D dilation": (op(3, 2, 1, 3), (1, 3, 2, 3, 2), (3, 2, 2, 2, 2)),
    "3-D depthwise": (op(3, 2, 1, group=6), (1, 6, 2, 3, 4), (6, 1, 2, 3, 2)),
    "depthwise": (op(2, 2, 1, group=7, extra=1), (2, 7, 4, 19), (7, 1, 3, 3)),
    "depthwise 16x16 stride 8": (op(2, 8, 4, group=3), (1, 3, 2, 3), (3, 1, 16, 16)),
    "depthwise dilation": (op(2, 2, 1, 2, group=4), (1, 4, 4, 3), (4, 1, 3, 2)),
}

#: One of each kernel; the others differ in numbers only, so one access mode will do for them.
KERNELS = ["4x4 stride 2", "groups of three", "3-D", "depthwise"]


def channels(name: str) -> int:
    base, _, w = CASES[name]
    return w[1] * base.group


@pytest.mark.parametrize("name", CASES)
def test_conv_transpose(name: str) -> None:
    base, x, w = CASES[name]
    access = ACCESS_MODES if name in KERNELS else ("texel",)
    arrays = random(*x), random(*w), random(channels(name))
    check_op(base, *arrays, constants=(1, 2), access=access)


@pytest.mark.parametrize("name", ["uneven", "depthwise", "3-D"])
def test_as_on_a_gpu(name: str) -> None:
    base, x, w = CASES[name]
    arrays = random(*x), random(*w), random(channels(name))
    check_op(base, *arrays, constants=(1, 2), access=("storage",), kind="discrete")


@pytest.mark.parametrize(
    ("name", "constants"),
    [("uneven groups", ()), ("uneven groups", (1,)), ("depthwise", ()), ("3-D", (2,))],
    ids=["all", "bias", "depthwise", "weight"],
)
def test_run_time_weights(name: str, constants: tuple[int, ...]) -> None:
    base, x, w = CASES[name]
    arrays = random(*x), random(*w), random(channels(name))
    check_op(base, *arrays, constants=constants, access=("image",))


@pytest.mark.parametrize("name", ["groups of three", "depthwise"])
def test_without_bias(name: str) -> None:
    base, x, w = CASES[name]
    check_op(base, random(*x), random(*w), constants=(1,), access=("storage",))
    check_op(base, random(*x), random(*w), None, access=("storage",))


@pytest.mark.parametrize("name", ["groups of three", "depthwise"])
def test_with_an_epilogue(name: str) -> None:
    base, x, w = CASES[name]
    arrays = random(*x), random(*w), random(channels(name))
    (y,) = base.reference(*arrays)
    full = Fused(base, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0), FusedStep(Relu(), None)))
    check_op(full, *arrays, random(*y.shape), constants=(1, 2), access=("image",))
    channel = Fused(base, (FusedStep(Add(), 0), FusedStep(Sigmoid(), None)))
    vector = random(1, y.shape[1], *[1] * (y.ndim - 2))
    check_op(channel, *arrays, vector, constants=(1, 2), access=("storage",))


@pytest.mark.parametrize("name", ["uneven groups", "depthwise"])
@pytest.mark.parametrize("constants", [(), (1, 2)], ids=["run-time", "constant"])
def test_in_fp16(name: str, constants: tuple[int, ...]) -> None:
    base, x, w = CASES[name]
    arrays = random(*x), random(*w), random(channels(name))
    check_op(base, *arrays, constants=constants, access=("storage", "image"), precision="fp16")


@pytest.mark.parametrize("constants", [(1, 2), ()], ids=["constant", "run-time"])
@pytest.mark.parametrize("kind", ["cpu", "discrete"])
def test_infinite_weights_count_inside_of_the_input_alone(
    kind: str, constants: tuple[int, ...]
) -> None:
    base, x, w = CASES["3x3"]
    weights = random(*w)
    weights[1, 2, 0, 0] = np.inf
    arrays = random(*x), weights, random(channels("3x3"))
    (expected,) = base.reference(*arrays)
    assert np.isfinite(expected[0, 2]).any() and np.isinf(expected[0, 2]).any()
    check_op(base, *arrays, constants=constants, access=("storage",), kind=kind)


@pytest.mark.parametrize("constants", [(1, 2), ()], ids=["constant", "run-time"])
def test_infinite_weights_of_channels_by_themselves(constants: tuple[int, ...]) -> None:
    base, x, w = CASES["depthwise"]
    weights = random(*w)
    weights[1, 0, 0, 0], weights[-1, 0, -1, -1] = np.inf, -np.inf
    arrays = random(*x), weights, random(channels("depthwise"))
    assert not np.isnan(base.reference(*arrays)[0]).any()
    check_op(base, *arrays, constants=constants, access=("storage",))


@pytest.mark.host
def test_results_are_computed_anew_where_zeros_may_not_count() -> None:
    base, x, w = CASES["3x3"]
    weights = random(*w)
    assert not computed_anew(base, random(*x), weights, (1,))
    assert computed_anew(base, random(*x), weights, ())
    weights[0, 0, 0, 0] = 7e4  # infinite as float16
    assert computed_anew(base, random(*x), weights, (1,))
    grouped, x, w = CASES["groups of three"]
    assert computed_anew(grouped, random(*x), random(*w), (1,))


@pytest.mark.host
def test_gpus_have_no_room_for_most_sums_and_results_computed_anew() -> None:
    base, x, w = (op(2, 2, 1), (1, 64, 90, 90), (64, 64, 3, 3))
    for constants, offered in (((1,), True), ((), False)):
        graph = single_op_graph(base, [random(*x), random(*w)], constants)
        found = candidates(graph.nodes[0], DISCRETE, LoweringOptions())
        assert ("span4x4" in [c.name for c in found]) == offered


def computed_anew(
    base: ConvTranspose, x: np.ndarray, w: np.ndarray, constants: tuple[int, ...]
) -> bool:
    """Whether the plan's kernel computes results that are NaN once more."""
    plan = lower(single_op_graph(base, [x, w], constants), DISCRETE, LoweringOptions())
    found = [d for d in plan.dispatches if d.kernel == "convolution/conv_transpose"]
    return any(dict(d.specialization).get(AGAIN) == 1 for d in found)


def test_long_sums_are_left_to_the_host() -> None:
    x, w = random(1, 8, 1, 3), random(8, 1, 1, 40_000)
    check_op(op(2), x, w, constants=(1,), host=True)


def test_a_long_kernel_with_a_long_stride_is_not_a_long_sum() -> None:
    """As on a device that ends loops before the kernel does."""
    x, w = random(1, 2, 3), random(2, 1, 90)
    base = ConvTranspose((30,), (10, 20), (1,))
    check_op(base, x, w, constants=(1,), access=("storage",), max_loop_rounds=40)


@pytest.mark.host
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
def test_pack_span_keeps_groups_apart(transposed: bool) -> None:
    spans = ChannelSpans(channels_in=6, channels_out=9, group=3, taps=2, block=1)
    assert (spans.group_in, spans.group_out, spans.blocks, spans.span) == (2, 3, 3, 2)
    assert spans.start(np.arange(3)).tolist() == [0, 0, 0]
    w = 1 + np.arange(36, dtype=np.float32).reshape((6, 3, 2) if transposed else (9, 2, 2))
    packed = pack_span(spans, transposed, w, np.arange(9, dtype=np.float32))
    weights, bias = packed[: 4 * spans.count].reshape(3, 2, 8, 4), packed[4 * spans.count :]
    for m in range(9):
        for c in range(8):
            found = weights[m // 4, :, c, m % 4]
            same = c // 2 == m // 3
            own = w[c, m % 3] if transposed and same else w[m, c % 2] if same else 0
            np.testing.assert_array_equal(found, own)
    np.testing.assert_array_equal(bias, [*range(9), 0, 0, 0])
