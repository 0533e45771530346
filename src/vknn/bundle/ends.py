"""Ends of a graph in types that no device buffer holds: int64 and its kin, which ports convert.

A graph that ends in a cast to int64, or begins with one from it, would take a step on the host for
nothing but that: the cast goes, the port has the user's type. So would the check of an input's
indices, which no device can do.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from vknn.bundle.conversions import Kind, can_convert
from vknn.bundle.whole_numbers import with_int32
from vknn.graph import DType, Graph, Node, TensorType, Value
from vknn.ops.elementwise.binary import Add, Cast, Max, Min, Mod, Mul, Sub
from vknn.ops.elementwise.logic import Comparison, Where
from vknn.ops.indexing.gather import Bounded, Gather, GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.movement.rearrange import ReverseSequence
from vknn.ops.movement.shape import Concat, Expand, Identity, Reshape, Transpose
from vknn.ops.pooling.roi_pooling import MaxRoiPool, RoiAlign
from vknn.ops.quantized.codes import GatherCodes

#: Types of ports that a device's buffers have no elements of, and that ports convert from.
_WIDE = frozenset((DType.INT64, DType.UINT64, DType.UINT32, DType.UINT16))
#: What moves elements, whatever their type.
_MOVES = (Identity, Reshape, Transpose)
#: What stays within its tensors where an index or length of the second input is out of range.
_GATHERS = (Gather, GatherND, GatherCodes, ScatterND, ReverseSequence, RoiAlign, MaxRoiPool)
#: How places are reckoned from indices: some count from the end, some along several axes.
_RECKONED = (Cast, Add, Sub, Mul, Mod, Where, Max, Min, Concat, Expand, *_MOVES)


def narrowed(graph: Graph) -> Graph:
    """The graph without casts at its inputs and outputs that ports do in their place.

    An output made by a cast to int64, uint64, uint32, uint16 or float64, or by reshapes and
    transposes of one, is computed in the type before that. An input of these types (but float64)
    that nothing but casts read, behind moves of its elements or not, is a float32 where all of them
    make that or float16, else an int32: of a number beyond that its low 32 bits are taken. A uint32
    that casts make integers and floats of stays as it is. Indices are not checked: of one
    that is out of range a gather takes another entry, mostly the nearest one, and a scatter another
    or none. Whole numbers in between are int32 where these hold them (``whole_numbers``). The given
    graph is left as it is.
    """
    if graph.continuation is not None:
        return graph
    return with_int32(_narrow_inputs(_unchecked(_narrow_outputs(graph))))


def _unchecked(graph: Graph) -> Graph:
    """The graph without checks of indices that gathers and scatters alone read: these stay within
    the tensor."""
    readers = graph.consumers()
    results = set(graph.outputs.values())
    #: Whether a value is nothing but indices, what is reckoned from these, or compared.
    known: dict[Value, bool] = {}

    def reads_index(node: Node, value: Value) -> bool:
        if isinstance(node.op, _RECKONED):
            return known[node.outputs[0]]
        is_second = isinstance(node.op, _GATHERS) and value is node.inputs[1]
        return is_second or isinstance(node.op, Comparison)

    for node in reversed(graph.nodes):  # readers first
        for value in node.outputs:
            own = readers.get(value, [])
            known[value] = value not in results and all(reads_index(n, value) for n in own)

    same = {
        node.outputs[0]: node.inputs[0]
        for node in graph.nodes
        if isinstance(node.op, Bounded) and node.inputs[0] and known[node.outputs[0]]
    }
    nodes = [node for node in graph.nodes if node.outputs[0] not in same]
    return graph.replace(nodes, same) if same else graph


def _narrow_outputs(graph: Graph) -> Graph:
    makers = graph.producers()
    added: list[Node] = []
    outputs = {}
    for name, value in graph.outputs.items():
        found = _before_cast(value, makers, added)
        outputs[name] = value if found is None else found
    if all(outputs[name] is value for name, value in graph.outputs.items()):
        return graph
    nodes = needed([*graph.nodes, *added], set(outputs.values()))
    return Graph(graph.inputs, outputs, nodes, graph.name, None, graph.blobs)


def _before_cast(value: Value, makers: dict[Value, Node], added: list[Node]) -> Value | None:
    """The value as it is before the last cast to a type that no device has; None: as it is."""
    node = makers.get(value)
    if node is None or value.type.dtype.on_device:
        return None
    source = node.inputs[0]
    assert source is not None
    if isinstance(node.op, Cast):
        own = source.type.dtype
        fits = own.on_device and value.type.dtype.value.upper() in Kind.__members__
        return source if fits and can_convert(_kind(own), _kind(value.type.dtype)) else None
    if not isinstance(node.op, _MOVES):
        return None
    inner = _before_cast(source, makers, added)
    if inner is None:
        return None
    (type_,) = node.op.infer(inner.type)
    made = Value(value.name, type_)
    added.append(Node(node.op, (inner,), (made,), node.name, node.origin))
    return made


def _kind(dtype: DType) -> Kind:
    """The kind of an element as a port has it."""
    return Kind[dtype.value.upper()]


def needed(nodes: list[Node], wanted: set[Value]) -> list[Node]:
    """The nodes of whose outputs any is wanted, directly or by others; in order."""
    known = set(wanted)
    kept = []
    for node in reversed(nodes):
        if not known.isdisjoint(node.outputs):
            kept.append(node)
            known.update(v for v in node.inputs if v is not None)
    return kept[::-1]


def _narrow_inputs(graph: Graph) -> Graph:
    readers = graph.consumers()
    results = set(graph.outputs.values())
    mapping: dict[Value, Value] = {}
    inputs = []
    for value in graph.inputs:
        casts = _casts(value, readers, results) if value.type.dtype in _WIDE else None
        inner = None if casts is None else _inner(value.type.dtype, casts)
        if inner is None:
            inputs.append(value)
            continue
        mapping[value] = Value(value.name, TensorType(value.type.shape, inner))
        inputs.append(mapping[value])
    if not mapping:
        return graph
    nodes, same = [], dict[Value, Value]()
    narrow = set(mapping.values())
    for node in graph.nodes:
        given = tuple(mapping.get(v, v) if v is not None else None for v in node.inputs)
        first, outputs = given[0] if given else None, node.outputs
        if first in narrow and isinstance(node.op, _MOVES):
            assert first is not None
            (type_,) = node.op.infer(first.type)
            outputs = (Value(outputs[0].name, type_),)
            mapping[node.outputs[0]] = outputs[0]
            narrow.add(outputs[0])
        elif first in narrow and _is_idle(node, first) and outputs[0] not in results:
            assert first is not None
            same[outputs[0]] = first
            continue
        nodes.append(Node(node.op, given, outputs, node.name, node.origin))
    made = Graph(inputs, graph.outputs, nodes, graph.name, None, graph.blobs)
    return made.replace(made.nodes, same) if same else made


def _is_idle(node: Node, value: Value | None) -> bool:
    """Whether a node casts a value to the type that it has."""
    return isinstance(node.op, Cast) and value is not None and node.op.to is value.type.dtype


def _casts(
    value: Value, readers: Mapping[Value, Sequence[Node]], results: Container[Value]
) -> set[DType] | None:
    """Types that casts make of a value, moved or not; None where it is read otherwise."""
    made, values = set[DType](), [value]
    for moved in values:
        if moved in results:
            return None
        for node in readers.get(moved, []):
            if isinstance(node.op, Cast):
                made.add(node.op.to)
            elif isinstance(node.op, _MOVES):
                values.append(node.outputs[0])
            else:
                return None
    return made


def _inner(dtype: DType, made: set[DType]) -> DType | None:
    """The type in which a device takes an input of which casts make these; None: it stays."""
    if made and made <= {DType.FLOAT32, DType.FLOAT16}:  # no float16 holds what a float32 rounds
        return DType.FLOAT32
    # All of its bits count where a cast asks whether it is 0; those of a uint32 that a float holds.
    if DType.BOOL in made or (dtype is DType.UINT32 and any(to.is_float for to in made)):
        return None
    return DType.INT32 if all(to.on_device for to in made) else None
