"""Reverse-mode differentiation of graphs: nodes that compute gradients, made of canonical ops.

As in Griewank and Walther, "Evaluating Derivatives" (2008), chapter 3: from the loss backwards, the
gradient of each value is the sum over its readers. An op is differentiated by a rule
(:func:`gradient`), or stands for simpler ops whose rules apply (:func:`decomposition`). The result
is a graph like any other: both backends run it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from vknn.errors import UnsupportedLayerError
from vknn.graph import Graph, GraphBuilder, Node, Op, Value
from vknn.training.scope import Scope

#: Gradient of each input (None: none, or not wanted); a lone value is that of the only input.
Gradients = Value | None | Sequence[Value | None]
#: Gets the gradient of each output, None where the loss does not depend on it.
Rule = Callable[..., Gradients]
#: Makes the node's output of simpler ops; None: a rule differentiates the node as it is.
Decomposition = Callable[[Scope], Value | None]

_RULES: dict[type[Op], Rule] = {}
_DECOMPOSITIONS: dict[type[Op], Decomposition] = {}
_FLAT: set[type[Op]] = set()


def gradient(*ops: type[Op]) -> Callable[[Rule], Rule]:
    """Registration of a rule: ``rule(g, dy, ...)``, one gradient for each output of the node."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            if op in _RULES:
                raise ValueError(f"{op.__name__} has two rules")
            _RULES[op] = rule
        return rule

    return register


def decomposition(*ops: type[Op]) -> Callable[[Decomposition], Decomposition]:
    """Registration of what an op of one output stands for, in ops that have rules."""

    def register(make: Decomposition) -> Decomposition:
        for op in ops:
            if op in _DECOMPOSITIONS:
                raise ValueError(f"{op.__name__} has two decompositions")
            _DECOMPOSITIONS[op] = make
        return make

    return register


def flat(*ops: type[Op]) -> None:
    """Registration of ops whose derivative is 0 wherever there is one: they pass no gradient on."""
    gradient(*ops)(lambda g, *dys: None)
    _FLAT.update(ops)


def is_differentiable(op: type[Op]) -> bool:
    """True where gradients can pass an op of this class."""
    return op in _RULES or op in _DECOMPOSITIONS


def differentiable_ops() -> tuple[type[Op], ...]:
    """All op classes that gradients can pass."""
    return tuple(dict.fromkeys((*_RULES, *_DECOMPOSITIONS)))


def differentiate(
    graph: Graph, loss: str, wanted: Iterable[Value], names: Callable[[Value], str]
) -> Graph:
    """``graph`` with further outputs: the gradient of output ``loss`` by each value ``wanted``.

    ``wanted`` are inputs of the graph. The loss has one element; ``names`` gives the name of the
    output for a value. Gradients have the type of their value; of a value that the loss does not
    depend on they are 0. Ops without a rule whose outputs are no floats pass no gradient. Raises
    UnsupportedLayerError that names every layer on the way which cannot be differentiated.
    """
    wanted = list(wanted)
    _refuse_unknown(graph, loss, wanted)
    graph = _simplified(graph, loss, wanted)
    builder = GraphBuilder(graph.name)
    gradients = _sweep(graph, graph.outputs[loss], wanted, builder)
    outputs = dict(graph.outputs)
    for value in wanted:
        outputs[names(value)] = gradients.get(value) or _zeros(builder, value)
    added = builder.finish({}).nodes
    return Graph(list(graph.inputs), outputs, [*graph.nodes, *added], graph.name)


def obstacles(graph: Graph, loss: str, value: Value) -> list[str]:
    """The layers between ``value`` and a loss that let no gradient pass, in the file's words.

    For a value whose gradient is 0 because of them; empty where the loss does not depend on it.
    """
    reached, between = {value}, []
    for node in graph.nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            between.append(node)
    needed, found = {graph.outputs[loss]}, dict[str, None]()
    for node in reversed(between):
        if needed.isdisjoint(node.outputs):
            continue
        needed.update(v for v in node.inputs if v is not None)
        floats = any(v.type.dtype.is_float for v in node.outputs)
        if not floats or type(node.op) in _FLAT or not is_differentiable(type(node.op)):
            found[f"{node.origin} ({node.op.type_name}) lets no gradient pass"] = None
    return list(found)


def _zeros(builder: GraphBuilder, value: Value) -> Value:
    return builder.constant(np.zeros(value.type.dims, value.type.dtype.numpy))


def _active(nodes: Sequence[Node], wanted: Iterable[Value]) -> set[Value]:
    """The floats that depend on ``wanted``, these included."""
    found = set(wanted)
    for node in nodes:
        if not found.isdisjoint(node.inputs):
            found.update(v for v in node.outputs if v.type.dtype.is_float)
    return found


def _on_the_way(graph: Graph, loss: Value, active: Collection[Value]) -> list[Node]:
    """The nodes that gradients of ``loss`` pass on their way to something active."""
    needed, passed = {loss}, []
    for node in reversed(graph.nodes):
        if any(v in needed and v in active for v in node.outputs):
            passed.append(node)
            needed.update(v for v in node.inputs if v is not None and v in active)
    return passed[::-1]


def _refuse_unknown(graph: Graph, loss: str, wanted: Sequence[Value]) -> None:
    nodes = _on_the_way(graph, graph.outputs[loss], _active(graph.nodes, wanted))
    lacking = {
        f"{node.origin} ({node.op.type_name}) cannot be trained through: it has no gradient"
        for node in nodes
        if not is_differentiable(type(node.op))
    }
    lacking |= {
        f"{node.origin} cannot be trained through: its shape depends on data"
        for node in nodes
        if not all(v.type.is_static for v in (*node.inputs, *node.outputs) if v is not None)
    }
    if lacking:
        raise UnsupportedLayerError(sorted(lacking))


def _simplified(graph: Graph, loss: str, wanted: Sequence[Value]) -> Graph:
    """The graph in which nodes that gradients pass are decomposed, if they have a decomposition."""
    passed = set(_on_the_way(graph, graph.outputs[loss], _active(graph.nodes, wanted)))
    nodes: list[Node] = []
    mapping: dict[Value, Value] = {}
    for node in graph.nodes:
        make = _DECOMPOSITIONS.get(type(node.op)) if node in passed else None
        builder = GraphBuilder()
        value = make(Scope(builder, node, ())) if make is not None else None
        if value is None:
            nodes.append(node)
            continue
        nodes.extend(builder.finish({}).nodes)
        mapping[node.outputs[0]] = value
    if not mapping:
        return graph
    return _simplified(graph.replace(nodes, mapping), loss, wanted)


def _sweep(
    graph: Graph, loss: Value, wanted: Sequence[Value], builder: GraphBuilder
) -> dict[Value, Value]:
    active = _active(graph.nodes, wanted)
    gradients: dict[Value, Value] = {}
    if loss in active:
        gradients[loss] = builder.constant(np.ones(loss.type.dims, np.float32), "one")
    for node in reversed(_on_the_way(graph, loss, active)):
        dys = [gradients.get(v) for v in node.outputs]
        if all(dy is None for dy in dys):
            continue
        scope = Scope(builder, node, active, " gradient")
        given = _RULES[type(node.op)](scope, *dys)
        results = (given,) if given is None or isinstance(given, Value) else tuple(given)
        for value, result in zip(node.inputs, results, strict=False):
            if value is None or result is None or value not in active:
                continue
            if result.type != value.type:
                raise ValueError(f"the gradient of {value.name!r} came out as {result.type}")
            before = gradients.get(value)
            gradients[value] = result if before is None else scope.plus(before, result)
    return gradients
