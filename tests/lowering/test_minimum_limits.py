"""Every op lowers within the limits of devices that allow little, and of some that allow more.

No device is needed: plans are held against made-up limits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tests.helpers import single_op_graph
from tests.lowering import (
    integer_cases,
    rearrange_cases,
    reduction_cases,
    selection_cases,
    spatial_cases,
)

from vknn.graph import DType, Graph, GraphBuilder, Op, TensorType, op_classes
from vknn.lowering import LoweringOptions, candidates, check_plan, lower
from vknn.lowering.epilogue import BINARY, UNARY
from vknn.lowering.registry import Candidate, rule_for
from vknn.ops import elementwise as ew
from vknn.ops.attention import Attention, RotaryEmbedding
from vknn.ops.convolution import Conv, ConvInteger
from vknn.ops.custom import Custom
from vknn.ops.deformable import DeformConv
from vknn.ops.detection import YoloDetection
from vknn.ops.lookup import Gather
from vknn.ops.matmul import MatMul, MatMulInteger, QuantizedMatMul
from vknn.ops.movement import (
    ChannelShuffle,
    Concat,
    Expand,
    Identity,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from vknn.ops.normalization import LRN, BatchNormalization, LayerNormalization
from vknn.ops.pooling import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.ops.quantization import DequantizeLinear, QuantizeLinear
from vknn.ops.quantized_resize import QuantizedResize
from vknn.ops.recurrent import GRU, LSTM, RNN
from vknn.ops.recurrent_integer import IntegerLSTM
from vknn.ops.reduction import Softmax
from vknn.ops.resize import Resize
from vknn.ops.rounding import DynamicRound
from vknn.ops.transposed import ConvTranspose
from vknn.plan import Binding, DeviceLimits, Dispatch, Plan, View
from vknn.runtime import glsl

MINIMUM = DeviceLimits()
DISCRETE = DeviceLimits(
    name="discrete",
    kind="discrete",
    max_storage_buffer_range=(1 << 32) - 1,
    max_texel_buffer_elements=1 << 27,
    storage_alignment=16,
    texel_alignment=16,
    max_push_constants=256,
    max_group_count=((1 << 31) - 1, 65535, 65535),
    max_group_size=(1024, 1024, 64),
    max_group_invocations=1024,
    shared_memory=48 << 10,
    subgroup_size=32,
    features=frozenset(("int64", "fp16_storage", "subgroup_shuffle", "timestamps")),
)
DEVICES = {
    "minimum": MINIMUM,
    "minimum, texels": dataclasses.replace(MINIMUM, preferred_access="texel"),
    "minimum, images": dataclasses.replace(MINIMUM, preferred_access="image"),
    "minimum, cpu": dataclasses.replace(MINIMUM, kind="cpu"),
    "minimum, integrated": dataclasses.replace(MINIMUM, kind="integrated"),
    "discrete": DISCRETE,
    "discrete, subgroups of 64": dataclasses.replace(DISCRETE, subgroup_size=64),
    "cpu": dataclasses.replace(
        DISCRETE, kind="cpu", subgroup_size=8, shared_memory=32 << 10, preferred_access="image"
    ),
}
#: Devices that allow so little that some ops have to stay on the host.
NARROW = {
    "few workgroups": dataclasses.replace(MINIMUM, max_group_count=(5, 4, 3)),
    "few workgroups, cpu": dataclasses.replace(MINIMUM, kind="cpu", max_group_count=(5, 4, 3)),
    "short loops": dataclasses.replace(MINIMUM, max_loop_rounds=24),
    "short loops, cpu": dataclasses.replace(MINIMUM, kind="cpu", max_loop_rounds=24),
    "small buffers": dataclasses.replace(MINIMUM, max_storage_buffer_range=2048),
    "small buffers, cpu": dataclasses.replace(MINIMUM, kind="cpu", max_storage_buffer_range=2048),
    "few texels": dataclasses.replace(
        MINIMUM, max_texel_buffer_elements=100, preferred_access="image"
    ),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """An op, its inputs (shape or (shape, dtype); None: absent), which of them are constants."""

    op: Op
    inputs: tuple[object, ...]
    constants: tuple[int, ...] = ()

    def graph(self) -> Graph:
        return single_op_graph(self.op, [_array(i) for i in self.inputs], self.constants)


def _array(given: object) -> np.ndarray | None:
    if given is None:
        return None
    if given and isinstance(given[0], tuple):  # type: ignore[index]
        shape, dtype = given  # type: ignore[misc]
        return np.ones(shape, dtype.numpy if isinstance(dtype, DType) else dtype)
    return np.ones(given, np.float32)  # type: ignore[call-overload]


IMAGE = (1, 13, 9, 11)
I8, I32 = np.int8, np.int32
SHAPES = [(1, 13, 9, 11), (2, 8, 6, 4), (5, 7), (1, 37), (1, 3, 4, 5, 6), (7,), ()]
YOLO = YoloDetection(
    3,
    2,
    confidence_threshold=0.3,
    nms_threshold=0.4,
    biases=(10.0, 14.0, 23.0, 27.0),
    mask=(0, 1),
    anchors_scale=(32.0,),
)


def _elementwise() -> Iterator[Case]:
    for op in UNARY:
        yield Case(op(), (IMAGE,))
    for op in BINARY:
        yield Case(op(), (IMAGE, (13, 1, 1)))
    for shape in SHAPES:
        yield Case(ew.Exp(), (shape,))
        yield Case(ew.Abs(), ((shape, I32),))
        yield Case(ew.Add(), (shape, ()))
        yield Case(ew.Mul(), ((shape, I8), (shape, I8)))
        yield Case(ew.Cast(DType.INT8), (shape,))
    yield Case(ew.Add(), ((2, 1, 3, 1, 5), (4, 1, 6, 1)))
    yield Case(ew.Cast(DType.FLOAT32), ((IMAGE, I32),))


def _conv(axes: int, kernel: int = 3, group: int = 1, kind: type = Conv) -> Op:
    pads = (kernel // 2,) * (2 * axes)
    return kind((1,) * axes, pads, (1,) * axes, group)


def _transposed(axes: int, group: int = 1) -> Op:
    return ConvTranspose((2,) * axes, (1,) * (2 * axes), (1,) * axes, group)


def _convolution() -> Iterator[Case]:
    for constants in ((), (1, 2)):
        yield Case(_conv(2), (IMAGE, (21, 13, 3, 3), (21,)), constants)
        yield Case(_conv(2, 1), (IMAGE, (5, 13, 1, 1), (5,)), constants)
        yield Case(_conv(2, group=3), ((2, 9, 5, 5), (12, 3, 3, 3), (12,)), constants)
        yield Case(_conv(2, 5, 13), (IMAGE, (13, 1, 5, 5), (13,)), constants)
        yield Case(_conv(1), ((1, 5, 31), (4, 5, 3), (4,)), constants)
        yield Case(_conv(3), ((1, 3, 4, 5, 6), (4, 3, 3, 3, 3), (4,)), constants)
        yield Case(_conv(2), (IMAGE, (21, 13, 3, 3), None), constants[:1])
        integer = _conv(2, kind=ConvInteger)
        yield Case(integer, ((IMAGE, I8), ((21, 13, 3, 3), I8)), constants[:1])
        yield Case(_transposed(2), (IMAGE, (13, 21, 3, 3), (21,)), constants)
        yield Case(_transposed(2, 3), ((2, 9, 5, 5), (9, 4, 3, 3), (12,)), constants)
        yield Case(_transposed(2, 13), (IMAGE, (13, 1, 4, 4), (13,)), constants)
        yield Case(_transposed(1), ((1, 5, 31), (5, 4, 3), None), constants[:1])
        yield Case(_transposed(3), ((1, 3, 4, 5, 6), (3, 4, 3, 3, 3), (4,)), constants)
        deformed = (IMAGE, (21, 13, 3, 3), (1, 18, 9, 11), (21,), (1, 9, 9, 11))
        yield Case(
            DeformConv((1, 1), (1,) * 4, (1, 1)), deformed, tuple(2 * c - 1 for c in constants)
        )
        parts = ((1, 6, 4, 5), (4, 3, 1, 1), (1, 6, 4, 5), None)
        yield Case(DeformConv((1, 1), (0,) * 4, (1, 1), 2, 3), parts, constants[:1])


def _pooling() -> Iterator[Case]:
    for pool in (MaxPool, AveragePool):
        yield Case(pool((3, 3), (2, 2), (1, 1, 1, 1)), (IMAGE,))
        yield Case(pool((2, 11), (1, 1), (0, 0, 0, 0)), (IMAGE,))
        yield Case(pool((9, 11), (1, 1), (0, 0, 0, 0)), (IMAGE,))
        yield Case(pool((2, 2, 2), (1, 1, 1), (0,) * 6), ((1, 3, 4, 5, 6),))
        yield Case(pool((2,), (1,), (0, 0)), ((1, 3, 9),))
    yield Case(MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), ((IMAGE, I8),))
    for whole in (GlobalAveragePool(), GlobalMaxPool()):
        yield Case(whole, (IMAGE,))
        yield Case(whole, ((1, 2, 300, 301),))
    for adaptive in (AdaptiveAveragePool, AdaptiveMaxPool):
        yield Case(adaptive((2, 3)), (IMAGE,))
        yield Case(adaptive((1, 1)), (IMAGE,))


def _products() -> Iterator[Case]:
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1, 40), (40, 21)),
        ((1, 1000), (1000, 1000)),
        ((37, 40), (40, 44)),
        ((5, 7), (7, 3)),
        ((3, 5, 8), (3, 8, 12)),
        ((2, 1, 5, 8), (3, 8, 12)),
        ((300, 4), (4, 1)),
    ]
    for a, b in pairs:
        for constants in ((), (1, 2)):
            yield Case(MatMul(), (a, b, (b[-1],)), constants)
            yield Case(MatMul(), (a, b, None), constants[:1])
            yield Case(MatMulInteger(), ((a, I8), (b, I8)), constants[:1])
        yield Case(MatMul(transpose_b=True), (a, (*b[:-2], b[-1], b[-2]), None))
        yield Case(QuantizedMatMul(), (a, b))
        yield Case(Gather(-1), (a, ((3, 2), I32)))
        yield Case(QuantizedMatMul(), (a, (b, I8), None, ()), (1, 3))
    for width in (8, 6):
        q = (2, 9, 2 * width)
        yield Case(Attention(2, 0.5), (q, q, q, None))
        yield Case(Attention(2, 0.5), (q, q, q, (9, 9)))
        yield Case(RotaryEmbedding(), (q, (9, width), (9, width)))
        k = (2, 2, 9, width)
        yield Case(Attention(6, 0.5, 2), ((2, 6, 5, width), k, k, (6, 5, 9)))


def _rows() -> Iterator[Case]:
    for shape in ((1, 37, 12), (70, 67), (2, 1000)):
        last = shape[-1:]
        yield Case(LayerNormalization(-1), (shape, last, last))
        yield Case(LayerNormalization(-1), (shape, None, None))
        yield Case(Softmax(-1), (shape,))
    for axis in range(4):
        yield Case(Softmax(axis), (IMAGE,))
        yield Case(Softmax(axis), ((2, 8, 6, 4),))
    yield Case(BatchNormalization(), (IMAGE, *[(13,)] * 4), (1, 2, 3, 4))
    yield Case(LRN((1,), (2,), (2,)), (IMAGE,))
    yield Case(LRN((2, 3), (1, 1), (1, 1)), (IMAGE,))


def _reduction() -> Iterator[Case]:
    return (Case(*given) for given in reduction_cases.cases())


def _rearrange() -> Iterator[Case]:
    return (Case(*given) for given in rearrange_cases.cases())


def _selection() -> Iterator[Case]:
    return (Case(*given) for given in selection_cases.cases())


def _spatial() -> Iterator[Case]:
    return (Case(*given) for given in spatial_cases.cases())


def _movement() -> Iterator[Case]:
    for image in (IMAGE, (2, 8, 6, 4)):
        n, c, h, w = image
        for given in (image, (image, I8)):
            yield Case(Identity(), (given,))
            yield Case(Reshape((n, c * h * w)), (given,))
            yield Case(Transpose((0, 2, 3, 1)), (given,))
            yield Case(Slice((1,), (c - 1,), (1,)), (given,))
            yield Case(Slice((0,), (w,), (3,), (2,)), (given,))
            yield Case(Pad((0, 0, 1, 1, 0, 0, 1, 1)), (given,))
            yield Case(Pad((0, 0, 1, 1, 0, 0, 1, 1), "reflect"), (given,))
            yield Case(Pad((0, 0, 1, 1, 0, 0, 1, 1), "symmetric"), (given,))
            yield Case(Concat(1), (given, given))
            yield Case(Concat(1), (given, given, given))
            yield Case(Concat(3), (given, given))
    yield Case(Pad((0, 0, 1, 1, 0, 0, 1, 1)), (IMAGE, (13,)))
    yield Case(Expand((2, 13, 9, 11)), ((13, 1, 11),))
    yield Case(ChannelShuffle(2), ((1, 8, 5, 5),))
    yield Case(ChannelShuffle(3), ((1, 9, 5, 5),))
    for mode in ("nearest", "linear", "cubic"):
        yield Case(Resize((17, 19), mode), (IMAGE,))
        yield Case(Resize((5, 6, 7), mode), ((1, 3, 4, 5, 6),))


def _others() -> Iterator[Case]:
    for vector in ((), (13,)):
        yield Case(QuantizeLinear(), (IMAGE, vector, None))
        yield Case(QuantizeLinear(), (IMAGE, vector, (vector, I8)))
        yield Case(DequantizeLinear(), ((IMAGE, I8), vector, None))
        yield Case(DequantizeLinear(), ((IMAGE, I8), vector, vector))
    yield Case(QuantizedResize((5, 17)), ((IMAGE, I8),))
    yield Case(YOLO, ((1, 16, 5, 7),))


def _recurrent() -> Iterator[Case]:
    for hidden in (6, 150):
        x, out, lstm = (3, 2, 5), 7, LSTM(direction="bidirectional", state_rounding="symmetric")
        for op, gates in ((RNN(), 1), (GRU(), 3), (GRU(linear_before_reset=True), 3)):
            rows = gates * hidden
            given = (x, (1, rows, 5), (1, rows, hidden), (1, 2 * rows), (1, 2, hidden))
            yield Case(op, given, (1, 2, 3))
        rows = 4 * hidden
        given = (x, (2, rows, 5), (2, rows, out), None, (2, 2, out), (2, 2, hidden))
        yield Case(lstm, (*given, (2, 3 * hidden), (2, out, hidden)), (1, 2, 6, 7))
        yield Case(LSTM(layout=1), ((1, 1, 8), (1, rows, 8), (1, rows, hidden)), (1, 2))
        given = ((1, 1, 8), (1, rows, 8), (1, rows, hidden), *[None] * 6, (1, rows))
        yield Case(LSTM(), given, (1, 2, 9))
    yield Case(DynamicRound("asymmetric"), ((3, 41),))
    one = ((1 << 30, 0),)
    integer = IntegerLSTM(one * 4, one * 4, *one, one * 3, one * 4, (1,) * 4, *one)
    for units in (6, 150):
        rows, out, half, wide = 4 * units, 7, DType.INT16, DType.INT32
        bias = ((rows,), wide)
        given = (((3, 2, 5), I8), ((rows, 5), I8), ((rows, out), I8), bias, bias)
        states = (((2, out), I8), ((2, units), half), ((2, 3 * units), half))
        rest = (((rows,), half), bias, ((out, units), I8), ((out,), wide))
        yield Case(integer, (*given, *states, *rest), (1, 2, 3, 4, 7, 8, 9, 10, 11))


def _with_tails(cases: list[Case]) -> Iterator[Case]:
    """Cases whose op takes a tail, with one that has an operand like the output and by channel."""
    for case in cases:
        arrays = [_array(i) for i in case.inputs]
        fusion = type(case.op).fusion
        if fusion is None or any(a is not None and a.dtype.kind != "f" for a in arrays):
            continue
        types = single_op_graph(case.op, arrays, case.constants).nodes[0].outputs[0].type
        steps = (ew.FusedStep(ew.Sigmoid()), ew.FusedStep(ew.Add(), operand=0))
        yield dataclasses.replace(
            case, op=ew.Fused(case.op, steps), inputs=(*case.inputs, types.dims)
        )
        odd = isinstance(case.op, ew.Binary) and types.rank == 5
        if types.rank >= 2 and not odd:
            vector = [1] * types.rank
            vector[fusion.channel_axis] = types.dims[fusion.channel_axis]
            inputs = (*case.inputs, tuple(vector))
            yield dataclasses.replace(case, op=ew.Fused(case.op, steps), inputs=inputs)


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "elementwise": _elementwise,
    "convolution": _convolution,
    "pooling": _pooling,
    "products": _products,
    "rows": _rows,
    "reduction": _reduction,
    "recurrent": _recurrent,
    "movement": _movement,
    "rearrange": _rearrange,
    "selection": _selection,
    "spatial": _spatial,
    "others": _others,
    "integers": lambda: (Case(*given) for given in integer_cases.cases()),
}


def blocks_held(spec: dict[int, int | float]) -> int | float:
    """Bytes of shared memory of matmul/blocks.glsl (with 20: of float16, and the sums)."""
    rows, columns = spec[10] * spec[12], spec[11] * spec[13]
    factors = rows * spec[15] + 4 * spec[14] * spec[16]
    return 8 * factors + 16 * rows * (columns + 1) if 20 in spec else 16 * factors


#: Bytes of shared memory that a kernel declares, from its specialization constants.
SHARED_MEMORY: dict[str, Callable[[dict[int, int | float]], int | float]] = {
    "pooling/global_shared": lambda spec: 16 * spec[11],
    "matmul/row": lambda spec: 16 * spec[10] * spec[11] * spec[12],
    "matmul/shared": blocks_held,
    "convolution/shared": blocks_held,
    "reduction/softmax": lambda spec: 4 * spec[10] * spec[11],
    "reduction/reduce": lambda spec: 16 * spec[10] * spec[11],
    "reduction/cumsum": lambda spec: 16 * spec[10] * spec[11],
    "normalization/normalize": lambda spec: 16 * spec[10] * spec[11],
    "selection/extreme": lambda spec: 32 * spec[10] * spec[11],
    "selection/pick": lambda spec: 8 * spec[10],
    "detection/greedy": lambda spec: 8 * spec[10],
    "attention/softmax": lambda spec: 4 * spec[10] * spec[11],
    "attention/stream": lambda spec: 14 << 10,
    "matmul/quantize_rows": lambda spec: 4 * spec[10] * spec[11],
    "matmul/largest": lambda spec: 4 * spec[10] * spec[11],
    "rounding/rows": lambda spec: 4 * spec[10] * spec[11],
    "rounding/range": lambda spec: 4 * spec[10],
    "recurrent/integer": lambda spec: 4 * spec.get(16, 0),
    "recurrent/steps": lambda spec: (
        16 * (spec.get(18, 0) + spec[10] * spec[11] * (1, 4, 2, 3)[int(spec[12])])
    ),
    "normalization/layer_norm": lambda spec: 4 * spec[10] * spec[11],
}


def check_limits(plan: Plan, limits: DeviceLimits) -> None:
    """Asserts that a device with ``limits`` takes every dispatch of the plan."""
    check_plan(plan)
    for dispatch in plan.dispatches:
        _check_dispatch(dispatch, plan, limits)


def _check_dispatch(dispatch: Dispatch, plan: Plan, limits: DeviceLimits) -> None:
    spec = dict(dispatch.specialization)
    local = [int(spec[i]) for i in range(3)]
    named = f"{dispatch.kernel} {dispatch.groups} of {local}"
    pairs = [*zip(dispatch.groups, limits.max_group_count, strict=True)]
    pairs += zip(local, limits.max_group_size, strict=True)
    assert all(0 < size <= most for size, most in pairs), named
    assert math.prod(local) <= limits.max_group_invocations, named
    assert len(dispatch.push) <= limits.max_push_constants, named
    assert len(dispatch.bindings) <= limits.max_storage_buffers, named
    for binding in dispatch.bindings:
        _check_binding(binding, plan, limits, named)
    if dispatch.kernel in SHARED_MEMORY:
        assert SHARED_MEMORY[dispatch.kernel](spec) <= limits.shared_memory, named
    assert dispatch.variant in _variants(dispatch.kernel), f"{named}: no {dispatch.variant}"
    unknown = set(spec) - _constant_ids(dispatch.kernel)
    assert not unknown, f"{named}: no specialization constants {unknown}"


def _check_binding(binding: Binding, plan: Plan, limits: DeviceLimits, named: str) -> None:
    buffer = plan.buffers[binding.buffer]
    if binding.view is View.STORAGE:
        assert buffer.nbytes <= limits.max_storage_buffer_range, f"{named}: {buffer}"
        assert buffer.offset % limits.storage_alignment == 0, f"{named}: {buffer}"
    else:
        texels = buffer.nbytes // binding.format.texel_bytes
        assert texels <= limits.max_texel_buffer_elements, f"{named}: {buffer}"
        assert buffer.offset % limits.texel_alignment == 0, f"{named}: {buffer}"


@functools.cache
def _variants(kernel: str) -> set[glsl.Variant]:
    return set(glsl.variants(glsl.read_kernel(glsl.source_root(), kernel), kernel))


@functools.cache
def _source(kernel: str) -> str:
    root = glsl.source_root()
    return glsl.expand(glsl.read_kernel(root, kernel), f"{kernel}.comp", root)


@functools.cache
def _constant_ids(kernel: str) -> set[int]:
    """Ids of the specialization constants that a kernel's source declares."""
    text = _source(kernel)
    found = {0, 1, 2} | {int(i) for i in re.findall(r"constant_id = (\d+)", text)}
    for first in re.findall(r"EPILOGUE_STEP_CONSTANTS\(\d, (\d+)\)", text):
        found |= {int(first) + i for i in range(4)}
    return found


