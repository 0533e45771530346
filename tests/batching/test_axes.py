"""Axes of examples, followed through several operators and kinds of inputs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.batching.examples import COUNT, Made, check, one, refused

from vknn.batching import NotIndependentError, stacked_graph
from vknn.graph import DType, TensorType
from vknn.ops.bits import BitwiseAnd
from vknn.ops.convolution.conv import Conv, ConvInteger
from vknn.ops.elementwise import Add, Cast, Fused, FusedStep, Relu
from vknn.ops.elementwise.logic import Less, Where
from vknn.ops.indexing.gather import Bounded, Gather, GatherND, SearchSorted
from vknn.ops.indexing.nonzero import Unique
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.matmul import MatMul, MatMulInteger, QuantizedMatMul
from vknn.ops.movement.rearrange import (
    ReverseSequence,
)
from vknn.ops.movement.shape import (
    Reshape,
    Transpose,
)
from vknn.ops.normalization import (
    LayerNormalization,
)
from vknn.ops.quantized.codes import GatherCodes
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.random import RandomUniform
from vknn.ops.recurrent.rnn import GRU, LSTM
from vknn.ops.reduction import ReduceSum, Softmax


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
    table = m.at(np.arange(9).reshape(3, 3), np.uint8)
    check(m.graph(m(GatherCodes(5), table, m.x(1, 2, dtype=DType.INT32))))
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
        lambda m: m(GatherCodes(7), m.x(1, 4, dtype=DType.UINT8), m.at([0])),
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
