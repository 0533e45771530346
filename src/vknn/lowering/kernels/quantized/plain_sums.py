"""Products of int8 with plain int32 sums, by the kernels of quantized integers.

Those have a form for integer dot products, for constant weights. With rounding "none" and the
range of int32 their results are the sums themselves; so a ConvInteger is a QuantizedConv, a
MatMulInteger a QuantizedGemm, and so are the sums of a QuantizedMatMul.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.problem import Problem
from vknn.ops.convolution.conv import ConvInteger
from vknn.ops.matmul import MatMulInteger, QuantizedMatMul
from vknn.ops.quantized.convolution import QuantizedConv, Requantized
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.plan import DeviceLimits

_RANGE = np.iinfo(np.int32)
#: Attributes of a requantization that leaves int32 sums as they are.
_PLAIN: dict[str, Any] = {
    "low": int(_RANGE.min),
    "high": int(_RANGE.max),
    "dtype": DType.INT32,
    "rounding": "none",
}
#: Multiplier and shift, which rounding "none" does not read. Kept, so that they are packed once.
_UNREAD = np.zeros(1, np.int32)


def has_fast_dots(limits: DeviceLimits) -> bool:
    """True on GPUs that compute integer dot products by themselves."""
    return limits.kind != "cpu" and "integer_dot_fast" in limits.features


def as_quantized(problem: Problem) -> Problem | None:
    """The problem of a ConvInteger or MatMulInteger as one of quantized integers.

    That of a QuantizedMatMul is of its sums, by integers that its floats were made.

    None where that gains nothing: on CPUs, without dot products that the device computes by itself,
    and where the second factor is no constant, which these kernels take as numbers of 32 bits.
    """
    if not has_fast_dots(problem.limits) or problem.constants[1] is None:
        return None
    factors = (_typed(problem.input(0), DType.INT8), problem.input(1))
    if factors[1].dtype is not DType.INT8:
        return None  # constant floats are quantized at run time
    vector = TensorType((1,), DType.INT32)
    return replace(
        problem,
        op=_quantized_op(problem),
        inputs=(*factors, None, vector, vector),
        outputs=(_typed(problem.outputs[0], DType.INT32),),
        constants=(*problem.constants[:2], None, _UNREAD, _UNREAD),
    )


def _quantized_op(problem: Problem) -> Requantized:
    op = problem.op
    if isinstance(op, ConvInteger):
        return QuantizedConv(op.strides, op.pads, op.dilations, op.group, **_PLAIN)
    if isinstance(op, QuantizedMatMul):
        return QuantizedGemm(transpose_a=op.transpose_a, transpose_b=op.transpose_b, **_PLAIN)
    assert isinstance(op, MatMulInteger)
    return QuantizedGemm(transpose_b=op.transpose_b, **_PLAIN)


def _typed(type_: TensorType, dtype: DType) -> TensorType:
    return TensorType(type_.shape, dtype)


def with_plain_inputs(quantized: Problem, found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Candidates of the quantized problem as those of the problem that it was made of."""
    for candidate in found:
        emit = _PlainEmit(quantized, candidate.emit)
        yield replace(candidate, inputs=candidate.inputs[:2], emit=emit)


class _PlainEmit:
    """The function that writes a candidate's dispatches, shown the quantized problem."""

    def __init__(self, problem: Problem, emit: Callable[[Emitter], None]) -> None:
        self._problem, self._emit = problem, emit

    def __call__(self, emitter: Emitter) -> None:
        inputs = (*emitter.inputs[:2], None, None, None)
        # Both emitters write into one list of commands.
        self._emit(replace(emitter, problem=self._problem, inputs=inputs))
