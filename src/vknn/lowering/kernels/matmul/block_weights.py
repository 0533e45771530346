"""Weights of MatMulNBits on a device: words of codes, and the scales and zero points of blocks."""

from __future__ import annotations

import functools

import numpy as np

from vknn.lowering.kit.emitter import Emitter, Ref
from vknn.lowering.kit.layouts import ceil_div
from vknn.ops.quantized.blocks import MatMulNBits, unpacked_bits

#: Words of a vec4.
WORDS = 4


def run_of(op: MatMulNBits) -> int:
    """Codes of a vec4 of words."""
    return WORDS * 32 // op.width


def length_of(op: MatMulNBits) -> int:
    """vec4s of words of a column."""
    return ceil_div(op.size, run_of(op))


def blocks_of(op: MatMulNBits) -> int:
    """Blocks of a column."""
    return ceil_div(op.size, op.block)


def weight_buffers(emitter: Emitter) -> tuple[Ref, Ref]:
    """Codes as vec4s of words, and settings: scales and zero points of blocks, then the bias."""
    op, constants = emitter.problem.op, emitter.problem.constants
    codes, scales, zeros, bias = (*constants, None, None)[1:5]
    assert isinstance(op, MatMulNBits) and codes is not None and scales is not None
    key = f"codes {op.width} {op.bits} {op.block} {op.size}"
    words = emitter.weight(key, functools.partial(_words, op, codes), codes)
    sources = [array for array in (scales, zeros, bias) if array is not None]
    which = f"settings {int(zeros is not None)}{int(bias is not None)}"
    make = functools.partial(_settings, scales, zeros, bias)
    return words, emitter.weight(which, make, *sources, single=True)


def code_constants(op: MatMulNBits) -> dict[str, int]:
    """Specialization constants of the codes."""
    return {"BITS": op.width, "BLOCK": op.block, "MIDDLE": 1 << (op.bits - 1)}


def _words(op: MatMulNBits, codes: np.ndarray) -> np.ndarray:
    """Codes as int32 [vec4 of a column, N, 4]."""
    own, n, length = 8 // op.width, len(codes), length_of(op)
    if op.bits == op.width:
        packed = codes.reshape(n, -1)  # blocks are whole words, so that none has gaps
    else:
        single = unpacked_bits(codes, op.bits, op.block).reshape(n, -1, own)
        places = (np.arange(own) * op.width).astype(np.uint8)
        packed = np.bitwise_or.reduce(single << places, axis=-1).astype(np.uint8)
    held = np.zeros((n, length * run_of(op) // own), np.uint8)
    count = min(held.shape[1], packed.shape[1])
    held[:, :count] = packed[:, :count]
    words = held.view("<i4").reshape(n, length, WORDS)
    return np.ascontiguousarray(words.swapaxes(0, 1))


def _settings(scales: np.ndarray, zeros: np.ndarray | None, bias: np.ndarray | None) -> np.ndarray:
    """Scales [blocks, N], or pairs of these and zero points, then the biases, as float32."""
    pairs = [x.astype(np.float32).T for x in (scales, zeros) if x is not None]
    flat = np.stack(pairs, axis=-1).reshape(-1)
    return flat if bias is None else np.concatenate((flat, bias.astype(np.float32)))
