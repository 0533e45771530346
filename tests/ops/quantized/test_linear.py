"""QuantizeLinear and DequantizeLinear on the device, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.lowering import Layout, LoweringOptions, candidates
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16

RNG = np.random.default_rng(17)


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 50).astype(np.float32)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@pytest.mark.parametrize(
    "shape, axis", [((7,), 0), ((1, 5, 3, 2), 1), ((2, 8, 3), 1), ((2, 3, 5), -1), ((3, 4), 0)]
)
@pytest.mark.parametrize("constants", [(), (1, 2)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantize(
    shape: tuple[int, ...], axis: int, constants: tuple[int, ...], per_channel: bool
) -> None:
    length = shape[axis] if per_channel else 1
    scale = RNG.uniform(0.1, 2, length).astype(np.float32)
    zero = RNG.integers(-20, 20, length, dtype=np.int8)
    for rounding in ("half_even", "half_away"):
        for multiply in (False, True):
            op = QuantizeLinear(DType.INT8, -128, 127, rounding, multiply, axis)
            check_op(op, floats(*shape), scale, zero, constants=constants)
    check_op(QuantizeLinear(axis=axis), floats(*shape), scale, zero, kind="discrete")


def test_ties() -> None:
    x = np.arange(-41, 42, dtype=np.float32) / 2
    x = np.concatenate([x, np.float32([0.49999997, -0.49999997, 8388609.0])])[None]
    for rounding in ("half_even", "half_away"):
        check_op(QuantizeLinear(rounding=rounding), x, scalar(1.0))
        check_op(QuantizeLinear(rounding=rounding, multiply=True), x, scalar(2.0))


def test_quotients_are_exact() -> None:
    """Quotients that are ties, and their neighbours."""
    scale = np.float32(0.0472)
    x = (np.arange(-127, 127, dtype=np.float32) + np.float32(0.5)) * scale
    x = np.concatenate([x, np.nextafter(x, np.float32(9)), np.nextafter(x, np.float32(-9))])[None]
    for unit in (1.0, 2.0**-55, 2.0**55, 2.0**70):  # beyond 2^60 another formula is taken
        for constants in ((), (1,)):
            given = (x * np.float32(unit), scalar(float(scale) * unit))
            check_op(QuantizeLinear(), *given, constants=constants)
            wide = QuantizeLinear(DType.INT32, -(1 << 31), (1 << 31) - 1)
            check_op(wide, *given, constants=constants)


def test_extremes() -> None:
    x = np.float32([[np.inf, -np.inf, np.nan, 3e38, -3e38, 2147483648.0, -2147483648.0, 0.0, -0.0]])
    for dtype in (DType.INT8, DType.UINT8, DType.INT16, DType.INT32):
        info = np.iinfo(dtype.numpy)
        zero = np.array(3, np.int32)
        for constants in ((), (1, 2)):
            op = QuantizeLinear(dtype, int(info.min), int(info.max))
            check_op(op, x, scalar(1.0), zero, constants=constants)
    check_op(QuantizeLinear(low=-127), x, scalar(1.0))


@pytest.mark.parametrize(
    "shape, axis", [((7,), 0), ((1, 5, 3, 2), 1), ((2, 3, 5), -1), ((3, 4), 0)]
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_dequantize(shape: tuple[int, ...], axis: int, dtype: type) -> None:
    x = RNG.integers(0, 100, shape).astype(dtype)
    for length in (1, shape[axis]):
        scale = RNG.uniform(0.1, 2, length).astype(np.float32)
        for bias in (None, scalar(0.25), floats(shape[axis])):
            check_op(DequantizeLinear(axis), x, scale, bias)
            constants = (1,) if bias is None else (1, 2)
            check_op(DequantizeLinear(axis), x, scale, bias, constants=constants)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("shape", [(7,), (2, 5, 3, 2), (1, 8, 3)])
def test_dequantize_less_a_zero_point(shape: tuple[int, ...], dtype: type) -> None:
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    for zero in (int(info.min), int(info.max), 3):
        check_op(DequantizeLinear(zero=zero), x, scalar(0.37))
        check_op(DequantizeLinear(zero=zero), x, scalar(0.37), scalar(-1.5), constants=(1, 2))


def test_zero_points_that_are_not_exact_are_refused() -> None:
    scale = TensorType((), DType.FLOAT32)
    for dtype, zero in ((DType.INT32, 1), (DType.INT8, 1 << 16), (DType.UINT16, -(1 << 16))):
        with pytest.raises(ShapeError, match=f"no zero point {zero}"):
            DequantizeLinear(zero=zero).infer(TensorType((3,), dtype), scale)
    DequantizeLinear(zero=0).infer(TensorType((3,), DType.INT32), scale)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (2, 8, 3, 1), (2, 7), (2, 7, 3, 4), (1, 4, 8)])
def test_bytes_of_floats_for_a_convolution(shape: tuple[int, ...], dtype: DType) -> None:
    """From rows and from blocks of channels to words of bytes, and back to floats."""
    info = np.iinfo(dtype.numpy)
    op = QuantizeLinear(dtype, int(info.min), int(info.max))
    zero = np.array(int(info.max) - 100, dtype.numpy)
    graph = single_op_graph(op, (floats(*shape), scalar(0.7), zero), (1, 2))
    offered = candidates(graph.nodes[0], shared_device().limits, LoweringOptions())
    layouts = {(c.inputs[0], c.outputs[0]) for c in offered}
    assert layouts >= {(Layout.LINEAR, Layout.C4B), (Layout.C4, Layout.C4B)}
    for multiply in (False, True):
        check_op(dataclasses.replace(op, multiply=multiply), floats(*shape), scalar(0.7), zero)
    scales = RNG.uniform(0.1, 2, shape[1]).astype(np.float32)
    zeros = RNG.integers(info.min, info.max, shape[1], dtype.numpy)
    check_op(op, floats(*shape), scales, zeros, constants=(1, 2))
    special = floats(*shape)
    special.reshape(-1)[:3] = np.inf, -np.inf, np.nan
    check_op(op, special, scalar(0.7), zero)


@pytest.mark.parametrize("shape", [(7,), (1, 5, 3), (2, 7, 3, 2)])
def test_round_bfloat16(shape: tuple[int, ...]) -> None:
    check_op(RoundBFloat16(), floats(*shape), tolerance=0)


def test_round_bfloat16_of_odd_numbers() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, -3.4e38, 1.00390625, 1.01171875])
    check_op(RoundBFloat16(), x.astype(np.float32), tolerance=0)


def test_round_bfloat16_in_fp16() -> None:
    check_op(RoundBFloat16(), floats(3, 5), precision="fp16")


@pytest.mark.parametrize("op", [QuantizeLinear(), DequantizeLinear()], ids=str)
def test_subnormal_scales_are_computed_on_the_host(op: QuantizeLinear | DequantizeLinear) -> None:
    """Devices may take such numbers as 0."""
    x = floats(2, 3, 5)
    given = x if isinstance(op, QuantizeLinear) else x.astype(np.int32) << 20
    for scale in (np.float32([1e-39]), np.float32([1.0, 1e-42, 0.5])):
        check_op(op, given, scale, constants=(1,), host=True)
    check_op(op, given, np.float32([1.2e-38]), constants=(1,), access=("storage",))
