"""References compute in blocks: the same results, in little more memory than the tensors take."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from tests.lowering.op_cases import FAMILIES

from vknn.graph import DType
from vknn.ops.attention import Attention
from vknn.ops.common import blocks
from vknn.ops.convolution.conv import Conv, ConvInteger
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.detection.image_proposals import ImageProposals
from vknn.ops.elementwise.activation import Gelu
from vknn.ops.elementwise.binary import Pow
from vknn.ops.indexing.nonzero import Unique, UniqueSlices
from vknn.ops.matmul import MatMul, MatMulInteger, QuantizedMatMul
from vknn.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
)
from vknn.ops.pooling.pool import AveragePool
from vknn.ops.pooling.roi_pooling import RoiAlign
from vknn.ops.pooling.roi_sampled import DeformableRoiPool
from vknn.ops.quantized.arithmetic import QuantizedBinary, Rescale, TableLookup
from vknn.ops.quantized.convolution import QuantizedConv, QuantizedConvTranspose
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.ops.quantized.resize import QuantizedResize
from vknn.ops.quantized.rows import (
    FixedByteSoftmax,
    FixedSoftmax,
    QuantizedL2Normalization,
    QuantizedLogSoftmax,
)
from vknn.ops.random import RandomCategorical, RandomNormal, RandomUniform
from vknn.ops.recurrent.integer_lstm import IntegerLSTM, gate_tables
from vknn.ops.recurrent.rnn import GRU, LSTM
from vknn.ops.reduction import CumSum, ReduceMean, Softmax
from vknn.ops.sampling.resize import Resize

pytestmark = [pytest.mark.host, pytest.mark.long]

#: Bytes of a block in these tests, and the most that a reference may take: so many times its
#: tensors, and so many blocks (its sums, what it gathers, what it makes of both).
BLOCK = 1 << 16
TENSORS, BLOCKS = 2.0, 14
#: Multipliers of an IntegerLSTM's gates, and a row of many blocks.
PAIRS, BYTES = ((1 << 30, 0),) * 4, (1, 2000003)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_one_block(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers exactly; of floats the sums of products may be added up in another order."""
    cases = list(FAMILIES[family]())
    expected = [case.op.reference(*case.arrays()) for case in cases]
    monkeypatch.setattr(blocks, "ELEMENTS", 7)
    monkeypatch.setattr(blocks, "GATHERED", 300)
    for case, wanted in zip(cases, expected, strict=True):
        for result, right in zip(case.op.reference(*case.arrays()), wanted, strict=True):
            right = np.asarray(right)
            assert result.dtype == right.dtype and result.shape == right.shape, case.op
            if right.dtype.kind in "fc":
                np.testing.assert_allclose(result, right, 1e-5, 1e-6, err_msg=str(case.op))
            else:
                np.testing.assert_array_equal(result, right, str(case.op))


