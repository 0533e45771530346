"""Rules of operators: examples of a stacked graph are those computed alone, or it is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from vknn import reference
from vknn.batching import NotIndependentError, stacked_graph
from vknn.batching.case import RULES, rule_of
from vknn.graph import DType, Graph, GraphBuilder, Op, TensorType, Value, op_classes
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.ops.bits import BitwiseAnd
from vknn.ops.convolution.conv import Conv, ConvInteger
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.ops.elementwise import Add, Cast, Fused, FusedStep, Mul, PRelu, Relu
from vknn.ops.elementwise.glu import Glu
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.fourier import DFT
from vknn.ops.indexing.gather import Bounded, Gather, GatherND, SearchSorted
from vknn.ops.indexing.nonzero import Unique
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import ArgMax, TopK
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.linear_algebra import Det, Inverse
from vknn.ops.matmul import MatMul, MatMulInteger, QuantizedMatMul, RoundBlocks
from vknn.ops.movement.rearrange import (
    DepthToSpace,
    MatrixDiag,
    ReverseSequence,
    SliceUpdate,
    SpaceToDepth,
    Tile,
)
from vknn.ops.movement.shape import (
    ChannelShuffle,
    Concat,
    Expand,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from vknn.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)
from vknn.ops.pooling.pool import AdaptiveAveragePool, AveragePool, GlobalMaxPool, MaxPool
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.random import RandomUniform
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN
from vknn.ops.reduction import CumSum, LogSoftmax, ReduceMax, ReduceMean, ReduceSum, Softmax
from vknn.ops.sampling.grid_sample import GridSample
from vknn.ops.sampling.resize import Resize

COUNT = 3
SEED = 5


class Made:
    """A graph in the making: ``x`` are inputs of examples, ``c`` constants."""

    def __init__(self) -> None:
        self.builder, self.rng = GraphBuilder("made"), np.random.default_rng(SEED)
        self.inputs: list[Value] = []

    def x(self, *shape: int, dtype: DType = DType.FLOAT32) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs.append(self.builder.input(name, TensorType(shape, dtype)))
        return self.inputs[-1]

    def c(self, *shape: int, dtype: DType = DType.FLOAT32) -> Value:
        return self.builder.constant(numbers(self.rng, shape, dtype))

    def at(self, value: Any, dtype: Any = np.int32) -> Value:
        return self.builder.constant(np.asarray(value, dtype))

    def __call__(self, op: Op, *inputs: Value | None) -> Any:
        made = self.builder.add_many(op, *inputs)
        return made[0] if len(made) == 1 else made

    def graph(self, *outputs: Value) -> Graph:
        return self.builder.finish({f"y{i}": v for i, v in enumerate(outputs)})


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0, 3, shape).astype(dtype.numpy)


def check(graph: Graph) -> None:
    """Examples of the stacked graph are computed as alone, and nothing of one reaches another."""
    rng, made = np.random.default_rng(SEED), stacked_graph(graph, COUNT)
    types = {v.name: v.type for v in graph.inputs}
    feeds = {n: numbers(rng, (COUNT, *t.dims), t.dtype) for n, t in types.items()}
    found = reference.run(made, feeds)
    for name, value in graph.outputs.items():
        assert found[name].shape == (COUNT, *value.type.dims)
    for number in range(COUNT):
        alone = reference.run(graph, {n: a[number] for n, a in feeds.items()})
        for name, right in alone.items():
            np.testing.assert_allclose(
                found[name][number].astype(np.float64), right, rtol=1e-6, atol=1e-6
            )
    changed = {n: a.copy() for n, a in feeds.items()}
    for array in changed.values():
        array[1] = np.nan if array.dtype.kind == "f" else array[1] ^ 1
    other = reference.run(made, changed)
    for name in graph.outputs:
        for number in (0, 2):
            assert other[name][number].tobytes() == found[name][number].tobytes(), name


def refused(graph: Graph, match: str | None = None) -> None:
    """Along the first axis examples mix; where they go along another one, they do not."""
    with pytest.raises(NotIndependentError, match=match):
        stacked_graph(graph, COUNT, (0,))
    with contextlib.suppress(NotIndependentError):
        check(graph)


def one(op: Op, *shapes: Any) -> Graph:
    """A graph of one operator; shapes in lists are those of inputs, in tuples of constants."""
    m = Made()
    values = [
        None if s is None else s if isinstance(s, Value)
        else m.x(*s) if isinstance(s, list) else m.c(*s) for s in shapes
    ]  # fmt: skip
    made = m.builder.add_many(op, *values)
    return m.graph(*made)


INDEPENDENT = {
    "unary": (Relu(), [1, 4]),
    "no batch axis at all": (Relu(), [4]),
    "broadcast channels": (Add(), [1, 4, 5], (4, 1)),
    "broadcast scalar": (Mul(), [1, 4], ()),
    "two inputs": (Add(), [1, 4], [1, 4]),
    "two inputs of other sizes": (Add(), [1, 4, 1], [1, 1, 5]),
    "slopes": (PRelu(), [1, 4, 2, 2], (4, 1, 1)),
    "comparison": (Less(), [1, 4], (4,)),
    "softmax": (Softmax(-1), [1, 4]),
    "log softmax": (LogSoftmax(1), [1, 4, 3]),
    "running sum": (CumSum(1), [1, 4]),
    "gated": (Glu(1), [1, 4]),
    "sum": (ReduceSum((1,), False), [1, 4, 3]),
    "mean": (ReduceMean((2, 3)), [1, 2, 3, 4]),
    "largest": (ReduceMax((-1,), False), [1, 2, 3]),
    "best": (ArgMax(1, False), [1, 4, 2]),
    "top": (TopK(1, 2), [1, 4]),
    "local response": (LRN((1,), (1,), (1,)), [1, 4, 3]),
    "mean and variance": (MeanVarianceNormalization((1, 2)), [1, 4, 3]),
    "unit length": (NormalizeL2((1,)), [1, 4]),
    "layer": (LayerNormalization(-1), [1, 4, 3], (3,), (3,)),
    "root mean square": (RMSNormalization(-1), [1, 4, 3], (3,)),
    "instance": (InstanceNormalization(), [1, 4, 3], (4,), (4,)),
    "groups": (GroupNormalization(2), [1, 4, 3], None, (4,)),
    "largest pool": (MaxPool((2, 2), (1, 1), (0, 0, 0, 0)), [1, 2, 4, 4]),
    "mean pool": (AveragePool((2,), (2,), (0, 0)), [1, 2, 4]),
    "global pool": (GlobalMaxPool(), [1, 2, 4, 4]),
    "adaptive pool": (AdaptiveAveragePool((2, 2)), [1, 2, 5, 4]),
    "convolution": (Conv((1, 1), (1, 1, 1, 1), (1, 1)), [1, 2, 4, 4], (3, 2, 3, 3), (3,)),
    "depthwise": (Conv((1,), (1, 1), (1,), 4), [1, 4, 5], (4, 1, 3)),
    "convolution of two": (Conv((1,), (0, 0), (1,)), [2, 4, 5], (3, 4, 2)),
    "transposed": (ConvTranspose((2,), (0, 0), (1,)), [1, 2, 4], (2, 3, 2)),
    "deformed": (
        DeformConv((1, 1), (0, 0, 0, 0), (1, 1)),
        [1, 2, 3, 3], (2, 2, 2, 2), [1, 8, 2, 2], None, (1, 4, 2, 2),
    ),
    "columns": (Im2Col((2, 2)), [1, 2, 3, 3]),
    "of columns": (Col2Im((2, 2), image=(3, 3)), [1, 8, 4]),
    "resize": (Resize((6, 5), "linear"), [1, 2, 3, 3]),
    "grid": (GridSample(), [1, 2, 3, 3], [1, 2, 2, 2]),
    "grid for all": (GridSample(), [1, 2, 3, 3], (1, 2, 2, 2)),
    "picture for all": (GridSample(), (1, 2, 3, 3), [1, 2, 2, 2]),
    "to space": (DepthToSpace(2), [1, 8, 2, 2]),
    "to depth": (SpaceToDepth(2), [1, 2, 4, 4]),
    "shuffle": (ChannelShuffle(2), [1, 4, 2]),
    "transform": (DFT(4), [1, 3, 1]),
    "determinant": (Det(), [1, 3, 3]),
    "inverse": (Inverse(), [1, 2, 3, 3]),
    "diagonal": (MatrixDiag(), [1, 3]),
    "steps of rows": (DynamicRound("asymmetric", -1), [1, 3, 4]),
    "steps of examples": (DynamicRound("asymmetric", 1, True), [1, 3, 4]),
    "steps of blocks": (RoundBlocks(2), [1, 4]),
    "bounded": (Relu(), [1, 4]),
    "reshape to rows": (Reshape((6, 4)), [1, 6, 4]),
    "reshape from rows": (Reshape((1, 6, 4)), [6, 4]),
    "flatten": (Reshape((1, -1)), [1, 2, 3]),
    "transpose": (Transpose((1, 2, 0)), [1, 2, 3]),
    "slice": (Slice((0, 1), (1, 3), (0, 1)), [1, 4]),
    "slice of nothing": (Slice((0,), (9,), (0,)), [1, 4]),
    "pad": (Pad((0, 1, 0, 2)), [1, 4]),
    "concat": (Concat(1), [1, 4], [1, 2]),
    "concat with constants": (Concat(1), (1, 2), [1, 4]),
    "expand": (Expand((3, 1, 4)), [1, 4]),
    "expand of lesser rank": (Expand((4,)), [1, 2, 1]),
    "tile": (Tile((1, 2)), [1, 4]),
    "update": (SliceUpdate((0, 1)), [1, 4], [1, 2]),
    "update by constants": (SliceUpdate((0, 1)), [1, 4], (1, 2)),
    "product with weights": (MatMul(), [1, 4], (4, 3), (3,)),
    "product of rows": (MatMul(transpose_b=True), [1, 5, 4], (3, 4)),
    "product of columns": (MatMul(), (3, 4), [4, 1]),
    "products of matrices": (MatMul(), [1, 2, 3, 4], [1, 2, 4, 3]),
    "products with a matrix": (MatMul(), (3, 4), [1, 4, 2]),
    "product of transposed rows": (MatMul(transpose_a=True), [1, 4, 2], (1, 4, 3)),
    "scaled product": (QuantizedMatMul(), [1, 4], (4, 3)),
    "attention": (Attention(2, 0.5), [1, 3, 4], [1, 5, 4], [1, 5, 4]),
    "attention, masked": (Attention(2, 0.5), [1, 3, 4], [1, 5, 4], (1, 5, 4), (3, 5)),
    "attention, a mask each": (
        Attention(2, 0.5), [1, 2, 3, 4], [1, 2, 5, 4], [1, 2, 5, 4], [1, 1, 3, 5],
    ),
    "linear attention": (
        LinearAttention(2, 2, 0.5), [1, 3, 4], [1, 3, 4], [1, 3, 4], (1, 2, 2, 2),
    ),
    "rotary": (RotaryEmbedding(), [1, 2, 3, 4], (3, 2), (3, 2)),
    "rotary, tables each": (RotaryEmbedding(), [1, 2, 3, 4], [1, 3, 2], (1, 3, 2)),
    "LSTM by batch": (LSTM(layout=1), [1, 3, 4], (1, 8, 4), (1, 8, 2), None, (1, 1, 2)),
    "RNN": (RNN(layout=1), [1, 3, 4], (1, 2, 4), (1, 2, 2)),
}  # fmt: skip

DEPENDENT = {
    "mean of the batch": (ReduceMean((0,)), [1, 4]),
    "mean of all": (ReduceMean(None), [1, 4]),
    "softmax of the batch": (Softmax(0), [1, 4]),
    "running sum of the batch": (CumSum(0), [1, 4]),
    "best of the batch": (ArgMax(0), [1, 4]),
    "unit length of the batch": (NormalizeL2((0,)), [1, 4]),
    "statistics of the batch": (MeanVarianceNormalization((0, 2)), [1, 4, 3]),
    "layer with the batch": (LayerNormalization(0), [1, 4]),
    "steps of all": (DynamicRound("asymmetric", 0), [1, 4]),
    "tile of the batch": (Tile((2, 1)), [1, 4]),
    "expand of the batch": (Expand((5, 4)), [1, 4]),
    "pad of the batch": (Pad((1, 0, 0, 0)), [1, 4]),
    "concat along the batch": (Concat(0), [1, 4], [1, 4]),
    "slice of the batch": (Slice((0,), (1,), (0,)), [2, 4]),
    "batch backwards": (Slice((-1,), (-9,), (0,), (-1,)), [1, 4]),
    "broadcast against a constant": (Add(), [1, 4], (3, 4)),
    "broadcast of the batch": (Add(), [1, 4], [5, 1]),
    "examples as weights": (Conv((1,), (0, 0), (1,)), [1, 2, 4], [3, 2, 2]),
    "statistics as inputs": (BatchNormalization(), [1, 4], (4,), (4,), [4], (4,)),
    "examples with one another": (MatMul(), [1, 4], [4, 1]),
    "biases of columns": (MatMul(), (2, 4), [4, 1], (1,)),
    "a mask of more": (Attention(1, 1.0), (2, 3, 4), (2, 5, 4), (2, 5, 4), [1, 3, 5]),
    "nothing at all": (Relu(), [1, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEPENDENT)
def test_examples_are_apart(name: str) -> None:
    op, *shapes = INDEPENDENT[name]
    check(one(op, *shapes))


@pytest.mark.parametrize("name", DEPENDENT)
def test_examples_are_not_stacked(name: str) -> None:
    op, *shapes = DEPENDENT[name]
    graph = one(op, *shapes)
    refused(graph)


def test_axes_move_along() -> None:
    """Transposed and combined along another axis: the axis of examples is followed."""
    m = Made()
    turned = m(Transpose((1, 0, 2)), m.x(1, 3, 4))  # examples along axis 1
    check(m.graph(m(ReduceSum((0,)), turned), m(Softmax(2), turned)))
    for bad in (ReduceSum((1,)), Softmax(1), LayerNormalization(1), Reshape((4, 3))):
        m = Made()
        graph = m.graph(m(bad, m(Transpose((1, 0, 2)), m.x(1, 3, 4))))
        refused(graph, "holds examples|mixes")


def test_rows_of_examples() -> None:
    """[1, T, C] as T rows, through weights, and back."""
    m = Made()
    rows = m(Reshape((6, 4)), m.x(1, 6, 4))
    made = m(Relu(), m(MatMul(), rows, m.c(4, 5), m.c(5)))
    check(m.graph(m(Softmax(-1), m(Reshape((1, 6, 5)), made))))
    m = Made()
    rows = m(Reshape((6, 4)), m.x(1, 6, 4))
    refused(m.graph(m(Add(), rows, m.c(6, 4))))  # 6 rows of a constant, 18 of the examples


def test_pictures_without_a_batch() -> None:
    """[height, width, channels], as Core ML gives them, and [channels, height, width]."""
    for shape, perm in (((4, 5, 3), (2, 0, 1)), ((3, 4, 5), (0, 1, 2))):
        m = Made()
        planes = m(Reshape((1, 3, 4, 5)), m(Transpose(perm), m.x(*shape)))
        made = m(Conv((1, 1), (1, 1, 1, 1), (1, 1)), planes, m.c(2, 3, 3, 3))
        check(m.graph(m(Reshape((2, 4, 5)), made)))


def test_sequences_of_steps_first() -> None:
    for op, gates in ((LSTM(), 4), (GRU(), 3)):
        m = Made()
        steps = m(Transpose((1, 0, 2)), m.x(1, 3, 4))
        found = m(op, steps, m.c(1, 2 * gates, 4), m.c(1, 2 * gates, 2), None, m.c(1, 1, 2))
        check(m.graph(*found))
        m = Made()
        graph = m.graph(*m(op, m.x(3, 1, 4), m.c(1, 2 * gates, 4), m.c(1, 2 * gates, 2)))
        refused(graph)  # axis 0 are steps


def test_indices() -> None:
    m = Made()
    rows = m(Gather(0), m.c(5, 4), m.x(1, 3, dtype=DType.INT32))
    check(m.graph(rows, m(Gather(2), rows, m.at([2, 0])), m(Gather(1), rows, m.at(1))))
    m = Made()
    pairs = m.x(1, 3, 1, dtype=DType.INT32)
    check(m.graph(m(GatherND(0), m.c(5, 4), pairs), m(GatherND(1), m.x(1, 5, 4), pairs)))
    m = Made()
    check(m.graph(m(SearchSorted(), m.at([-1, 0, 1], np.float32), m.x(1, 4))))
    m = Made()
    check(m.graph(m(Bounded(0, 3), m.x(1, 4, dtype=DType.INT32))))
    m = Made()
    refused(m.graph(m(Bounded((0,), (3,)), m.x(1, dtype=DType.INT32))))
    for bad in (
        lambda m: m(Gather(0), m.x(1, 4), m.at([0])),
        lambda m: m(Gather(1), m.x(1, 4), m.x(1, dtype=DType.INT32)),
        lambda m: m(GatherND(0), m.x(1, 4), m.at([[0, 1]])),
        lambda m: m(ScatterND(), m.x(1, 4), m.at([[0]]), m.c(1, 4)),
    ):
        m = Made()
        graph = m.graph(bad(m))
        refused(graph)


def test_lengths_of_sequences() -> None:
    m = Made()
    x = m.x(1, 4, 2)
    check(
        m.graph(m(ReverseSequence(0, 1), x, m.at([3])), m(ReverseSequence(2, 1), x, m.at([2, 3])))
    )
    m = Made()
    check(m.graph(m(ReverseSequence(0, 1), m.x(1, 4, 2), m.x(1, dtype=DType.INT32))))
    m = Made()
    graph = m.graph(m(ReverseSequence(1, 0), m.x(1, 4), m.at([1] * 4)))
    refused(graph)


def test_quantization() -> None:
    m = Made()
    x = m.x(1, 4, 3)
    whole = m(QuantizeLinear(), x, m.at([0.1] * 4, np.float32))
    check(m.graph(m(DequantizeLinear(), whole, m.at(0.2, np.float32))))
    m = Made()
    graph = m.graph(m(QuantizeLinear(axis=0), m.x(2, 3), m.at([0.1, 0.2], np.float32)))
    refused(graph)
    m = Made()
    small = m.x(1, 4, dtype=DType.INT8)
    check(m.graph(m(MatMulInteger(), small, m.c(4, 3, dtype=DType.INT8))))
    m = Made()
    planes = m.x(1, 2, 4, dtype=DType.INT8)
    check(m.graph(m(ConvInteger((1,), (0, 0), (1,)), planes, m.c(3, 2, 2, dtype=DType.INT8))))
    m = Made()
    check(m.graph(m(IntegerProduct(), m.x(1, 4, dtype=DType.INT32), m.c(4, 3, dtype=DType.INT32))))
    m = Made()
    bits = m.x(1, 4, dtype=DType.INT32)
    check(m.graph(m(BitwiseAnd(), bits, m.at(6)), m(Cast(DType.FLOAT32), bits)))


def test_scales_of_columns_and_rows() -> None:
    """A float factor's scale is of each row of a, but of all columns of b together."""
    m = Made()
    graph = m.graph(m(QuantizedMatMul(transpose_b=True), m.c(3, 4), m.x(1, 4)))
    refused(graph, "scales")
    m = Made()
    a = m.x(2, 4, dtype=DType.INT8)
    graph = m.graph(m(QuantizedMatMul(), a, m.c(4, 3), m.at([0.5, 0.25], np.float32)))
    refused(graph, "scales")


