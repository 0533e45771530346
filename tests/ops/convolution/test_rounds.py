"""Rounds of loads of conv.comp (shaders/convolution/rounds.glsl), which GPUs take, anywhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import (
    GUARD_BYTES,
    assert_close,
    check_op,
    run_graph,
    shared_device,
    single_op_graph,
)
from tests.lowering.limits import DISCRETE
from tests.ops.quantized.convolutions import conv as quantized_conv
from tests.ops.quantized.convolutions import operands
from tests.ops.quantized.test_convolution_sum import UNIT, added

from vknn.graph import DType
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.convolution.tile import ConvTile, round_steps
from vknn.lowering.kernels.quantized.requantize import BYTES, DOTS
from vknn.ops.convolution.conv import Conv, ConvInteger
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.ops.quantized import fixed_point as fp

pytestmark = pytest.mark.long
#: Id of the specialization constant.
STEPS = 13


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def conv(axes: int = 2, stride: int = 1, pad: int = 0, dilation: int = 1, group: int = 1) -> Conv:
    return Conv((stride,) * axes, (pad,) * 2 * axes, (dilation,) * axes, group)


#: Channels that leave one vec4, none, one, two and three beyond the rounds.
CASES = {
    "1 channel": (conv(pad=1), (1, 1, 5, 7), (5, 1, 3, 3)),
    "3 channels": (conv(), (1, 3, 5, 3), (3, 3, 1, 1)),
    "5 channels": (conv(pad=1), (2, 5, 5, 7), (17, 5, 3, 3)),
    "11 channels": (conv(stride=2, pad=1), (1, 11, 7, 5), (3, 11, 3, 3)),
    "17 channels": (conv(), (1, 17, 3, 11), (67, 17, 1, 1)),
    "40 channels": (conv(pad=2, dilation=2), (1, 40, 5, 5), (5, 40, 3, 3)),
    "43 channels": (conv(), (1, 43, 3, 5), (5, 43, 1, 1)),
    "67 channels": (conv(pad=1), (1, 67, 5, 3), (17, 67, 3, 3)),
    "uneven": (Conv((2, 1), (0, 2, 3, 1), (1, 3)), (2, 23, 7, 9), (5, 23, 4, 2)),
    "groups": (conv(stride=2, pad=1, group=3), (1, 60, 5, 7), (12, 20, 3, 3)),
    "1-D": (conv(1, 2, 1), (1, 19, 11), (5, 19, 3)),
    "3-D": (conv(3, pad=1), (1, 17, 3, 2, 5), (5, 17, 3, 3, 3)),
    "one vec4, uneven": (Conv((3, 2), (0, 2, 3, 1), (2, 3)), (2, 3, 11, 7), (17, 3, 3, 2)),
    "one vec4, groups": (conv(stride=2, pad=1, group=3), (1, 12, 5, 7), (24, 4, 3, 3)),
    "one vec4, 1-D": (conv(1, 2, 1), (1, 2, 11), (5, 2, 3)),
    "one vec4, 3-D": (conv(3, pad=1), (1, 3, 3, 2, 5), (17, 3, 3, 3, 3)),
    "one vec4, nothing inside": (conv(pad=5, stride=3), (1, 1, 2, 3), (3, 1, 3, 3)),
    "nothing inside": (conv(pad=5, stride=3), (1, 13, 2, 3), (3, 13, 3, 3)),
}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_floats(name: str, precision: str) -> None:
    op, x, w = CASES[name]
    arrays = random(*x), random(*w), random(w[0])
    given = {"constants": (1, 2), "kind": "discrete", "only": "tile"}
    access = ("storage", "image") if name == "67 channels" else ("storage",)
    check_op(op, *arrays, access=access, precision=precision, **given)


@pytest.mark.parametrize("name", ["11 channels", "43 channels", "3-D"])
def test_plain_integers(name: str) -> None:
    base, x, w = CASES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-128, 128, shape).astype(np.int8) for shape in (x, w)]
    op = ConvInteger(base.strides, base.pads, base.dilations, base.group)
    given = {"constants": (1,), "access": ("storage",), "kind": "discrete", "only": "tile"}
    check_op(op, *arrays, **given)


def test_an_epilogue() -> None:
    base, x, w = CASES["11 channels"]
    arrays = random(*x), random(*w), random(w[0])
    (y,) = base.reference(*arrays)
    op = Fused(base, (FusedStep(Relu(), None), FusedStep(Add(), 0)))
    given = {"access": ("storage",), "kind": "discrete", "only": "tile"}
    check_op(op, *arrays, random(*y.shape), constants=(1, 2), **given)
    check_op(op, *arrays, random(*y.shape), **given)


def test_padding_takes_nothing_from_the_data() -> None:
    """Lanes outside read the first pixel: what is there stays in the windows that hold it."""
    op, x, w = CASES["67 channels"]
    data = random(*x)
    data[0, 2, 0, 0], data[0, 66, 0, 0] = np.nan, np.inf
    given = {"access": ("storage",), "kind": "discrete", "only": "tile"}
    check_op(op, data, random(*w), constants=(1,), **given)
    op, x, w = CASES["one vec4, uneven"]
    data = random(*x)
    data[0, 2, 0, 0], data[1, 1, 0, 0] = np.nan, np.inf
    check_op(op, data, random(*w), constants=(1,), **given)


@pytest.mark.parametrize(
    "name", ["one vec4, uneven", "5 channels", "17 channels", "67 channels", "nothing inside"]
)
def test_arithmetic_in_float16(name: str) -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    if not {"fp16_storage", "fp16_arithmetic"} <= limits.features:
        pytest.skip(f"{shared_device().name} has no 16-bit arithmetic")
    op, x, w = CASES[name]
    rng = np.random.default_rng(len(name))
    # Small integers: sums of 16 products are exact in float16.
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in (x, w)]
    graph = single_op_graph(op, arrays, (1,))
    options = LoweringOptions(guard=GUARD_BYTES, precision="fp16", arithmetic="fp16")
    tiles = [c for c in candidates(graph.nodes[0], limits, options) if c.name.startswith("tile")]
    assert len(tiles) == 6
    for tile in tiles:
        wanted = dataclasses.replace(options, algorithm=tile.name, layout=tile.outputs[0])
        found = run_graph(graph, limits, wanted, {"x0": arrays[0]})["y0"]
        assert_close(found, op.reference(*arrays)[0], 0.0, tile.name)


QUANTIZED = {
    "3 channels": ({"pads": (1, 1, 1, 1)}, (1, 3, 5, 3), (5, 3, 3, 3)),
    "17 channels": ({"pads": (1, 0, 2, 1), "strides": (2, 1)}, (2, 17, 5, 3), (5, 17, 3, 3)),
    "43 channels": ({}, (1, 43, 3, 5), (7, 43, 1, 1)),
    "67 channels": ({"pads": (2, 1, 2, 1), "dilations": (2, 1)}, (1, 67, 5, 3), (3, 67, 3, 3)),
    "groups": ({"group": 2, "pads": (1, 1, 1, 1)}, (1, 40, 3, 5), (8, 20, 3, 3)),
}


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_integers(name: str, dtype: str) -> None:
    settings, x_shape, w_shape = QUANTIZED[name]
    kind, low, high = UNIT[dtype]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0], dtype)
    op = quantized_conv(**settings, zero_in=low + 37, zero_out=5, low=low, high=high, dtype=kind)
    given = {"access": ("storage",), "kind": "discrete", "only": "tile"}
    check_op(op, x, w, bias, q, shift, constants=(1, 2, 3, 4), **given)


@pytest.mark.parametrize("name", ["43 channels", "67 channels"])
def test_other_kinds_of_quantized_integers(name: str) -> None:
    """A bias of the run, weights of 16 bits, sums of 64 bits, and a fused sum."""
    settings, x_shape, w_shape = QUANTIZED[name]
    given = {"access": ("storage",), "kind": "discrete", "only": "tile"}
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0])
    op = quantized_conv(**settings, zero_in=-17, zero_out=5, low=-100, high=110)
    check_op(op, x, w, bias, q, shift, constants=(1, 3, 4), **given)
    check_op(
        op, x, (w * np.int16(2)).astype(np.int16), None, q, shift, constants=(1, 3, 4), **given
    )
    other = np.random.default_rng(5).integers(
        -128, 128, op.reference(x, w, bias, q, shift)[0].shape
    )
    fused = Fused(op, (FusedStep(added("int8"), operand=0),))
    check_op(fused, x, w, bias, q, shift, other.astype(np.int8), constants=(1, 2, 3, 4), **given)
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0], "int16", 2, 1e-6)
    wide = {"low": -32768, "high": 32767, "dtype": DType.INT16, "rounding": "wide"}
    op = quantized_conv(**settings, **wide)
    check_op(op, x, w, bias, q, shift, constants=(1, 2, 3, 4), **given)


@pytest.mark.parametrize("most", [127, 1023, 8191, 32767])
def test_sums_that_are_joined_in_time(most: int) -> None:
    """Weights as large as let float32 sums wait for many steps, a few, two and one."""
    rng = np.random.default_rng(most)
    x = rng.integers(120, 128, (1, 67, 3, 5)).astype(np.int8)
    w = rng.integers(most - 5, most + 1, (3, 67, 3, 3)).astype(np.int16)
    q, shift = fp.quantize_multiplier(np.full(3, 0.5 / most))
    wide = {"zero_in": -128, "low": -(1 << 31), "high": (1 << 31) - 1, "dtype": DType.INT32}
    op = quantized_conv(pads=(1, 1, 1, 1), **wide)
    given = {"access": ("storage",), "kind": "discrete", "only": "tile"}
    check_op(op, x, w, None, q, shift, constants=(1, 3, 4), **given)


@pytest.mark.host
def test_steps_of_a_round() -> None:
    tile = ConvTile(1, 1, 64)
    found = [round_steps(channels, tile) for channels in (1, 2, 3, 4, 5, 6, 7, 10, 16, 17)]
    assert found == [-1, 2, 3, 4, 4, 3, 3, 4, 4, 4]
    assert [round_steps(16, tile, joined) for joined in (0, 1, 2, 8)] == [4, 1, 2, 4]
    sizes = (1, 4), (2, 2), (4, 2), (2, 4), (4, 4)
    assert [round_steps(16, ConvTile(*size, 64)) for size in sizes] == [2, 2, 1, 1, 0]
    dots = [round_steps(16, ConvTile(*s, 64, weight_format=DOTS), 1) for s in [(1, 1), *sizes]]
    assert dots == [8, 4, 4, 2, 2, 0]
    assert round_steps(16, ConvTile(1, 1, 64, weight_format=BYTES), 2) == 2


@pytest.mark.host
def test_only_gpus_take_rounds() -> None:
    op, x, w = CASES["67 channels"]
    graph = single_op_graph(op, (random(*x), random(*w)), (1,))
    for kind, expected in (("cpu", False), ("discrete", True), ("integrated", True)):
        limits = dataclasses.replace(DISCRETE, kind=kind)
        for candidate in candidates(graph.nodes[0], limits, LoweringOptions()):
            if candidate.name.startswith("tile"):
                plan = lower(graph, limits, LoweringOptions(algorithm=candidate.name))
                (dispatch,) = (d for d in plan.dispatches if d.kernel.endswith("/conv"))
                assert (STEPS in dict(dispatch.specialization)) == expected