def _large() -> list[Any]:
    """Ops with inputs that are many blocks."""
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    wide = {"strides": (1, 1), "pads": (0, 576, 0, 576), "dilations": (1, 1)}
    point = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    x, i8, row = (1, 16, 191, 193), DType.INT8, (1, 1, 1, 400003)
    one = ("int32", (1,))
    vectors = (None, one, one)
    return [
        (Gelu(), [("float32", x)]),
        (Pow(), [("float32", x), ("float32", (1, 16, 1, 1))]),
        (Conv(**window), [("float32", x), ("float32", (5, 16, 3, 3)), ("float32", (5,))]),
        (Conv(**window), [("float32", (1, 1, 701, 997)), ("float32", (1, 1, 3, 3)), None]),
        (Conv(**wide), [("float32", (1, 2, 1, 9001)), ("float32", (3, 2, 1, 8)), None]),
        (Conv(**window, group=16), [("float32", x), ("float32", (16, 1, 3, 3)), None]),
        (ConvInteger(**window), [("int8", x), ("int8", (5, 16, 3, 3))]),
        (ConvTranspose(**window), [("float32", x), ("float32", (16, 5, 3, 3)), None]),
        (QuantizedConv(**window), [("int8", x), ("int8", (5, 16, 3, 3)), *vectors]),
        (
            QuantizedConv(**window, group=16, zero_in=3),
            [("int8", x), ("int8", (16, 1, 3, 3)), *vectors],
        ),
        (QuantizedConvTranspose(**window), [("int8", x), ("int8", (16, 5, 3, 3)), *vectors]),
        (
            QuantizedConv(**point),
            [("int8", (1, 2003, 2, 2)), ("int8", (503, 2003, 1, 1)), *vectors],
        ),
        (
            QuantizedConvTranspose(**point),
            [("int8", (1, 2003, 2, 2)), ("int8", (2003, 503, 1, 1)), *vectors],
        ),
        (QuantizedGemm(), [("int8", (701, 997)), ("int8", (997, 503)), *vectors]),
        (MatMul(), [("float32", (1, 2003)), ("float32", (2003, 503)), ("float32", (503,))]),
        (MatMul(transpose_a=True), [("float32", (7, 503, 211)), ("float32", (7, 503, 199)), None]),
        (MatMulInteger(), [("int8", (701, 997)), ("int8", (997, 503))]),
        (QuantizedBinary("add", i8, multipliers=(1 << 30,) * 3, left_shift=20), [("int8", x)] * 2),
        (Rescale(1 << 30, -2, low=-128, high=127, dtype=i8), [("int8", x)]),
        (TableLookup(-128), [("int8", x), ("int8", (256,))]),
        (QuantizeLinear(), [("float32", x), ("float32", (16,)), None]),
        (DequantizeLinear(), [("int8", x), ("float32", (16,)), None]),
        (QuantizedResize((382, 385)), [("int8", x)]),
        (Resize((382, 385), "linear", "half_pixel"), [("float32", x)]),
        (Resize((1201, 1203), "cubic", "half_pixel"), [("float32", (1, 1, 3, 2))]),
        (AveragePool((3, 3), (1, 1), (1, 1, 1, 1)), [("int8", x)]),
        (BatchNormalization(), [("float32", x), *[("float32", (16,))] * 4]),
        (GroupNormalization(4), [("float32", x), None, None]),
        (LayerNormalization(), [("float32", x), ("float32", (193,)), None]),
        (MeanVarianceNormalization((3,)), [("float32", x)]),
        (LRN((1,), (2,), (2,), 1.0, 0.75, 1.0), [("float32", x)]),
        (Softmax(1), [("float32", x)]),
        (CumSum(2), [("float32", x)]),
        (ReduceMean((2, 3)), [("float32", x)]),
        (Gelu(), [("float32", row)]),
        (QuantizedMatMul(), [("float32", (701, 997)), ("float32", (997, 503)), None, None]),
        (QuantizedMatMul(), [("int8", (701, 997)), ("float32", (997, 503)), ("float32", ()), None]),
        (
            DeformConv(**window),
            [("float32", x), ("float32", (5, 16, 3, 3)), ("float32", (1, 18, 191, 193)), None],
        ),
        (Attention(2, 0.1), [("float32", (1, 2003, 26))] * 3 + [None]),
        (Attention(2, 0.1), [("float32", (1, 2, 701, 13))] * 3 + [("float32", (701, 701))]),
        (LSTM(), [("float32", s) for s in ((9001, 1, 13), (1, 28, 13), (1, 28, 7))] + [None] * 7),
        (LSTM(), [("float32", s) for s in ((1, 9001, 13), (1, 28, 13), (1, 28, 7))] + [None] * 7),
        (GRU(), [("float32", s) for s in ((2, 20011, 5), (1, 18, 5), (1, 18, 6))] + [None] * 2),
        (
            IntegerLSTM(PAIRS, PAIRS, PAIRS[0], PAIRS[0]),
            [
                *[("int8", s) for s in ((1, 10007, 5), (24, 5), (24, 6))],
                *[("int32", (24,))] * 2,
                *[("int8", (10007, 6)), ("int16", (10007, 6))],
                *[None] * 5,
            ],
        ),
        (QuantizedLogSoftmax(0.1, 0, -128, 127, i8, 0.1), [("int8", BYTES), ("float32", (256,))]),
        (FixedByteSoftmax(i8), [("int8", BYTES), ("int32", (256,))]),
        (FixedSoftmax(), [("int16", BYTES), ("int32", (65536,)), ("int32", (513,))]),
        (QuantizedL2Normalization(3), [("int8", BYTES)]),
        (QuantizedL2Normalization(3), [("uint8", BYTES)]),
        (QuantizedResize((5, 17)), [("int8", (3, 5291, 9, 11))]),
        (RoiAlign((709, 719), sampling_ratio=2), [("float32", (1, 1, 5, 7)), ("float32", (1, 4))]),
        (
            DeformableRoiPool((2, 3), samples=(30011, 30013)),
            [("float32", (1, 1, 5, 7)), ("float32", (3, 4))],
        ),
        (
            ImageProposals(((0.0, 0.0, 9.0, 7.0),) * 3, 16.0, 50, 50, 0.7, 0.0),
            [("float32", (1, 6, 151, 157)), ("float32", (1, 12, 151, 157)), ("float32", (3,))],
        ),
        (RandomNormal((701, 997)), [("int32", (1,))]),
        (RandomUniform((701, 997)), [("int32", (1,))]),
        (RandomCategorical(1009), [("float32", (701, 13)), ("int32", (1,))]),
    ]


LARGE = _large()
#: Those that are one sort of all.
SORTS = [
    (Unique(), [("float32", (200003,))]),
    (UniqueSlices(), [("float32", (211, 499))]),
]


@pytest.mark.parametrize(("op", "inputs"), [*LARGE, *SORTS], ids=lambda v: type(v).__name__)
def test_memory(op: Any, inputs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reference holds beside its inputs, results included."""
    monkeypatch.setattr(blocks, "ELEMENTS", BLOCK // 8)
    monkeypatch.setattr(blocks, "GATHERED", BLOCK)
    rng = np.random.default_rng(1)
    arrays = [None if i is None else array(rng, *i) for i in inputs]
    if isinstance(op, IntegerLSTM):
        gate_tables(op.cell_bits)  # kept, whatever the sizes
    tracemalloc.start()
    try:
        results = op.reference(*arrays)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    tensors = sum(a.nbytes for a in (*arrays, *results) if a is not None)
    assert peak < TENSORS * tensors + BLOCKS * BLOCK, f"{peak / tensors:.1f} of {tensors} bytes"


def array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "float32":
        return rng.random(shape, np.float32)
    return rng.integers(1, 100, shape).astype(dtype)
