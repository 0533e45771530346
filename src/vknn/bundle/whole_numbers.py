"""Whole numbers of 64 bits in the middle of a graph, computed as int32 where they have to fit.

A device has no int64. That of an input is taken to hold numbers as small as those of words, places
and masks, MOST; from these bounds of all others are reckoned, and what may be beyond 32 bits stays
as it is. (Larger numbers are right as well, as long as 32 bits hold what is made of them.)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Graph, Node, Op, TensorType, Value
from vknn.ops.elementwise.activation import Clip, Relu
from vknn.ops.elementwise.binary import Add, Cast, FloorDiv, Max, Min, Mod, Mul, Sub
from vknn.ops.elementwise.logic import Comparison, Where
from vknn.ops.elementwise.unary import Abs, Neg, Sign
from vknn.ops.indexing.gather import Bounded, Gather, GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.ops.movement.rearrange import DepthToSpace, ReverseSequence, SpaceToDepth, Tile
from vknn.ops.movement.shape import Concat, Expand, Identity, Pad, Reshape, Slice, Transpose
from vknn.ops.reduction import CumSum, ReduceMax, ReduceMin, ReduceSum, normal_axes

#: Types that become int32; all numbers of uint16 fit, and those without sign may well be beyond it.
_WIDE = frozenset((DType.INT64, DType.UINT16))
#: Least and greatest number of a tensor.
Bounds = tuple[int, int]
_INT32: Bounds = (-(2**31), 2**31 - 1)
#: Numbers of inputs of wide types are taken to be below this, and not below its negative:
#: vocabularies have no more words, and sums of 8192 of them are held by an int32.
MOST = 1 << 18
_MOVES = (Identity, Reshape, Transpose, Slice, Expand, Tile, DepthToSpace, SpaceToDepth)
_GREATEST = (*_MOVES, Concat, ReduceMax, ReduceMin, Gather, GatherND, ReverseSequence)


def with_int32(graph: Graph) -> Graph:
    """The graph with whole numbers as int32 where these hold them, if its inputs' do.

    Checks of indices that cannot fail are left out. The given graph is left as it is. A warning
    says where inputs have to be below MOST for it.
    """
    if graph.continuation is not None:
        return graph
    bounds = bounds_of(graph)
    narrow = _kept(graph, bounds)
    if not narrow <= _kept(graph, bounds_of(graph, 1 << 31)):
        names = ", ".join(repr(v.name) for v in graph.inputs if v.type.dtype is DType.INT64)
        warnings.warn(
            f"int64 inputs ({names}) are taken to hold numbers from {-MOST:,} to {MOST - 1:,}: "
            "what is computed of larger ones may leave the 32 bits that a device has",
            RuntimeWarning,
            stacklevel=2,
        )
    return _rewritten(graph, bounds, narrow)


def bounds_of(graph: Graph, most: int = MOST) -> dict[Value, Bounds]:
    """Bounds of the values whose numbers are known to lie within their types', and 32 bits.

    Those of int64 inputs are taken to be below ``most``, and not below its negative.
    """
    read = dict.fromkeys(v for node in graph.nodes for v in _values_of(node.inputs))
    found: dict[Value, Bounds] = {}

    def note(value: Value, own: Bounds | None) -> None:
        most = _of_type(value.type.dtype)
        if own is not None and most is not None and _within(own, most):
            found[value] = own

    inputs: Bounds = (-most, most - 1)
    for value in graph.inputs:
        is_int64 = value.type.dtype is DType.INT64
        note(value, inputs if is_int64 else _of_type(value.type.dtype))
    for value in read:
        if value.constant is not None:
            note(value, _of_constant(value.constant))
    for node in graph.nodes:
        known = [None if value is None else found.get(value) for value in node.inputs]
        for value, own in zip(node.outputs, _made(node, known), strict=True):
            note(value, own)
    return found


def _of_type(dtype: DType) -> Bounds | None:
    """Bounds of a type's whole numbers that an int32 holds; None where it has others."""
    if dtype is DType.BOOL:
        return 0, 1
    if not dtype.is_integer or not (dtype.on_device or dtype in _WIDE):
        return None
    info = np.iinfo(dtype.numpy)
    return max(int(info.min), _INT32[0]), min(int(info.max), _INT32[1])


