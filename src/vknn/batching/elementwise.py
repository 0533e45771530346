"""Rules of operators that compute each element by itself, inputs broadcast by NumPy's rules."""

from __future__ import annotations

from vknn.batching.case import Case, Ruling, rule
from vknn.ops.bits import BitShift, BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor
from vknn.ops.casting import BitCast, LowPrecisionCast
from vknn.ops.complex_parts import ComplexMagnitude, ComplexOf, ImaginaryPart, RealPart
from vknn.ops.elementwise import Binary, Cast, Unary
from vknn.ops.elementwise.logic import Comparison, Logic, Not, Where
from vknn.ops.indexing.gather import Bounded, SearchSorted
from vknn.ops.movement.shape import Identity
from vknn.ops.quantized.arithmetic import FloatRescale, QuantizedBinary, Rescale, TableLookup
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16


@rule(
    Unary, Binary, Comparison, Logic, Not, Where, Cast, Identity, BitwiseAnd, BitwiseOr, BitwiseXor,
    BitShift, BitwiseNot, BitCast, LowPrecisionCast, ComplexOf, RealPart, ImaginaryPart,
    ComplexMagnitude, Rescale, FloatRescale, QuantizedBinary, RoundBFloat16,
)  # fmt: skip
def _elementwise(case: Case) -> Ruling:
    """Examples lie along one axis of the result; what they share does not extend along it."""
    rank = case.results[0].rank
    places = {
        axis + rank - type_.rank
        for type_, axis in zip(case.types, case.axes, strict=True)
        if type_ is not None and axis is not None
    }
    if len(places) != 1:
        case.refuse("takes examples along different axes")
    place = places.pop()
    size = case.results[0].dims[place]
    for type_, axis in zip(case.types, case.axes, strict=True):
        if type_ is None:
            continue
        own = place - (rank - type_.rank)
        if own < 0:  # it is broadcast along this axis
            continue
        wanted = 1 if axis is None else size
        if type_.dims[own] != wanted:
            case.refuse(f"broadcasts {type_} along axis {own}, which holds examples")
    return Ruling(case.op, (place,) * len(case.results))


@rule(TableLookup)
def _looked_up(case: Case) -> Ruling:
    return Ruling(case.op, (case.only(),))


@rule(SearchSorted)
def _searched(case: Case) -> Ruling:
    return Ruling(case.op, (case.only(1),))


@rule(Bounded)
def _bounded(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, Bounded)
    each = isinstance(op.low, tuple) or isinstance(op.high, tuple)
    last = {case.rank() - 1} if each else set()
    return Ruling(op, (case.beside(case.only(), last),))


@rule(QuantizeLinear, DequantizeLinear)
def _quantized(case: Case) -> Ruling:
    """Scales and zero points are numbers of all elements, or vectors along an axis."""
    op = case.op
    assert isinstance(op, QuantizeLinear | DequantizeLinear)
    vectors = any(t is not None and t.size != 1 for t in case.types[1:])
    own = {op.axis % case.rank()} if vectors else set()
    return Ruling(op, (case.beside(case.only(), own),))
