"""Storage in 16 bits (precision "fp16", "bf16"): what it makes of an operator's numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn import bfloat16
from vknn.graph import Op
from vknn.lowering.kit.candidate import HALF_TERMS
from vknn.ops.normalization import BatchNormalization
from vknn.ops.quantized.blocks import MatMulNBits
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear

#: Half the distance from 1 to the next float16, and to the next bfloat16.
HALF_UNIT = 2.0**-11
BFLOAT_UNIT = 2.0**-8
#: Half the distance from 1 to the next number by precision; 0 where results are stored as computed.
UNITS = {"fp32": 0.0, "fp16": HALF_UNIT, "bf16": BFLOAT_UNIT}
#: Error of sums of HALF_TERMS products in float16, relative to the sum of their absolute values: a
#: rounding for each of them.
HALF_SUMS = HALF_TERMS * HALF_UNIT
#: Half the distance between neighbouring numbers near 0, and room for a second rounding.
HALF_TINY = 2.0**-24
#: The same by unit. Near 0 bfloat16 has numbers that a device may flush to zero.
TINIES = {HALF_UNIT: HALF_TINY, BFLOAT_UNIT: 2.0**-126}

#: Ops whose parameters the device keeps in float32: scales and statistics.
_SINGLE_PARAMETERS = (BatchNormalization, QuantizeLinear, DequantizeLinear, MatMulNBits)


def as_held(
    op: Op, inputs: Sequence[np.ndarray | None], precision: str = "fp16"
) -> list[np.ndarray | None]:
    """The inputs of an op as a device holds them in a precision; integers as they are."""
    parameters = isinstance(op, _SINGLE_PARAMETERS)  # these take no epilogue
    return [x if parameters and i > 0 else rounded(x, precision) for i, x in enumerate(inputs)]


def rounded(array: np.ndarray | None, precision: str = "fp16") -> np.ndarray | None:
    """Floats to the nearest that is stored, infinite beyond the range; in the array's own dtype."""
    if array is None or array.dtype.kind != "f":
        return array
    if precision == "bf16":
        return bfloat16.rounded(array)
    with np.errstate(all="ignore"):
        return array.astype(np.float16).astype(array.dtype)


def infinite_beyond_half(array: np.ndarray, precision: str = "fp16") -> np.ndarray:
    """The array, infinite where what is stored has no number for it."""
    held = rounded(array, precision)
    assert held is not None
    return np.where(np.isinf(held), held, array) if array.dtype.kind == "f" else array