def _of_constant(array: np.ndarray) -> Bounds | None:
    """Bounds of a constant's whole numbers."""
    if array.dtype.kind not in "iub":
        return None
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def _within(inner: Bounds, outer: Bounds) -> bool:
    return outer[0] <= inner[0] <= inner[1] <= outer[1]


def _made(node: Node, given: Sequence[Bounds | None]) -> Sequence[Bounds | None]:
    """Bounds of what a node makes of numbers within these; None where they are not known."""
    op = node.op
    if isinstance(op, TopK | ArgMax | ArgMin):
        (type_,) = (t for t in node.input_types if t is not None)
        size = type_.shape[op.axis]
        index = None if not size else (0, size - 1)
        return (given[0], index) if isinstance(op, TopK) else (index,)
    if isinstance(op, Comparison):
        return ((0, 1),)
    numbers = [b for b in _numbers(op, given) if b is not None]
    rule = next((rule for kinds, rule in _RULES if isinstance(op, kinds)), None)
    if rule is not None and len(numbers) == len(_numbers(op, given)):
        return (rule(node, numbers), *(None for _ in node.outputs[1:]))
    whole = [v.type.dtype for v in node.outputs]
    return [None if t in _WIDE else _of_type(t) for t in whole]


def _numbers(op: Op, given: Sequence[Bounds | None]) -> list[Bounds | None]:
    """The bounds that count among a node's inputs: not those of indices and conditions."""
    if isinstance(op, Gather | GatherND | ReverseSequence):
        return [given[0]]
    if isinstance(op, Where):
        return list(given[1:])
    return [given[0], given[2]] if isinstance(op, ScatterND) else list(given)


def _hull(node: Node, given: Sequence[Bounds]) -> Bounds | None:
    """Of numbers that are there already, and of zeros that are put beside them."""
    op, more = node.op, []
    if isinstance(op, ScatterND) and op.reduction in ("add", "mul"):
        return None
    if isinstance(op, Gather) and op.outside == "zero":
        more = [(0, 0)]
    if isinstance(op, Pad):
        more = [(math.floor(op.value), math.ceil(op.value))]
    lows, highs = zip(*given, *more, strict=True)
    return min(lows), max(highs)


def _cast(node: Node, given: Sequence[Bounds]) -> Bounds | None:
    """Of a cast: the same, where the type has them; bool is 0 or 1."""
    assert isinstance(node.op, Cast)
    own = _of_type(node.op.to)
    if own is None or _within(given[0], own):
        return given[0]
    return own if node.op.to is DType.BOOL else None


def _corners(function: Callable[[int, int], int]) -> Callable[[Node, Sequence[Bounds]], Bounds]:
    """The rule of a function of two numbers that is monotonic in each."""

    def rule(node: Node, given: Sequence[Bounds]) -> Bounds:
        found = [function(a, b) for a, b in product(*given)]
        return min(found), max(found)

    return rule


def _sum(node: Node, given: Sequence[Bounds]) -> Bounds | None:
    """Of sums of as many numbers as an axis has, or several: of some of them, too."""
    (type_,) = (t for t in node.input_types if t is not None)
    op = node.op
    axes = normal_axes(op, op.axes, type_.rank) if isinstance(op, ReduceSum) else (op.axis,)  # type: ignore[attr-defined]
    sizes = [type_.shape[axis] for axis in axes]
    if None in sizes:
        return None
    count = math.prod(size for size in sizes if size is not None)
    return min(0, count * given[0][0]), max(0, count * given[0][1])


def _quotient(node: Node, given: Sequence[Bounds]) -> Bounds | None:
    """Of quotients and rests by numbers above 0."""
    (low, high), (least, most) = given
    if least <= 0:
        return None
    return (0, most - 1) if isinstance(node.op, Mod) else (min(low, 0), max(high, 0))


def _clipped(node: Node, given: Sequence[Bounds]) -> Bounds | None:
    """Of numbers that are held between two whole ones, if these are no more than a float32 has."""
    op = node.op
    low, high = (op.min, op.max) if isinstance(op, Clip) else (0.0, math.inf)
    if not all(
        abs(end) == math.inf or (end.is_integer() and abs(end) < 1 << 24) for end in (low, high)
    ):
        return None
    least, most = (int(min(max(end, low), high)) for end in given[0])
    return least, most


def _magnitude(node: Node, given: Sequence[Bounds]) -> Bounds:
    low, high = given[0]
    if isinstance(node.op, Neg):
        return -high, -low
    return (-1, 1) if isinstance(node.op, Sign) else (0, max(abs(low), abs(high)))