def offers(graph: Graph, limits: DeviceLimits) -> list[Candidate]:
    return candidates(graph.nodes[0], limits, LoweringOptions())


def lower_each(case: Case, limits: DeviceLimits) -> int:
    """Lowers a case by each of its candidates; returns how many there are."""
    graph = case.graph()
    found = offers(graph, limits)
    for candidate in found:
        options = LoweringOptions(algorithm=candidate.name, layout=candidate.outputs[0])
        check_limits(lower(graph, limits, options), limits)
    return len(found)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_op_fits_the_device(family: str, device: str) -> None:
    cases = list(FAMILIES[family]())
    for case in [*cases, *_with_tails(cases)]:
        assert lower_each(case, DEVICES[device]), f"{case}: no candidate"


@pytest.mark.parametrize("device", NARROW)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_fit_is_left_to_the_host(family: str, device: str) -> None:
    cases = list(FAMILIES[family]())
    for case in [*cases, *_with_tails(cases)]:
        lower_each(case, NARROW[device])


#: Ops on tensors of half a gigabyte and more, of which only weights have data.
BIG = (1, 64, 2048, 1024)
PADS = (0, 0, 1, 1, 0, 0, 1, 1)
LARGE: list[tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = [
    (ew.Sigmoid(), (BIG,), ()),
    (ew.Add(), (BIG, BIG), ()),
    (ew.Mul(), (BIG, (64, 1, 1)), ()),
    (_conv(2), (BIG,), ((16, 64, 3, 3), (16,))),
    (_conv(2, group=64), (BIG,), ((64, 1, 3, 3), (64,))),
    (_conv(2, group=32), (BIG,), ((32, 2, 3, 3), (32,))),
    (_transposed(2), ((1, 64, 1025, 512),), ((64, 64, 3, 3), (64,))),
    (_transposed(2, 64), ((1, 64, 1025, 512),), ((64, 1, 3, 3), (64,))),
    (MaxPool((3, 3), (1, 1), (1, 1, 1, 1)), (BIG,), ()),
    (GlobalAveragePool(), (BIG,), ()),
    (AdaptiveAveragePool((7, 7)), (BIG,), ()),
    (Softmax(1), (BIG,), ()),
    (Softmax(-1), ((1 << 24, 8),), ()),
    (LayerNormalization(-1), ((1 << 24, 8),), ((8,), (8,))),
    (BatchNormalization(), (BIG,), ((64,),) * 4),
    (LRN((1,), (2,), (2,)), (BIG,), ()),
    (MatMul(), ((1 << 22, 32), (32, 16)), ()),
    (MatMul(), ((1 << 22, 31), (31, 16)), ()),
    (MatMul(), ((1, 32), (32, 1 << 22)), ()),
    (Attention(4, 0.5), ((1, 4096, 256),) * 3, ()),
    (Attention(8, 0.5), ((1, 8192, 256),) * 3, ()),
    (QuantizedMatMul(), ((4096, 4096), (4096, 4096)), ()),
    (Transpose((0, 2, 3, 1)), (BIG,), ()),
    (Slice((1,), (63,), (1,)), (BIG,), ()),
    (Pad(PADS), ((1, 64, 2046, 1022),), ()),
    (Concat(1), ((1, 31, 2048, 1024), (1, 33, 2048, 1024)), ()),
    (Resize((2048, 1024)), ((1, 64, 512, 512),), ()),
    (QuantizeLinear(), (BIG, (64,)), ()),
    *reduction_cases.LARGE,
    *rearrange_cases.LARGE,
    *spatial_cases.LARGE,
]
ROOMY = dataclasses.replace(MINIMUM, max_storage_buffer_range=1 << 30)


@pytest.mark.parametrize(
    "limits",
    [
        ROOMY,
        dataclasses.replace(ROOMY, kind="cpu"),
        dataclasses.replace(ROOMY, kind="cpu", subgroup_size=8, max_group_invocations=1024),
        DISCRETE,
    ],
    ids=["other", "cpu", "cpu, subgroups of 8", "discrete"],
)
@pytest.mark.parametrize("number", range(len(LARGE)), ids=lambda i: f"{i} {LARGE[i][0].type_name}")
def test_large_tensors(number: int, limits: DeviceLimits) -> None:
    """More workgroups than an axis may have, more items than a lane may take."""
    graph = _large(number)
    found = offers(graph, limits)
    assert found
    for candidate in found:
        options = LoweringOptions(algorithm=candidate.name, layout=candidate.outputs[0])
        check_limits(lower(graph, limits, options), limits)


@pytest.mark.parametrize("number", range(len(LARGE)), ids=lambda i: f"{i} {LARGE[i][0].type_name}")
def test_tensors_larger_than_a_buffer_are_the_hosts(number: int) -> None:
    small = any(math.prod(s) < 1 << 25 for s in LARGE[number][1])
    assert small or not offers(_large(number), MINIMUM)


def _large(number: int) -> Graph:
    op, inputs, weights = LARGE[number]
    builder = GraphBuilder(op.type_name)
    values = [builder.input(f"x{i}", TensorType(shape)) for i, shape in enumerate(inputs)]
    values += [builder.constant(np.ones(shape, np.float32)) for shape in weights]
    return builder.finish({"y": builder.add(op, *values)})


def test_weights_larger_than_a_buffer_are_the_hosts() -> None:
    """As they lie, or only as they are packed."""
    limits = dataclasses.replace(MINIMUM, max_storage_buffer_range=100_000)
    assert not offers(Case(MatMul(), ((1, 160), (160, 160), None), (1,)).graph(), limits)
    assert offers(Case(MatMul(), ((1, 156), (156, 156), None), (1,)).graph(), limits)
    assert offers(Case(MatMul(), ((1, 5000), (5000, 1), None), (1,)).graph(), limits)
    weights = (160, 160, 1, 1)
    assert not offers(Case(_conv(2, 1), ((1, 160, 4, 4), weights, None), (1,)).graph(), limits)
    found = offers(Case(_conv(2, 1), ((1, 3, 1, 1), (7000, 3, 1, 1), None), (1,)).graph(), limits)
    assert [c.name for c in found] == ["general"]


def test_every_op_with_a_rule_is_covered() -> None:
    covered = {type(case.op) for family in FAMILIES.values() for case in family()}
    own = {op for op in op_classes() if op.__module__.startswith("vknn.ops.")}
    own -= {Custom}  # its kernels are the users': tests/formats/test_custom.py
    assert {op.__name__ for op in own if rule_for(op)} == {op.__name__ for op in covered}


def test_shared_memory_is_known_for_every_kernel_that_has_some() -> None:
    for kernel in glsl.kernels(glsl.source_root()):
        declares = re.search(r"^shared ", _source(kernel), re.MULTILINE) is not None
        assert declares == (kernel in SHARED_MEMORY), kernel
