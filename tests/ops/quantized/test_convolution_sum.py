"""Quantized convolutions with a fused sum of the result and another tensor."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op, single_op_graph
from tests.ops.quantized.convolutions import GEOMETRIES, conv, operands

from vknn.graph import DType
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.elementwise import Fused, FusedStep
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import QuantizedBinary
from vknn.plan import DeviceLimits

UNIT = {"int8": (DType.INT8, -128, 127), "uint8": (DType.UINT8, 0, 255)}


def added(dtype: str, low: int = 3, high: int = 120) -> QuantizedBinary:
    kind, _, _ = UNIT[dtype]
    pairs = [fp.quantize_multiplier(f) for f in (0.45, 0.31, 1.7 / 2**20)]
    q, shifts = (tuple(int(p[i]) for p in pairs) for i in (0, 1))
    return QuantizedBinary("add", kind, (-9, 21), q, shifts, 20, 4, low, high)  # type: ignore[arg-type]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", ["3x3", "1x1", "groups"])
def test_sum(name: str, dtype: str, reverse: bool) -> None:
    settings, x_shape, w_shape = GEOMETRIES[name]
    kind, low, high = UNIT[dtype]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0], dtype)
    base = conv(**settings, zero_in=low + 37, zero_out=5, low=low, high=high, dtype=kind)
    (y,) = base.reference(x, w, bias, q, shift)
    other = np.random.default_rng(5).integers(low, high + 1, y.shape).astype(dtype)
    op = Fused(base, (FusedStep(added(dtype), operand=0, reverse=reverse),))
    check_op(op, x, w, bias, q, shift, other, constants=(1, 2, 3, 4))
    check_op(op, x, w, bias, q, shift, other, constants=(1, 3, 4), access=("storage",))
    expected = added(dtype).reference(*((other, y) if reverse else (y, other)))
    np.testing.assert_array_equal(op.reference(x, w, bias, q, shift, other)[0], expected[0])


@pytest.mark.host
def test_a_depthwise_convolution_takes_none() -> None:
    settings, x_shape, w_shape = GEOMETRIES["depthwise"]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0])
    base = conv(**settings)
    (y,) = base.reference(x, w, bias, q, shift)
    op = Fused(base, (FusedStep(added("int8"), operand=0),))
    (node,) = single_op_graph(op, [x, w, bias, q, shift, y], (1, 2, 3, 4)).nodes
    assert candidates(node, DeviceLimits(), LoweringOptions()) == []
