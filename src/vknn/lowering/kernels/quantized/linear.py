"""Between floats and quantized integers, in either layout."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    PLAIN,
    Layout,
    allows,
    packed_shape,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, lane_count, spread
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16


@lowers(QuantizeLinear, DequantizeLinear)
def quantization(problem: Problem) -> Sequence[Candidate]:
    """One elementwise dispatch; C4 where parameters are scalars or per channel."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, QuantizeLinear | DequantizeLinear)
    assert x is not None
    vectors = [t is not None and t.size > 1 for t in problem.inputs[1:]]
    axis = op.axis % x.rank if x.rank else 0
    # Parameters are read by their own indices, so their layout is LINEAR always. Scales stay
    # float32, which a tensor is not where tensors are float16: there they must be constants.
    parameters = tuple(
        Layout.LINEAR if t is not None and not _kept_single(problem, i) else None
        for i, t in enumerate(problem.inputs[1:], 1)
    )
    if any(_kept_single(problem, i) and c is None for i, c in enumerate(problem.constants)):
        return []
    found = []
    for layout in (Layout.C4, Layout.LINEAR):
        if layout is Layout.C4 and (x.rank < 2 or (any(vectors) and axis != 1)):
            continue
        count = ceil_div(math.prod(packed_shape(x, layout)), 4)
        if not fits(ceil_div(count, lane_count(problem.limits)), problem.limits):
            continue
        emit = _Emit(op, x, layout, axis)
        cost = DISPATCH_COST + 8 * math.prod(packed_shape(x, layout)) * BYTE_COST
        found.append(Candidate("elementwise", (layout, *parameters), (layout,), emit, cost))
    return found


def _kept_single(problem: Problem, index: int) -> bool:
    """True for the float parameters where tensors are float16."""
    type_ = problem.inputs[index] if 0 < index < len(problem.inputs) else None
    return problem.options.half and type_ is not None and type_.dtype.is_float


@dataclass(frozen=True)
class _Emit:
    op: QuantizeLinear | DequantizeLinear
    x: TensorType
    layout: Layout
    axis: int

    def __call__(self, emitter: Emitter) -> None:
        op, limits = self.op, emitter.problem.limits
        quantize = isinstance(op, QuantizeLinear)
        second_dtype = DType.INT32 if quantize else DType.FLOAT32
        scale, second = self._parameter(emitter, 1), self._second(emitter, second_dtype)
        types = emitter.problem.inputs
        vectors = [len(types) > i and (t := types[i]) is not None and t.size > 1 for i in (1, 2)]
        count = ceil_div(math.prod(packed_shape(self.x, self.layout)), 4)
        lanes = lane_count(limits)
        push = [count, *self._channels()]
        spec = {10: int(self.layout is Layout.C4), 11: int(vectors[0]), 12: int(vectors[1])}
        if isinstance(op, QuantizeLinear):
            push += [op.low, op.high]
            spec |= {13: int(op.multiply), 14: int(op.rounding == "half_away")}
        else:
            spec |= {13: int(len(types) > 2 and types[2] is not None)}
        emitter.dispatch(
            "quantized/quantize" if quantize else "quantized/dequantize",
            [read4(emitter.input(0)), read1(scale), read1(second), write(emitter.output())],
            groups=spread(ceil_div(count, lanes), limits),
            local=(lanes, 1, 1),
            push=push,
            spec=spec,
            flops=3 * self.x.size,
        )

    def _channels(self) -> tuple[int, int]:
        """What lies behind the channel axis (vec4s in C4, elements in LINEAR); its length."""
        dims = self.x.dims
        if self.layout is Layout.C4:
            return math.prod(dims[2:]), dims[1]
        return math.prod(dims[self.axis + 1 :]), dims[self.axis] if dims else 1

    def _second(self, emitter: Emitter, dtype: DType) -> Ref:
        """The zero point or bias; a zero where there is none."""
        if len(emitter.inputs) > 2 and emitter.problem.inputs[2] is not None:
            return self._parameter(emitter, 2)
        zeros = np.zeros(4, dtype.numpy)
        return emitter.weight(f"zero {dtype.value}", lambda: zeros, single=True)

    def _parameter(self, emitter: Emitter, index: int) -> Ref:
        problem = emitter.problem
        if not _kept_single(problem, index):
            return emitter.input(index)
        data = problem.constants[index]
        assert data is not None
        pack = functools.partial(np.ascontiguousarray, data, np.float32)
        return emitter.weight("float32 parameter", pack, data, single=True)


@lowers(RoundBFloat16)
def round_bfloat16(problem: Problem) -> Sequence[Candidate]:
    """Vector by vector, in either layout, in place where the input ends here."""
    (x,) = problem.inputs
    assert x is not None
    return [_rounding(x, layout) for layout in PLAIN if allows(x, layout)]


def _rounding(x: TensorType, layout: Layout) -> Candidate:
    def emit(emitter: Emitter) -> None:
        count = vector_count(x, layout)
        share = grid(emitter.problem.limits, count)
        emitter.dispatch(
            "quantized/bfloat16",
            [read4(emitter.input(0)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk],
            spec=share.spec,
        )

    cost = DISPATCH_COST + 2 * storage_bytes(x, layout) * BYTE_COST
    name = f"round_{layout.value}"
    return Candidate(name, (layout,), (layout,), emit, cost, inplace=(0,))
