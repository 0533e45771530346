"""Weights in blocks of a few bits: products with them, and rows of tables of them."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.port_shapes import Size, shaped
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops.casting import LowPrecisionCast
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Expand
from vknn.ops.quantized.blocks import DequantizeBlocks, MatMulNBits, packed_bytes, unpacked_bits

#: The numbers that 4 bits stand for in MatMulBnb4: floats of 4 bits over their largest, and the
#: quantiles of a normal distribution ("QLoRA: Efficient Finetuning of Quantized LLMs", 2023).
_FP4 = (
    0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25, -0.0, -0.0052083333,
    -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25,
)  # fmt: skip
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip


@operator("MatMulNBits", 1, inputs=(3, 6), domain=MICROSOFT)
def matmul_n_bits(c: Context) -> Value:
    """a times weights in blocks of 2 to 8 bits, plus a bias; sums are floats"""
    kind, size, columns = c.x.type.dtype, c.int("K"), c.int("N")
    c.require(size > 0 and columns > 0, f"has weights {columns} x {size}")
    c.require(c.rank > 0 and c.x.type.dims[-1] == size, f"multiplies {c.x.type} by K = {size}")
    if c.int("weight_prepacked", 0):
        c.refuse("weights in the order of one kernel of onnxruntime (weight_prepacked)")
    lead = c.x.type.dims[:-1]
    bias = None if c.optional(5) is None else c.cast(c.value(5), kind)
    if c.value(1).type.size == 0:  # no weights at all: the bias alone
        zero = c.scalar(0, kind)
        return c.add(Expand((*lead, columns)), zero if bias is None else bias)
    op, parts = _parts(c, columns, size)
    if op.has_words and c.optional(4) is None:
        held = [None if part is None else c.constant(part, "weights") for part in parts]
        return c.add(op, c.x, *held, bias)
    weights = c.constant(_weights(c, op, *parts).astype(kind.numpy), "weights")
    x = c.reshape(c.x, (1, size)) if c.rank == 1 else c.x
    found = c.add(MatMul(transpose_b=True), x, weights, bias)
    return c.reshape(found, (*lead, columns))


_Parts = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _parts(c: Context, rows: int, size: int) -> tuple[MatMulNBits, _Parts]:
    """The op of MatMulNBits, and its codes, scales and zero points."""
    bits, block = c.int("bits", 4), c.int("block_size")
    good = 2 <= bits <= 8 and block >= 1 and block * bits % 8 == 0
    c.require(good, f"has blocks of {block} times {bits} bits")
    blocks = -(-size // block)
    packed, scales = c.data(1), c.data(2).astype(np.float32)
    fits = packed.size == rows * blocks * packed_bytes(block, bits)
    c.require(fits and scales.size == rows * blocks, f"has the weights {c.value(1).type}")
    zeros = _zero_points(c, rows, blocks, bits)
    codes = packed.reshape(rows, blocks, -1)
    return MatMulNBits(size, block, bits), (codes, scales.reshape(rows, blocks), zeros)


def _weights(
    c: Context, op: MatMulNBits, codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None
) -> np.ndarray:
    """The weights of MatMulNBits as float32 [rows, size]."""
    if c.optional(4) is None:
        return op.weights(codes, scales, zeros)
    blocks = codes.shape[1]
    groups = c.data(4).astype(np.int64).reshape(-1)
    inside = len(groups) >= op.size and bool(((groups >= 0) & (groups < blocks)).all())
    c.require(inside, f"has g_idx outside of {blocks} blocks")
    groups = groups[: op.size]
    numbers = unpacked_bits(codes, op.bits, op.block).reshape(len(codes), -1)[:, : op.size]
    zero = np.float32(1 << (op.bits - 1)) if zeros is None else zeros[:, groups]
    return (numbers.astype(np.float32) - zero) * scales[:, groups]


def _zero_points(c: Context, rows: int, blocks: int, bits: int) -> np.ndarray | None:
    """Zero points of MatMulNBits as float32 [rows, blocks]; None where there are none."""
    if c.optional(3) is None:
        return None
    given = c.data(3)
    if given.dtype == np.uint8:
        width = packed_bytes(blocks, bits)
        c.require(given.size == rows * width, f"has the zero points {c.value(3).type}")
        return unpacked_bits(given.reshape(rows, width), bits, blocks).astype(np.float32)
    c.require(given.size == rows * blocks, f"has the zero points {c.value(3).type}")
    return given.astype(np.float32).reshape(rows, blocks)


@operator("MatMulBnb4", 1, inputs=3, domain=MICROSOFT)
def matmul_bnb4(c: Context) -> Value:
    """a times weights of 4 bits, which stand for 16 numbers times a factor a block"""
    kind, size, columns = c.x.type.dtype, c.int("K"), c.int("N")
    block, table = c.int("block_size"), c.int("quant_type")
    c.require(block > 0 and table in (0, 1), f"has the quant_type {table}, blocks of {block}")
    packed, factors = c.data(1).reshape(-1), c.data(2).reshape(-1).astype(np.float32)
    count = size * columns
    fits = len(packed) == packed_bytes(count, 4) and len(factors) == -(-count // block)
    c.require(fits, f"has the weights {c.value(1).type}")
    # The first of two is in the upper half of a byte.
    codes = np.stack((packed >> 4, packed & 15), axis=-1).reshape(-1)[:count]
    numbers = np.asarray(_NF4 if table else _FP4, np.float32)[codes]
    made = (numbers * factors[np.arange(count) // block]).reshape(columns, size)
    weights = c.constant(made.astype(kind.numpy), "weights")
    turned = c.flag("transB", True)
    wanted = size if turned else columns
    c.require(c.rank >= 2 and c.x.type.dims[-1] == wanted, f"multiplies {c.x.type} by {wanted}")
    return c.add(MatMul(transpose_b=turned), c.x, weights)


@operator("GatherBlockQuantized", 1, inputs=(3, 4), domain=MICROSOFT, any_type=True)
def gather_block_quantized(c: Context) -> Value:
    """Entries of a tensor that is quantized in blocks, dequantized"""
    data, scales, zeros = c.x, c.value(2), c.optional(3)
    at, along = (
        c.axis(c.int(name, default), c.rank)
        for name, default in (("gather_axis", 0), ("quantize_axis", 1))
    )
    kind, bits, size = data.type.dtype, 8, data.type.dims[along]
    default = 0
    if kind is DType.UINT8:
        bits = c.int("bits", 4)
        c.require(bits in (2, 4, 8), f"has {bits} bits")
        c.require(at == 0 and (at != along or bits == 8), f"gathers along axis {at} of {c.x.type}")
        default = 1 << (bits - 1)
    count = data.type.dims[-1] * 8 // bits
    size = count if along == c.rank - 1 else size
    block = c.int("block_size", 128) or size
    c.require(block > 0, f"has blocks of {block}")
    form: list[Size] = [None] * c.rank
    if at != along:
        form[at] = (1, data.type.dims[at])
    for number, name in ((2, "scales"), (3, "zero_points")):
        shaped(c, number, name, form)
    places = c.indices(1, data.type.dims[at])
    gather = Gather(at)
    if at == along:
        found = _real(c, (data, scales, zeros), along, block, bits, count, default)
        return c.cast(c.add(gather, found, places), scales.type.dtype)

    def taken(value: Value | None) -> Value | None:
        one = value is not None and value.type.dims[at] == 1 != data.type.dims[at]
        if value is None or not one:
            return None if value is None else c.add(gather, value, places)
        dims = value.type.dims
        return c.reshape(value, (*dims[:at], *[1] * places.type.rank, *dims[at + 1 :]))

    moved = along + places.type.rank - 1 if along > at else along
    parts = (taken(data), taken(scales), taken(zeros))
    return c.cast(_real(c, parts, moved, block, bits, count, default), scales.type.dtype)


def _real(
    c: Context, values: tuple[Value | None, ...], axis: int, block: int, bits: int, count: int,
    zero: int,
) -> Value:  # fmt: skip
    """Values, scales and zero points as the numbers that they stand for."""
    x, scales, zeros = (None if v is None else _plain(c, v) for v in values)
    assert scales is not None
    op = DequantizeBlocks(axis, block, bits, count, zero)
    return c.add(op, x, c.cast(scales, DType.FLOAT32), zeros)


def _plain(c: Context, value: Value) -> Value:
    """Elements of less than a byte, or of 8-bit floats, in a type that NumPy has."""
    kind = value.type.dtype
    if kind.is_small_integer:
        return c.add(LowPrecisionCast(DType.INT8), value)
    return c.add(LowPrecisionCast(DType.FLOAT32), value) if kind.is_small_float else value
