"""Constant weights of 4 and 2 bits, held as such by devices (shaders/convolution/few_bits.glsl)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vknn.lowering.kit.emitter import Emitter, Ref
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import ExactConv
from vknn.ops.quantized.convolution import QuantizedConv

#: Bits of weights that have no fewer.
WHOLE = 8
#: Specialization constants of kernels.
Constants = dict[str, int | float]


def bits_of(low: int, high: int) -> int:
    """Bits that integers from ``low`` to ``high`` take: 2, 4 or, where they take more, 8."""
    return next((n for n in (2, 4) if -(1 << (n - 1)) <= low and high < 1 << (n - 1)), WHOLE)


def weight_bits(problem: Problem) -> int:
    """Bits of a convolution's weights: 2 or 4 where its op says so of constant ones."""
    op, w = problem.op, problem.constants[1]
    if not isinstance(op, ExactConv | QuantizedConv) or op.weight_bits not in (2, 4):
        return WHOLE
    if w is None or w.size == 0:
        return WHOLE
    if isinstance(op, ExactConv):
        alone = len(problem.inputs) < 3 or problem.inputs[2] is None
        return op.weight_bits if alone else WHOLE
    return op.weight_bits if bits_of(int(w.min()), int(w.max())) <= op.weight_bits else WHOLE


def few_constants(problem: Problem, bits: int, *, by_dots: bool = False) -> Constants:
    """Specialization constants of kernels that read weights of few bits."""
    if bits == WHOLE:
        return {}
    found: Constants = {"WEIGHT_BITS": bits}
    if isinstance(problem.op, ExactConv):
        found["UNIT"] = problem.op.weight_unit
    return found | ({"CENTRE": -_middle(bits)} if by_dots else {})


def pack_few(
    emitter: Emitter,
    key: str,
    make: Callable[[np.ndarray], np.ndarray],
    count: int,
    bits: int,
    width: int,
    *,
    by_dots: bool = False,
) -> Ref:
    """Constant weights in quads of few bits.

    ``make`` packs integers in rows of ``width`` columns, of which four are a quad, its first
    ``count`` numbers (behind which the bias is). Integer dots take them without a sign.
    """
    op, w = emitter.problem.op, emitter.problem.constants[1]
    assert w is not None
    unit = op.weight_unit if isinstance(op, ExactConv) else 1
    moved = _middle(bits) if by_dots else 0

    def packed() -> np.ndarray:
        whole = np.rint(w / unit).astype(np.int32) if unit != 1 else w.astype(np.int32)
        return as_few(make(whole)[:count] + moved, width, bits)

    return emitter.weight(f"{key}.{bits} bits.{width}.{moved}", packed, w)


def as_few(packed: np.ndarray, width: int, bits: int) -> np.ndarray:
    """Integers in rows of ``width`` columns as words of 32 bits in vec4s, int32.

    Every four rows are quads of vec4s of columns; quads that follow each other share a vec4 of
    words, the first in the lowest bits of its bytes. Padding has the integer 0.
    """
    mask, sharing = (1 << bits) - 1, WHOLE // bits
    packed = np.pad(packed, (0, -packed.size % (4 * width)))
    codes = (packed.reshape(-1, 4, width // 4, 4) & mask).astype(np.uint32)
    codes = codes.swapaxes(1, 2).reshape(-1, 4, 4)  # quad, row, column
    codes = np.pad(codes, [(0, -len(codes) % sharing), (0, 0), (0, 0)])
    shifts = np.arange(sharing, dtype=np.uint32)[:, None] * bits + np.arange(4, dtype=np.uint32) * 8
    shared = codes.reshape(-1, sharing, 4, 4) << shifts.astype(np.uint32)[..., None]
    return np.bitwise_or.reduce(shared, axis=(1, 2)).view(np.int32).ravel()


def _middle(bits: int) -> int:
    return 1 << (bits - 1)
