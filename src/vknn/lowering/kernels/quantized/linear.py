"""Lowering of QuantizeLinear, DequantizeLinear and RoundBFloat16."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    PLAIN,
    Layout,
    allows,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16

#: Smallest normal float32.
_NORMAL = np.finfo(np.float32).smallest_normal
#: Variants (BYTES) of quantize.comp that read rows: elements, or vec4s of four places.
_ONE_BY_ONE, _BY_FOUR = 2, 3
#: Types whose sums are far from the ends of int32.
_NARROW = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


@lowers(QuantizeLinear, DequantizeLinear)
def quantize_linear(problem: Problem) -> Sequence[Candidate]:
    """A candidate in LINEAR, and in C4 and C4B where parameters are scalars or per channel."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, QuantizeLinear | DequantizeLinear)
    # Parameters are linear always. Scales stay float32: where tensors are float16 they must be
    # constants.
    if any(_kept_single(problem, i) and c is None for i, c in enumerate(problem.constants)):
        return []
    if any_subnormal(problem):
        return []  # devices take such numbers as 0
    vectors = any(t is not None and t.size > 1 for t in problem.inputs[1:])
    axis = op.axis % x.rank if x.rank else 0
    found = [_candidate(problem, Layout.LINEAR, Layout.LINEAR, axis)]
    if x.rank < 2 or (vectors and axis != 1):
        return found
    pairs = [(Layout.C4, Layout.C4)]
    if isinstance(op, QuantizeLinear):
        pairs += [(source, Layout.C4B) for source in (Layout.C4, Layout.LINEAR)]
    else:
        pairs += [(Layout.C4B, Layout.C4)]
    tensors = (x, problem.outputs[0])
    allowed = [p for p in pairs if all(map(allows, tensors, p))]
    return found + [_candidate(problem, *pair, 1) for pair in allowed]


def _candidate(problem: Problem, source: Layout, target: Layout, axis: int) -> Candidate:
    op, x, machine = problem.op, problem.input(0), problem.machine
    assert isinstance(op, QuantizeLinear | DequantizeLinear)
    parameters = tuple(
        Layout.LINEAR if t is not None and not _kept_single(problem, i) else None
        for i, t in enumerate(problem.inputs[1:], 1)
    )
    moved = storage_bytes(x, source) + storage_bytes(problem.outputs[0], target)
    name = {(Layout.C4B, Layout.C4): "-of-bytes", (Layout.C4, Layout.C4B): "-to-bytes"}
    suffix = name.get((source, target), "" if source is target else "-packed-to-bytes")
    emit = functools.partial(_emit, op=op, layouts=(source, target), axis=axis)
    cost = machine.dispatch + moved * machine.byte
    return Candidate(f"elementwise{suffix}", (source, *parameters), (target,), emit, cost)


def any_subnormal(problem: Problem) -> bool:
    """True where a constant float parameter has elements that are subnormal float32."""
    floats = [c for c in problem.constants[1:] if c is not None and c.dtype.kind == "f"]
    return any(bool(((np.abs(c) < _NORMAL) & (c != 0)).any()) for c in floats)


def _kept_single(problem: Problem, index: int) -> bool:
    """True for a float parameter that stays float32 while tensors are float16."""
    type_ = problem.inputs[index] if 0 < index < len(problem.inputs) else None
    return problem.options.half and type_ is not None and type_.dtype.is_float


def _emit(
    emitter: Emitter,
    op: QuantizeLinear | DequantizeLinear,
    layouts: tuple[Layout, Layout],
    axis: int,
) -> None:
    x = emitter.problem.input(0)
    quantize = isinstance(op, QuantizeLinear)
    source, target = layouts
    packed = target if source is Layout.LINEAR else source
    scale = _parameter(emitter, 1)
    second = _second_parameter(emitter, DType.INT32 if quantize else DType.FLOAT32)
    count = vector_count(x, packed)
    channel = _channel_push(x, packed, axis)
    in_bytes = _bytes_variant(layouts, channel["inner"])
    if in_bytes == _BY_FOUR:
        count //= 4
    push = {"count": count, **channel}
    if isinstance(op, QuantizeLinear):
        push |= {"low": op.low, "high": op.high}
    else:
        push["zero"] = op.zero
    read = read1 if in_bytes == _ONE_BY_ONE else read4
    inputs = [read(emitter.input(0)), read1(scale), read1(second)]
    emitter.dispatch_items(
        "quantized/quantize" if quantize else "quantized/dequantize",
        [*inputs, write(emitter.output())],
        grid(emitter.problem.limits, count, 4 * count),
        push=push,
        spec=_spec(emitter.problem, op, packed),
        defines={"BYTES": in_bytes},
        flops=3 * x.size,
    )