_RULES: tuple[
    tuple[tuple[type[Op], ...], Callable[[Node, Sequence[Bounds]], Bounds | None]], ...
] = (
    ((*_GREATEST, Where, ScatterND, Pad, Bounded), _hull),
    ((Cast,), _cast),
    ((Add,), _corners(lambda a, b: a + b)),
    ((Sub,), _corners(lambda a, b: a - b)),
    ((Mul,), _corners(lambda a, b: a * b)),
    ((Max,), _corners(max)),
    ((Min,), _corners(min)),
    ((ReduceSum, CumSum), _sum),
    ((FloorDiv, Mod), _quotient),
    ((Abs, Neg, Sign), _magnitude),
    ((Clip, Relu), _clipped),
)
_KNOWN: tuple[type, ...] = (
    *(kind for kinds, _ in _RULES for kind in kinds),
    Comparison,
    TopK,
    ArgMax,
    ArgMin,
)


def _kept(graph: Graph, bounds: Mapping[Value, Bounds]) -> set[Value]:
    """The wide values that become int32, constants among them: of a node that is no cast all or
    none."""
    narrow = {value for value in bounds if value.type.dtype in _WIDE}
    changed = True
    while changed:
        changed = False
        for node in (*graph.nodes, *reversed(graph.nodes)):  # so that a chain goes at once
            wide = {v for v in _values_of((*node.inputs, *node.outputs)) if v.type.dtype in _WIDE}
            open_ = {v for v in wide & narrow if v.constant is None}
            if open_ and not (wide <= narrow and _takes_int32(node, bounds, narrow)):
                narrow -= open_
                changed = True
    return narrow if any(value.constant is None for value in narrow) else set()


def _values_of(values: Iterable[Value | None]) -> list[Value]:
    return [value for value in values if value is not None]


def _takes_int32(node: Node, bounds: Mapping[Value, Bounds], narrow: Container[Value]) -> bool:
    """Whether a node's results are known, and those of int32 are int32."""
    if isinstance(node.op, Cast):
        return True
    if isinstance(node.op, Bounded):
        return _is_idle(node, bounds)
    if not isinstance(node.op, _KNOWN):
        return False
    try:
        made = node.op.infer(*(None if v is None else _type(v, narrow) for v in node.inputs))
    except ShapeError:
        return False
    return all(a == _type(v, narrow) for a, v in zip(made, node.outputs, strict=True))


def _is_idle(node: Node, bounds: Mapping[Value, Bounds]) -> bool:
    """Whether a check cannot fail."""
    assert isinstance(node.op, Bounded)
    low, high = np.max(node.op.low), np.min(node.op.high)
    (value,) = _values_of(node.inputs)
    return value in bounds and _within(bounds[value], (int(low), int(high)))


def _type(value: Value, narrow: Container[Value]) -> TensorType:
    return TensorType(value.type.shape, DType.INT32) if value in narrow else value.type


def _rewritten(graph: Graph, bounds: Mapping[Value, Bounds], narrow: set[Value]) -> Graph:
    """The graph with these values as int32."""
    made: dict[Value, Value] = {}
    same: dict[Value, Value] = {}

    def now(value: Value) -> Value:
        if value not in narrow:
            return value
        if value not in made:
            constant = value.constant
            made[value] = Value(
                value.name,
                _type(value, narrow),
                None if constant is None else constant.astype("i4"),
            )
        return made[value]

    nodes = []
    for node in graph.nodes:
        if isinstance(node.op, Bounded) and _is_idle(node, bounds):
            same[now(node.outputs[0])] = now(_values_of(node.inputs)[0])
            continue
        if any(
            v in narrow and v.constant is None for v in _values_of((*node.inputs, *node.outputs))
        ):
            op = node.op
            inputs = tuple(None if v is None else now(v) for v in node.inputs)
            outputs = tuple(now(v) for v in node.outputs)
            if isinstance(op, Cast) and outputs[0] is not node.outputs[0]:
                op = replace(op, to=DType.INT32)
            node = Node(op, inputs, outputs, node.name, node.origin)
        nodes.append(node)
    if not same and not narrow:
        return graph
    results = {name: now(value) for name, value in graph.outputs.items()}
    renewed = Graph([now(v) for v in graph.inputs], results, nodes, graph.name, None, graph.blobs)
    return renewed.replace(nodes, same) if same else renewed