def test_choices() -> None:
    m = Made()
    x = m.x(1, 4)
    positive = m(Less(), m.at(0, np.float32), x)
    check(m.graph(m(Where(), positive, x, m.c(4)), m(Where(), positive, m.c(1, 4), m.c(3, 1, 1))))


def test_what_all_share() -> None:
    """Outputs that no example decides come for each, and inputs that are outputs."""
    m = Made()
    x = m.x(1, 4)
    check(m.graph(x, m(Relu(), m.c(2, 3)), m.c(2)))


def test_what_is_never_stacked() -> None:
    """Draws, results of unknown size, operators without a rule, scalars, text."""
    m = Made()
    drawn = m(RandomUniform((1, 4)), m.at([0]))
    for graph, why in (
        (m.graph(m(Add(), m.x(1, 4), drawn)), "anything"),
        (one(Unique(), [4]), "size|apart"),
        (one(Fused(Relu(), (FusedStep(Relu()),)), [1, 4]), "nothing says"),
        (one(Relu(), []), "scalar"),
    ):
        with pytest.raises(NotIndependentError, match=why):
            stacked_graph(graph, COUNT)
    m = Made()
    text = m.builder.input("text", TensorType((1, 2), DType.STRING))
    refused(m.graph(text), "text")


def test_a_count_that_is_a_size() -> None:
    """As many examples as a constant has rows: they do not meet."""
    m = Made()
    graph = m.graph(m(Add(), m.x(1, 4), m.c(COUNT, 4)))
    refused(graph)
    m = Made()
    graph = m.graph(m(MatMul(), m.x(1, 2, 4), m.c(COUNT, 4, 3)))
    refused(graph)


def test_rules_are_of_known_operators() -> None:
    """An operator that inherits a rule is one that the rule was written for."""
    inherited = {
        cls.__name__ for cls in op_classes() if cls not in RULES and rule_of(cls.__new__(cls))
    }
    from vknn.ops.elementwise import Binary, Unary
    from vknn.ops.elementwise.logic import Comparison, Logic
    from vknn.ops.reduction import Cumulative, Reduction

    families = (Unary, Binary, Comparison, Logic, Reduction, Cumulative)
    known = {cls.__name__ for base in families for cls in op_classes(base)}
    assert inherited - known == {"ExactConv"}