def _bytes_variant(layouts: tuple[Layout, Layout], inner: int) -> int:
    """The define BYTES of the kernels."""
    if Layout.C4B not in layouts:
        return 0
    if layouts[0] is not Layout.LINEAR:
        return 1
    return _ONE_BY_ONE if inner % 4 else _BY_FOUR


def _spec(
    problem: Problem, op: QuantizeLinear | DequantizeLinear, layout: Layout
) -> dict[str, int]:
    """Specialization constants of the op and its parameters."""
    types = [*problem.inputs[1:], None][:2]
    scale, second = (int(t is not None and t.size > 1) for t in types)
    x = problem.input(0)
    in_blocks = layout is not Layout.LINEAR
    shared = {
        "C4": int(in_blocks),
        "SCALE_VECTOR": scale,
        "PADDING_LANES": int(in_blocks and x.dims[1] % 4 != 0),
    }
    if isinstance(op, QuantizeLinear):
        narrow = types[1] is None or types[1].dtype in _NARROW
        return {
            **shared,
            "ZERO_VECTOR": second,
            "MULTIPLY": int(op.multiply),
            "NEAR": int(_is_near(problem.constants[1])),
            "HALF_AWAY": int(op.rounding == "half_away"),
            "SATURATE": int(not narrow or op.dtype not in _NARROW),
        }
    signs = {"BYTES_UNSIGNED": 1} if layout is Layout.C4B and x.dtype is DType.UINT8 else {}
    return {**shared, **signs, "BIAS_VECTOR": second, "BIAS": int(types[1] is not None)}


def _is_near(scale: np.ndarray | None) -> bool:
    """Whether a scale and its products are far from the ends of float32."""
    return scale is not None and bool(((scale > 2.0**-60) & (scale < 2.0**60)).all())


def _channel_push(x: TensorType, layout: Layout, axis: int) -> dict[str, int]:
    """Length of the channel axis; vec4s (C4) or elements (LINEAR) from a channel to the next."""
    if layout is not Layout.LINEAR:
        return {"inner": math.prod(x.dims[2:]), "channels": x.dims[1]}
    channels = x.dims[axis] if x.dims else 1
    return {"inner": math.prod(x.dims[axis + 1 :]), "channels": channels}


def _second_parameter(emitter: Emitter, dtype: DType) -> Ref:
    """The zero point or bias; a zero where there is none."""
    if len(emitter.inputs) > 2 and emitter.problem.inputs[2] is not None:
        return _parameter(emitter, 2)
    zeros = np.zeros(4, dtype.numpy)
    return emitter.weight(f"zero {dtype.value}", lambda: zeros, single=True)


def _parameter(emitter: Emitter, index: int) -> Ref:
    problem = emitter.problem
    if not _kept_single(problem, index):
        return emitter.input(index)
    data = problem.constants[index]
    assert data is not None
    pack = functools.partial(np.ascontiguousarray, data, np.float32)
    return emitter.weight("float32 parameter", pack, data, single=True)


@lowers(RoundBFloat16)
def round_bfloat16(problem: Problem) -> Sequence[Candidate]:
    """A candidate in each layout, in place where the input has no other reader."""
    x = problem.input(0)
    return [_rounding(problem, layout) for layout in PLAIN if allows(x, layout)]


def _rounding(problem: Problem, layout: Layout) -> Candidate:
    x, machine = problem.input(0), problem.machine
    emit = functools.partial(_emit_bfloat16, x=x, layout=layout)
    cost = machine.dispatch + 2 * storage_bytes(x, layout) * machine.byte
    name = f"round_{layout.value}"
    return Candidate(name, (layout,), (layout,), emit, cost, inplace=(0,))


def _emit_bfloat16(emitter: Emitter, x: TensorType, layout: Layout) -> None:
    count = vector_count(x, layout)
    emitter.dispatch_items(
        "quantized/bfloat16",
        [read4(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, count),
        push={"count": count},
    )
