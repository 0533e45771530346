"""Rules of operators: examples of a stacked graph are those computed alone, or it is refused."""

from __future__ import annotations

import pytest
from tests.batching.examples import check, one, refused

from vknn.batching.case import RULES, rule_of
from vknn.graph import op_classes
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.ops.elementwise import Add, Mul, PRelu, Relu
from vknn.ops.elementwise.glu import Glu
from vknn.ops.elementwise.logic import Less
from vknn.ops.fourier import DFT
from vknn.ops.indexing.topk import ArgMax, TopK
from vknn.ops.linear_algebra import Det, Inverse
from vknn.ops.matmul import MatMul, QuantizedMatMul, RoundBlocks
from vknn.ops.movement.rearrange import (
    DepthToSpace,
    MatrixDiag,
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
from vknn.ops.recurrent.rnn import LSTM, RNN
from vknn.ops.reduction import CumSum, LogSoftmax, ReduceMax, ReduceMean, ReduceSum, Softmax
from vknn.ops.sampling.grid_sample import GridSample
from vknn.ops.sampling.resize import Resize

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
