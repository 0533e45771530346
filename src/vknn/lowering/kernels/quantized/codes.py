"""Lowering of GatherCodes (shaders/quantized/gather_codes.comp)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.ops.quantized.codes import GatherCodes

#: Bytes of a word.
_WORD = 4


@lowers(GatherCodes)
def gather_codes(problem: Problem) -> Sequence[Candidate]:
    """One candidate, where the codes are a constant that a buffer holds."""
    codes, (y,), machine = problem.constants[0], problem.outputs, problem.machine
    if codes is None or y.size == 0:
        return []
    if not fits_buffer(problem.limits, len(codes) * _words_of_row(codes)):
        return []
    cost = machine.dispatch + 8 * y.size * machine.byte
    return [Candidate("codes", (None, Layout.LINEAR), (Layout.LINEAR,), _emit, cost)]


def _words_of_row(codes: np.ndarray) -> int:
    return ceil_div(codes.shape[1], _WORD)


def _emit(emitter: Emitter) -> None:
    op, (y,), codes = emitter.problem.op, emitter.problem.outputs, emitter.problem.constants[0]
    assert isinstance(op, GatherCodes) and codes is not None
    words = emitter.weight("codes", functools.partial(_words, codes), codes)
    emitter.dispatch_items(
        "quantized/gather_codes",
        [read1(words), read1(emitter.input(1)), write(emitter.output())],
        grid(emitter.problem.limits, y.size),
        push={
            "count": y.size,
            "width": op.count,
            "words": _words_of_row(codes),
            "rows": len(codes),
        },
        spec={"BITS": op.bits},
    )


def _words(codes: np.ndarray) -> np.ndarray:
    """Codes as int32 [rows, words]."""
    lacking = -codes.shape[1] % _WORD
    padded = np.pad(codes, ((0, 0), (0, lacking))) if lacking else np.ascontiguousarray(codes)
    return padded.view("<i4")
