"""Every op, with inputs, for the tests of lowering.

A module ``<family>_cases`` beside this one is found by being there: its ``cases()`` gives tuples of
the fields of :class:`Case`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tests.helpers import single_op_graph

from vknn.graph import DType, Graph, Op
from vknn.lowering.kit.opcodes import BINARY, UNARY
from vknn.ops import elementwise as ew
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.ops.convolution.conv import Conv, ConvInteger, ExactConv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.detection.yolo import YoloDetection
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul, MatMulInteger, Projections, QuantizedMatMul
from vknn.ops.movement.shape import (
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
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.ops.pooling.reduce_window import ReduceWindow
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.quantized.resize import QuantizedResize
from vknn.ops.recurrent.integer_lstm import IntegerLSTM
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN
from vknn.ops.reduction import Softmax
from vknn.ops.sampling.resize import Resize


@dataclasses.dataclass(frozen=True)
class Case:
    """An op, its inputs (shape or (shape, dtype); None: absent), which of them are constants."""

    op: Op
    inputs: tuple[object, ...]
    constants: tuple[int, ...] = ()

    def arrays(self) -> list[np.ndarray | None]:
        return [_array(given) for given in self.inputs]

    def graph(self) -> Graph:
        return single_op_graph(self.op, self.arrays(), self.constants)


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


def conv(axes: int, kernel: int = 3, group: int = 1, kind: type = Conv) -> Op:
    pads = (kernel // 2,) * (2 * axes)
    return kind((1,) * axes, pads, (1,) * axes, group)


def transposed(axes: int, group: int = 1) -> Op:
    return ConvTranspose((2,) * axes, (1,) * (2 * axes), (1,) * axes, group)


def _convolution() -> Iterator[Case]:
    for constants in ((), (1, 2)):
        yield Case(conv(2), (IMAGE, (21, 13, 3, 3), (21,)), constants)
        yield Case(conv(2, 1), (IMAGE, (5, 13, 1, 1), (5,)), constants)
        yield Case(conv(2, group=3), ((2, 9, 5, 5), (12, 3, 3, 3), (12,)), constants)
        yield Case(conv(2, 5, 13), (IMAGE, (13, 1, 5, 5), (13,)), constants)
        yield Case(conv(1), ((1, 5, 31), (4, 5, 3), (4,)), constants)
        yield Case(conv(3), ((1, 3, 4, 5, 6), (4, 3, 3, 3, 3), (4,)), constants)
        yield Case(conv(2), (IMAGE, (21, 13, 3, 3), None), constants[:1])
        yield Case(conv(2, kind=ExactConv), (IMAGE, (21, 13, 3, 3), None), constants[:1])
        integer = conv(2, kind=ConvInteger)
        yield Case(integer, ((IMAGE, I8), ((21, 13, 3, 3), I8)), constants[:1])
        yield Case(transposed(2), (IMAGE, (13, 21, 3, 3), (21,)), constants)
        yield Case(transposed(2, 3), ((2, 9, 5, 5), (9, 4, 3, 3), (12,)), constants)
        yield Case(transposed(2, 13), (IMAGE, (13, 1, 4, 4), (13,)), constants)
        yield Case(transposed(1), ((1, 5, 31), (5, 4, 3), None), constants[:1])
        yield Case(transposed(3), ((1, 3, 4, 5, 6), (3, 4, 3, 3, 3), (4,)), constants)
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
    yield Case(ReduceWindow("add", 2, 3, 2, (1, 1), dilation=2), (IMAGE,))
    yield Case(ReduceWindow("max", -1, 2, base_dilation=3), ((IMAGE, I8),))
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
        if len(b) == 2:
            pairs_of_b = (b, (b[1],), b, None)
            yield Case(Projections(), (a, *pairs_of_b), (1, 2, 3))
        yield Case(Gather(-1), (a, ((3, 2), I32)))
        yield Case(QuantizedMatMul(), (a, (b, I8), None, ()), (1, 3))
    for width in (8, 6):
        q = (2, 9, 2 * width)
        yield Case(Attention(2, 0.5), (q, q, q, None))
        yield Case(Attention(2, 0.5), (q, q, q, (9, 9)))
        yield Case(RotaryEmbedding(), (q, (9, width), (9, width)))
        k = (2, 2, 9, width)
        yield Case(Attention(6, 0.5, 2), ((2, 6, 5, width), k, k, (6, 5, 9)))
        state = (2, 2, width, width)
        yield Case(LinearAttention(4, 2, 0.5), ((2, 9, 4 * width), q, q, state))
        rates, beta = (2, 9, 2 * width), (2, 9, 2)
        yield Case(LinearAttention(4, 2, 0.5), ((2, 9, 4 * width), q, q, state, rates, beta))


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


def with_epilogues(cases: list[Case]) -> Iterator[Case]:
    """Cases whose op takes an epilogue, with operands like the output and by channel in it."""
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


def _of_module(name: str) -> Iterator[Case]:
    module = importlib.import_module(f"tests.lowering.{name}")
    return (Case(*given) for given in module.cases())


_MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*_cases.py"))
FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "elementwise": _elementwise,
    "convolution": _convolution,
    "pooling": _pooling,
    "products": _products,
    "rows": _rows,
    "recurrent": _recurrent,
    "movement": _movement,
    "others": _others,
    **{
        name.removesuffix("_cases"): functools.partial(_of_module, name)
        for name in _MODULES
        if name != "op_cases"
    },
}
