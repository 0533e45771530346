"""Rules of operators that move elements."""

from __future__ import annotations

import math

from vknn.batching.case import Case, Ruling, normal, rule, shared
from vknn.ops.indexing.gather import Gather, GatherND
from vknn.ops.movement.rearrange import ReverseSequence, SliceUpdate, Tile
from vknn.ops.movement.shape import Concat, Expand, Identity, Pad, Reshape, Slice, Transpose
from vknn.ops.quantized.codes import GatherCodes


@rule(Reshape)
def _reshape(case: Case) -> Ruling:
    """Examples stay together where as many elements lie before their axis as before.

    In row-major order the value is [elements before the axis, examples, elements of the rest].
    """
    axis, dims, made = case.only(), case.type(0).dims, case.results[0].dims
    before = math.prod(dims[:axis])
    places = (p for p in range(len(made)) if math.prod(made[:p]) == before)
    place = next(places, None)
    if place is None:
        case.refuse(f"from {list(dims)} to {list(made)} mixes axis {axis}, which holds examples")
    shape = (*made[:place], made[place] * case.count, *made[place + 1 :])
    return Ruling(Reshape(shape), (place,))


@rule(Transpose)
def _transpose(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, Transpose)
    return Ruling(op, (op.perm.index(case.only()),))


@rule(Slice)
def _slice(case: Case) -> Ruling:
    """Examples are not cut; a slice that is all of their axis takes all of them, too."""
    op, axis = case.op, case.only()
    assert isinstance(op, Slice)
    parts = op.ranges(case.rank())
    if axis in parts:
        size = case.type(0).dims[axis]
        if parts[axis].indices(size) != (0, size, 1):
            case.refuse(f"cuts axis {axis}, which holds examples")
        del parts[axis]
    if not parts:
        return Ruling(Identity(), (axis,))
    starts, ends = (tuple(getattr(p, end) for p in parts.values()) for end in ("start", "stop"))
    steps = tuple(part.step for part in parts.values())
    return Ruling(Slice(starts, ends, tuple(parts), steps), (axis,))


@rule(Pad)
def _pad(case: Case) -> Ruling:
    op, axis, rank = case.op, case.only(), case.rank()
    assert isinstance(op, Pad)
    vectors = len(case.types) > 1 and case.types[1] is not None
    if op.pads[axis] or op.pads[axis + rank] or (vectors and axis == 1):
        case.refuse(f"pads axis {axis}, which holds examples")
    return Ruling(op, (axis,))


@rule(Concat)
def _concat(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, Concat)
    axis = next(a for a in case.axes if a is not None)
    case.beside(axis, {normal(op.axis, case.rank())})
    return shared(case, axis, range(len(case.types)), (axis,))


@rule(Expand)
def _expand(case: Case) -> Ruling:
    op, axis = case.op, case.only()
    assert isinstance(op, Expand)
    made = case.results[0]
    place = axis + made.rank - case.rank()
    if made.dims[place] != case.type(0).dims[axis]:
        case.refuse(f"broadcasts axis {axis}, which holds examples")
    shape, own = list(op.shape), place - (made.rank - len(op.shape))
    if own >= 0:
        shape[own] = made.dims[place] * case.count
    return Ruling(Expand(tuple(shape)), (place,))


@rule(Tile)
def _tile(case: Case) -> Ruling:
    op, axis = case.op, case.only()
    assert isinstance(op, Tile)
    if op.repeats[axis] != 1:
        case.refuse(f"repeats axis {axis}, which holds examples")
    return Ruling(op, (axis,))


@rule(SliceUpdate)
def _slice_update(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, SliceUpdate)
    axis = next(a for a in case.axes if a is not None)
    if op.starts[axis] or case.type(0).dims[axis] != case.type(1).dims[axis]:
        case.refuse(f"cuts axis {axis}, which holds examples")
    return shared(case, axis, (0, 1), (axis,))


@rule(ReverseSequence)
def _reverse_sequence(case: Case) -> Ruling:
    op, rank = case.op, case.rank()
    assert isinstance(op, ReverseSequence)
    batch, time = normal(op.batch_axis, rank), normal(op.time_axis, rank)
    x, lengths = case.axes
    if lengths is None and x is not None and x not in (batch, time):
        return Ruling(op, (x,))
    if x not in (None, batch) or lengths not in (None, 0):
        case.refuse(f"moves elements along axis {time}")
    spread = {i: a for i, a in ((0, batch), (1, 0)) if case.axes[i] is None}
    return Ruling(op, (batch,), spread)


@rule(Gather)
def _gather(case: Case) -> Ruling:
    """Entries that examples share, each example's own; or of each example those that all take."""
    op, rank = case.op, case.rank()
    assert isinstance(op, Gather)
    along = normal(op.axis, rank)
    if case.axes[0] is None:
        return Ruling(op, (along + case.only(1),))
    axis = case.beside(case.only(), {along})
    return Ruling(op, (axis if axis < along else axis - 1 + case.rank(1),))


@rule(GatherCodes)
def _gather_codes(case: Case) -> Ruling:
    """Rows of a table that examples share."""
    return Ruling(case.op, (case.only(1),))


@rule(GatherND)
def _gather_nd(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, GatherND)
    x, indices = case.axes
    axis = x if x is not None else indices
    if axis is not None and axis < op.batch_dims:
        return shared(case, axis, (0, 1), (axis,))
    if x is not None:
        case.refuse(f"looks along axis {x}, which holds examples")
    return Ruling(op, (case.beside(case.only(1), {case.rank(1) - 1}),))
