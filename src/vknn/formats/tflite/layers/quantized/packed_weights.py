"""Constants of 4 and 2 bits that stay packed: products by them, rows of them, what they mean."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.tflite.blockwise import block_scales
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.records import TensorRecord
from vknn.formats.tflite.sub_byte import PackedIntegers
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Pad
from vknn.ops.quantized.blocks import MatMulNBits, packed_bytes
from vknn.ops.quantized.codes import GatherCodes

#: Bits of a word of which kernels read four at a time, and elements of k at a time.
_WORDS, _STEP = 128, 4
#: Bits of integers whose rows kernels gather.
GATHERED_BITS = (4, 2)


def packed_product(c: Context, record: TensorRecord, x: Value, bias: Value | None) -> Value:
    """Rows ``x`` of floats by constant weights [units, depth] of 4 or 2 bits, plus ``bias``.

    Weights of 8 bits with scales of blocks become floats.
    """
    packed, depth = record.packed, x.type.dims[-1]
    if record.blocks is not None:
        if packed is not None:
            op = MatMulNBits(depth, record.blocks.size, packed.type.bits)
            if op.has_words:
                scales, zeros = block_scales(c.graph.tensors, record)
                return _product(c, op, x, packed, scales, zeros, bias)
        weights = c.constant(real_blocks(c, 1), "weights")
        return c.add(MatMul(transpose_b=True), x, weights, bias)
    c.require(packed is not None and len(packed.shape) == 2, f"multiplies by {c.value(1).type}")
    assert packed is not None
    quant, units = c.quant_of(record, "its weights"), packed.shape[0]
    zeros = None
    if record.index != c.operator.inputs[1]:  # by themselves, hybrid products ignore zero points
        zeros = _by_row(quant.zero_point.astype(np.float32), units)
    whole = -(-depth // _STEP) * _STEP
    if whole > depth:
        x = c.add(Pad((0, 0, 0, whole - depth)), x)
    run = _WORDS // packed.type.bits
    op = MatMulNBits(whole, -(-depth // run) * run, packed.type.bits)
    c.makeable(units * packed_bytes(op.block, op.bits), DType.UINT8)  # short rows grow
    scales = _by_row(quant.scale.astype(np.float32), units)
    return _product(c, op, x, packed, scales, zeros, bias)


def _by_row(numbers: np.ndarray, units: int) -> np.ndarray:
    """A number of each row, or one of all, as [units, 1]."""
    return np.ascontiguousarray(np.broadcast_to(numbers, units).reshape(units, 1))


def _product(
    c: Context, op: MatMulNBits, x: Value, packed: PackedIntegers,
    scales: np.ndarray, zeros: np.ndarray | None, bias: Value | None,
) -> Value:  # fmt: skip
    codes = c.constant(packed.codes(op.block), "codes")
    moved = np.float32(-packed.type.low) + (
        np.zeros((1, 1), np.float32) if zeros is None else zeros
    )
    usual = bool((moved == 1 << (op.bits - 1)).all())
    given = None if usual else c.constant(np.broadcast_to(moved, scales.shape).copy(), "zeros")
    return c.add(op, x, codes, c.constant(scales, "scales"), given, bias)


def dequantized_constant(c: Context, number: int) -> TensorRecord | None:
    """The packed constant of which a DEQUANTIZE makes input ``number``, with scales of rows or one.

    None where there is no such, and for small ones, which are floats by now.
    """
    value, index = c.value(number), c.operator.inputs[number]
    if value.constant is not None or value.type.rank != 2:
        return None
    for operator in c.graph.operators[: c.operator.index]:
        if operator.code == "DEQUANTIZE" and operator.outputs[:1] == (index,):
            record = c.graph.tensors[operator.inputs[0]]
            good = record.packed is not None and record.quant is not None
            return record if good and record.quant and record.quant.axis == 0 else None
    return None


def real_blocks(c: Context, number: int) -> np.ndarray:
    """Numbers that a constant with blockwise quantization stands for, float32."""
    record, data = c.source(number), c.data(number)
    scales, zeros = block_scales(c.graph.tensors, record)
    blocks = data.reshape(*scales.shape, -1).astype(np.float32)
    if zeros is not None:
        blocks -= zeros[..., None]
    blocks *= scales[..., None]
    return blocks.reshape(data.shape)


def gathered(c: Context, packed: PackedIntegers, found: Value) -> Value:
    """Entries of a packed constant along its first axis, flat: int8 [indices, size of an entry]."""
    op = GatherCodes(math.prod(packed.shape[1:]), packed.type.bits)
    return c.add(op, c.constant(packed.entries(), "codes"), found)


def real_rows(c: Context, number: int, taken: Value, found: Value) -> Value:
    """Numbers that rows ``taken`` of input ``number`` stand for by its scales, float32."""
    scales, zeros = block_scales(c.graph.tensors, c.source(number))
    shape = (*found.type.dims, scales.shape[1], taken.type.dims[-1] // scales.shape[1])

    def of_rows(numbers: np.ndarray, name: str) -> Value:
        rows = c.add(Gather(from_end=False), c.constant(numbers, name), found)
        return c.reshape(rows, (*rows.type.dims, 1))

    y = c.reshape(c.cast(taken, DType.FLOAT32), shape)
    if zeros is not None:
        y = c.add(ew.Sub(), y, of_rows(zeros, "zeros"))
    return c.add(ew.Mul(), y, of_rows(scales, "scales"))
