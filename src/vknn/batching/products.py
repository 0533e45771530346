"""Rules of convolutions and matrix products."""

from __future__ import annotations

from vknn.batching.case import Case, Ruling, rule, shared
from vknn.graph import DType
from vknn.ops.convolution.conv import Conv, ConvInteger
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.matmul import MatMul, MatMulInteger, QuantizedMatMul
from vknn.ops.quantized.blocks import MatMulNBits
from vknn.ops.quantized.convolution import QuantizedConv, QuantizedConvTranspose
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.ops.sampling.grid_sample import GridSample


@rule(Conv, ConvInteger, ConvTranspose, QuantizedConv, QuantizedConvTranspose)
def _convolution(case: Case) -> Ruling:
    """Weights are of all examples: x [N, C, ...] has them along its first axis."""
    return Ruling(case.op, (case.beside(case.only(), range(1, case.rank())),))


@rule(DeformConv)
def _deformed(case: Case) -> Ruling:
    return shared(case, 0, (0, 2, 4), (0,))


@rule(GridSample)
def _sampled(case: Case) -> Ruling:
    return shared(case, 0, (0, 1), (0,))


@rule(MatMulNBits)
def _rows_by_blocks(case: Case) -> Ruling:
    return Ruling(case.op, (case.beside(case.only(), {case.rank() - 1}),))


@rule(MatMul, QuantizedGemm)
def _product(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, MatMul | QuantizedGemm)
    place = _place(case, op.transpose_a, op.transpose_b)
    if place == case.results[0].rank - 1 and any(t is not None for t in case.types[2:]):
        case.refuse("has numbers for each column, and columns hold examples")
    return Ruling(op, (place,))


@rule(MatMulInteger, IntegerProduct)
def _integer_product(case: Case) -> Ruling:
    return Ruling(case.op, (_place(case, False, getattr(case.op, "transpose_b", False)),))


@rule(QuantizedMatMul)
def _scaled_product(case: Case) -> Ruling:
    """Scales are of each row of a, and of each matrix of b or given."""
    op, rank = case.op, case.results[0].rank
    assert isinstance(op, QuantizedMatMul)
    place = _place(case, op.transpose_a, op.transpose_b)
    own = case.type(0).dtype is not DType.INT8
    one = len(case.types) > 2 and case.types[2] is not None and case.types[2].size == 1
    if place == rank - 1 or (place == rank - 2 and not (own or one)):
        case.refuse("has scales along the axis that holds examples")
    return Ruling(op, (place,))


def _place(case: Case, transpose_a: bool, transpose_b: bool) -> int:
    """Axis of the result that holds the examples of a product a @ b."""
    rank = case.results[0].rank
    if any(axis is not None for axis in case.axes[2:]):
        case.refuse("takes biases or scales from examples")
    # Of each factor: the axis that stays (rows of a, columns of b), and which of the result it is.
    stays = (
        (case.rank(0) - (1 if transpose_a else 2), rank - 2),
        (case.rank(1) - (2 if transpose_b else 1), rank - 1),
    )
    places = set()
    for number, (own, made) in enumerate(stays):
        axis = case.axes[number]
        if axis is None:
            continue
        if axis < case.rank(number) - 2:
            places.add(axis + rank - case.rank(number))
        elif axis == own:
            places.add(made)
        else:
            case.refuse("adds up along the axis that holds examples")
    if len(places) != 1:
        case.refuse("multiplies examples with one another")
    place = places.pop()
    if place < rank - 2:
        _check_broadcast(case, place)
    return place


def _check_broadcast(case: Case, place: int) -> None:
    """Raises unless matrices that examples share are not counted along their axis."""
    rank, size = case.results[0].rank, case.results[0].dims[place]
    for number in (0, 1):
        own = place - (rank - case.rank(number))
        wanted = 1 if case.axes[number] is None else size
        if own >= 0 and case.type(number).dims[own] != wanted:
            case.refuse(f"broadcasts {case.type(number)} along axis {own}, which holds examples")
