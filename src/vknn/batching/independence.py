"""Independence: the graph of several examples, made of the graph of one, where none mix.

A value of the new graph is either the same for all examples (constants, and what is made of them),
or the values of the examples, one behind the other along an axis. Each operator has a rule
(:data:`vknn.batching.case.RULES`) that says along which axis its results hold examples, given those
of its inputs, or refuses. The types that follow are checked against the one graph's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.batching import along, elementwise, movement, products, sequences
from vknn.batching.case import Case, NotIndependentError, Ruling, rule_of
from vknn.errors import ShapeError
from vknn.graph import DType, Graph, GraphBuilder, Node, TensorType, Value
from vknn.ops.custom import Custom
from vknn.ops.generator.numbers import GeneratorCategorical, GeneratorNormal, GeneratorUniform
from vknn.ops.movement.rearrange import Tile
from vknn.ops.movement.shape import Expand, Reshape, Transpose
from vknn.ops.random import RandomBernoulli, RandomCategorical, RandomNormal, RandomUniform

#: Where rules stand; importing them fills the table.
FAMILIES = (elementwise, along, movement, products, sequences)
#: Axes of inputs that are tried. 1: the first may count steps of a sequence; -1: pictures of
#: [height, width, channels] become planes of channels, examples among them.
STARTS = (0, 1, -1)
#: What users wrote, and draws: a draw for all examples would not be one for each.
_ANYTHING = (
    Custom, RandomUniform, RandomNormal, RandomBernoulli, RandomCategorical, GeneratorUniform,
    GeneratorNormal, GeneratorCategorical,
)  # fmt: skip


def stacked_graph(graph: Graph, count: int, starts: Sequence[int] = STARTS) -> Graph:
    """The graph that computes ``count`` examples of ``graph``, each as if it were alone.

    Its inputs and outputs have the names and element types of those of ``graph``, and an axis in
    front that counts examples. ``graph`` is one as formats build them, before any pass. ``starts``:
    axes of the inputs along which examples may go through it; the first that does is taken.

    Raises NotIndependentError where nothing proves that examples do not mix.
    """
    if graph.continuation is not None:
        raise NotIndependentError("data decide how the model goes on")
    errors = []
    for start in starts:
        try:
            return _Stacking(graph, count, start).made()
        except NotIndependentError as error:
            errors.append(error)
    raise errors[0]


def stacked_type(type_: TensorType, axis: int | None, count: int) -> TensorType:
    """Type of ``count`` values behind one another along an axis; None: of one for all."""
    if axis is None:
        return type_
    dims = type_.dims
    return type_.with_shape((*dims[:axis], dims[axis] * count, *dims[axis + 1 :]))


class _Stacking:
    def __init__(self, graph: Graph, count: int, start: int) -> None:
        self._graph, self._count, self._start = graph, count, start
        self._builder = GraphBuilder(graph.name)
        #: Value of the one graph -> that of the new one, and its axis of examples.
        self._known: dict[Value, tuple[Value, int | None]] = {}

    def made(self) -> Graph:
        for value in self._graph.inputs:
            self._known[value] = self._input(value)
        for node in self._graph.nodes:
            self._add(node)
        return self._builder.finish(
            {name: self._output(value) for name, value in self._graph.outputs.items()}
        )

    def _input(self, value: Value) -> tuple[Value, int | None]:
        """The graph's input [examples, ...], with the examples along one of its own axes."""
        _check(value.type, f"input {value.name!r}")
        dims, axis = value.type.dims, self._start
        if not dims:
            raise NotIndependentError(f"input {value.name!r} is a scalar")
        axis = axis % len(dims) if -len(dims) <= axis < len(dims) else 0
        made = self._builder.input(value.name, value.type.with_shape((self._count, *dims)))
        shape = stacked_type(value.type, axis, self._count).dims
        before, add = math.prod(dims[:axis]), self._builder.add
        if before != 1:
            apart = add(Reshape((self._count, before, value.type.size // before)), made)
            made = add(Transpose((1, 0, 2)), apart, name=value.name)
        return add(Reshape(shape), made, name=value.name), axis

    def _add(self, node: Node) -> None:
        op = node.op
        if not op.deterministic or isinstance(op, _ANYTHING):
            raise NotIndependentError(f"{op.type_name} may give anything")
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                _check(value.type, f"{op.type_name} {node.name!r}")
        found = [None if v is None else self._of(v) for v in node.inputs]
        inputs = [None if f is None else f[0] for f in found]
        axes = tuple(None if f is None else f[1] for f in found)
        made: Sequence[int | None] = [None] * len(node.outputs)
        if any(axis is not None for axis in axes):
            ruling = self._ruling(node, axes)
            op, made = ruling.op, ruling.axes
            for number, along_axis in ruling.spread.items():
                inputs[number] = self._spread(inputs[number], along_axis)
        try:
            names = tuple(v.name for v in node.outputs)
            outputs = self._builder.add_many(
                op, *inputs, origin=node.origin, name=node.name, names=names
            )
        except ShapeError as error:
            raise NotIndependentError(str(error)) from None
        for value, result, axis in zip(node.outputs, outputs, made, strict=True):
            if result.type != stacked_type(value.type, axis, self._count):
                raise NotIndependentError(
                    f"{op.type_name} {node.name!r} gives {result.type} for {self._count} of "
                    f"{value.type}"
                )
            self._known[value] = (result, axis)

    def _ruling(self, node: Node, axes: tuple[int | None, ...]) -> Ruling:
        rule = rule_of(node.op)
        if rule is None:
            raise NotIndependentError(f"nothing says that {node.op.type_name} keeps examples apart")
        case = Case(node.op, node.input_types, axes, node.output_types, self._count)
        try:
            return rule(case)
        except NotIndependentError as error:
            raise NotIndependentError(f"{node.origin}: {error}") from None

    def _of(self, value: Value) -> tuple[Value, int | None]:
        """The value of the new graph, and its axis of examples."""
        if value not in self._known:
            if value.constant is None:
                raise NotIndependentError(f"nothing makes {value.name!r}")
            own = self._builder.constant(value.constant, value.name, value.quantization)
            self._known[value] = (own, None)
        return self._known[value]

    def _spread(self, value: Value | None, axis: int) -> Value:
        """A value that examples share, once for each of them."""
        assert value is not None
        repeats = [1] * value.type.rank
        repeats[axis] = self._count
        return self._builder.add(Tile(tuple(repeats)), value, name=f"{value.name}:each")

    def _output(self, value: Value) -> Value:
        """An output as [examples, ...]."""
        _check(value.type, f"output {value.name!r}")
        made, axis = self._of(value)
        dims, add = value.type.dims, self._builder.add
        if axis is None:
            one = add(Reshape((1, *dims)), made, name=value.name)
            return add(Expand((self._count, *dims)), one, name=value.name)
        before, rest = math.prod(dims[:axis]), math.prod(dims[axis:])
        if before != 1:
            apart = add(Reshape((before, self._count, rest)), made, name=value.name)
            made = add(Transpose((1, 0, 2)), apart, name=value.name)
        return add(Reshape((self._count, *dims)), made, name=value.name)


def _check(type_: TensorType, what: str) -> None:
    """Raises NotIndependentError for shapes that depend on data, for nothing and for text."""
    if not type_.is_static or 0 in type_.shape:
        raise NotIndependentError(f"{what} has no size that is known before the run, or none")
    if type_.dtype is DType.STRING:
        raise NotIndependentError(f"{what} is text")
