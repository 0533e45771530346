"""Comparisons, choices, look-ups, fixed point for the tests of lowering: op, inputs, constants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vknn.graph import DType, Op
from vknn.ops.bits import BitShift, BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor
from vknn.ops.casting import BitCast
from vknn.ops.convolution.conv import ExactConv
from vknn.ops.elementwise import logic
from vknn.ops.indexing.gather import GatherND, SearchSorted
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.matmul import RoundBlocks
from vknn.ops.movement.rearrange import ReverseSequence
from vknn.ops.pooling.pool import AveragePool
from vknn.ops.quantized.arithmetic import FloatRescale, QuantizedBinary, Rescale, TableLookup
from vknn.ops.quantized.blocks import MatMulNBits
from vknn.ops.quantized.codes import GatherCodes
from vknn.ops.quantized.convolution import QuantizedConv, QuantizedConvTranspose
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.ops.quantized.rows import (
    FixedByteSoftmax,
    FixedSoftmax,
    QuantizedL2Normalization,
    QuantizedLayerNormalization,
    QuantizedLogSoftmax,
    QuantizedReduceProd,
)

IMAGE = (1, 13, 9, 11)
I8, I16, I32 = np.int8, np.int16, np.int32
Given = tuple[Op, tuple[object, ...], tuple[int, ...]]


def cases() -> Iterator[Given]:
    """Small ones of every op."""
    yield from _choices()
    yield from _fixed_point()
    yield from _products()
    yield from _few_bits()
    indices = ((1, 5, 2), I32)
    yield GatherND(), ((7, 9, 5), indices), ()
    yield ScatterND(), ((7, 9, 5), indices, (1, 5, 5)), ()
    yield ScatterND("add"), ((7, 9, 5), indices, (1, 5, 5)), ()
    yield ReverseSequence(), ((7, 3, 5), ((3,), I32)), ()
    yield SearchSorted(), (((19,), I32), ((5, 7), I32)), ()
    yield RoundBlocks(8), ((5, 37),), ()


def _choices() -> Iterator[Given]:
    ordered = (logic.Less(), logic.LessOrEqual(), logic.Greater(), logic.GreaterOrEqual())
    for op in (*ordered, logic.Equal(), logic.NotEqual()):
        yield op, (IMAGE, (13, 1, 1)), ()
        yield op, ((IMAGE, I8), (IMAGE, I8)), ()
    for bitwise in (BitwiseAnd(), BitwiseOr(), BitwiseXor(), BitShift(True), BitShift(False)):
        yield bitwise, ((IMAGE, I8), ((13, 1, 1), I8)), ()
    yield BitwiseNot(), ((IMAGE, I32),), ()
    yield BitCast(DType.UINT8), (IMAGE,), ()
    yield BitCast(DType.FLOAT32), (((3, 4), I8),), ()
    truth = (IMAGE, np.bool_)
    for both in (logic.And(), logic.Or(), logic.Xor()):
        yield both, (truth, ((13, 1, 1), np.bool_)), ()
    yield logic.Not(), (truth,), ()
    yield logic.Where(), (truth, IMAGE, (13, 1, 1)), ()


def _fixed_point() -> Iterator[Given]:
    codes = (IMAGE, I8)
    yield TableLookup(-128), (codes, (256,)), (1,)
    yield Rescale(1 << 30, -2), (codes,), ()
    yield FloatRescale(0.5, 1.0), (codes,), ()
    yield QuantizedBinary("add", DType.INT8), (codes, ((13, 1, 1), I8)), ()
    yield QuantizedLogSoftmax(1 / 16, 127, -128, 127, DType.INT8, 0.03), (codes, (256,)), (1,)
    yield FixedByteSoftmax(DType.INT8), (codes, ((256,), I32)), (1,)
    tables = (((65536,), I32), ((513,), I32))
    yield FixedSoftmax(), ((IMAGE, I16), *tables), (1, 2)
    yield QuantizedL2Normalization(3), (codes,), ()
    yield QuantizedReduceProd(1 << 30, -2), (codes,), ()
    vectors = (((11,), I16), ((11,), I32))
    yield QuantizedLayerNormalization(3e-5), ((IMAGE, I16), *vectors), (1, 2)


def _products() -> Iterator[Given]:
    settings = (((21,), I32), ((21,), I32), ((21,), I32))
    weights, turned = ((21, 13, 3, 3), I8), ((13, 21, 3, 3), I8)
    transposed = QuantizedConvTranspose((2, 2), (1, 1, 1, 1), (1, 1))
    for constants in ((1, 2, 3, 4), (3, 4)):
        for x, rounding in ((I8, "double"), (I16, "wide")):
            if rounding == "wide" and 2 not in constants:
                continue  # a wide bias is a constant
            yield _conv(rounding), ((IMAGE, x), weights, *settings), constants
            grouped = (((1, 9, 5, 5), x), ((21, 3, 3, 3), I8), *settings)
            yield _conv(rounding, 3), grouped, constants
            yield transposed, ((IMAGE, x), turned, *settings), constants
            rows = (((5, 13), x), ((13, 21), I8), *settings)
            for zero in (0, 6, 100):  # constant weights take 2 bits, 4 or 8 without it
                yield QuantizedGemm(rounding=rounding, zero_b=zero), rows, constants
        channels = (((13,), I32), ((13,), I32), ((13,), I32))
        depthwise = ((IMAGE, I8), ((13, 1, 3, 3), I8), *channels)
        yield _conv("double", 13), depthwise, constants
    packed, scales = ((21, 18, 16), np.uint8), (21, 18)
    for m in (1, 5, 40):
        yield MatMulNBits(572, 32), ((m, 572), packed, scales), (1, 2)
        yield MatMulNBits(572, 32), ((m, 572), packed, scales, scales, (21,)), (1, 2, 3, 4)
    yield GatherCodes(13), (((7, 7), np.uint8), ((1, 5), I32)), (0,)
    yield AveragePool((3, 3), (2, 2), (1, 1, 1, 1)), ((IMAGE, I8),), ()
    yield DynamicRound("asymmetric", 1), (IMAGE,), ()


def _few_bits() -> Iterator[Given]:
    """Convolutions by weights of 4 and 2 bits."""
    for group, channels, maps in ((1, 13, 21), (13, 13, 13), (13, 13, 26), (3, 9, 6)):
        image, weights = (1, channels, 9, 11), (maps, channels // group, 3, 3)
        settings = (((maps,), I32),) * 3
        for x in (I8, I16):
            op = _conv("double", group, weight_bits=4)
            yield op, ((image, x), (weights, I8), *settings), (1, 2, 3, 4)
        exact = ExactConv((1, 1), (1, 1, 1, 1), (1, 1), group, weight_bits=2)
        yield exact, (image, weights), (1,)


def _conv(rounding: str, group: int = 1, **settings: int) -> Op:
    return QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), group, rounding=rounding, **settings)
