"""Graphs of a training: a frozen part that is run once, and a step for a few examples.

The layers before the first trained one give the same for an example every time. They are cut off
and computed once for each example, as long as their results do not take too much memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.errors import UnsupportedLayerError, VknnError
from vknn.graph import Graph, Node, TensorType, Value
from vknn.graph.graph import unique_name
from vknn.ops.movement.shape import Identity, Reshape, Transpose
from vknn.training.gradients import differentiate, obstacles
from vknn.training.losses import LOSS, with_losses
from vknn.training.task import Arrays, Task

#: Bytes that results of the frozen part may take on the host, for all examples.
KEPT_BYTES = 1 << 30


def gradient_name(weight: str) -> str:
    """The output with the gradient of a weight."""
    return f"\0gradient {weight}"


def weight_input(weight: str) -> str:
    """The input that a weight becomes."""
    return f"\0trained {weight}"


@dataclass(frozen=True)
class Forward:
    """The network for a number of examples at once.

    ``axes``: the axis along which the examples lie, for each value in which they do; it is missing
    for the others (``count`` 1: for all).
    """

    graph: Graph
    count: int
    axes: Mapping[Value, int]


def forward(task: Task, inputs: Arrays, count: int) -> Forward:
    """The graph for ``count`` examples joined along an axis.

    ``inputs``: the arrays of one example, each with an axis of size 1 to join others along. In
    other values the axis of the examples is the one whose size differs in a graph for one more.
    """
    graph = task.graph(_repeated(task, inputs, count))
    more = task.graph(_repeated(task, inputs, count + 1))
    axes: dict[Value, int] = {}
    pairs = [*zip(graph.inputs, more.inputs, strict=True)]
    if len(graph.nodes) == len(more.nodes):
        for node, other in zip(graph.nodes, more.nodes, strict=True):
            pairs += zip(node.outputs, other.outputs, strict=True)
    for a, b in pairs:
        axis = _axis(a.type, b.type, count)
        if axis is not None:
            axes[a] = axis
    return Forward(graph, count, axes)


def alone(task: Task, inputs: Arrays) -> Forward:
    """The graph for one example of a network whose examples cannot be joined along an axis."""
    return Forward(task.graph({n: TensorType.of(a) for n, a in inputs.items()}), 1, {})


def _repeated(task: Task, inputs: Arrays, count: int) -> dict[str, TensorType]:
    types = {}
    for name, array in inputs.items():
        dims = list(array.shape)
        dims[task.axis(name)] = count
        types[name] = TensorType.of(array).with_shape(tuple(dims))
    return types


def _axis(type_: TensorType, more: TensorType, count: int) -> int | None:
    if type_.rank != more.rank or not type_.is_static:
        return None
    axes = [i for i, (a, b) in enumerate(zip(type_.dims, more.dims, strict=True)) if a != b]
    found = len(axes) == 1 and (type_.dims[axes[0]], more.dims[axes[0]]) == (count, count + 1)
    return axes[0] if found else None


@dataclass(frozen=True)
class TrainingParts:
    """A training cut in two.

    ``frozen`` gives, from the network's inputs, inputs of ``step``; it is None where it would be
    worth nothing, take too much memory, or its results do not lie apart by examples.
    ``step`` takes these (or the network's), targets, and weights as ``weight_input`` names them,
    and gives the loss, a row for each example and the gradients. ``axes``: where the examples lie
    in the inputs of ``step``, by name; None for what is the same for all.
    """

    frozen: Graph | None
    step: Graph
    axes: Mapping[str, int | None]


def training(task: Task, network: Forward, weights: Sequence[str], examples: int) -> TrainingParts:
    """The graphs for a network with these weights, for so many examples in all."""
    graph = network.graph
    axes = [network.axes.get(graph.outputs[loss.input]) for loss in task.losses]
    graph, trained = _with_inputs(with_losses(graph, task.losses, axes), weights)
    both = differentiate(
        graph, LOSS, trained, lambda v: gradient_name(v.name[len(weight_input("")) :])
    )
    _check_reached(both, graph, trained)
    data = network.graph.inputs
    frozen = _frozen(graph, data)
    boundary = _boundary(both, frozen)
    size = sum(v.type.size * v.type.dtype.itemsize for v in boundary) * examples // network.count
    if not _worth(frozen) or size > KEPT_BYTES:
        return TrainingParts(None, both, {v.name: network.axes.get(v) for v in data})
    return _cut(both, data, frozen, boundary, network.axes)


def _with_inputs(graph: Graph, weights: Sequence[str]) -> tuple[Graph, dict[Value, str]]:
    """The graph with inputs in place of the constants of these names, and the names of these."""
    constants = {
        v.name: v for n in graph.nodes for v in n.inputs if v is not None and v.constant is not None
    }
    trained = {Value(weight_input(name), constants[name].type): name for name in weights}
    replaced = graph.replace(graph.nodes, {constants[name]: v for v, name in trained.items()})
    return Graph([*graph.inputs, *trained], replaced.outputs, replaced.nodes, graph.name), trained


def _check_reached(both: Graph, graph: Graph, trained: Mapping[Value, str]) -> None:
    """Raises UnsupportedLayerError where gradients do not come through to a weight."""
    lost = [
        v for v, name in trained.items() if both.outputs[gradient_name(name)].constant is not None
    ]
    found = [text for value in lost for text in obstacles(graph, LOSS, value)]
    if found:
        raise UnsupportedLayerError(list(dict.fromkeys(found)))
    if len(lost) == len(trained):
        raise VknnError("no updatable layer lies before a loss: there is nothing to train")


def _frozen(graph: Graph, data: Sequence[Value]) -> list[Node]:
    """The nodes of the network that depend on its inputs and on constants alone."""
    known, found = set(data), []
    for node in graph.nodes:
        read = [v for v in node.inputs if v is not None and v.constant is None]
        if node.op.deterministic and all(v in known for v in read):
            known.update(node.outputs)
            found.append(node)
    return found


def _boundary(graph: Graph, frozen: Sequence[Node]) -> list[Value]:
    """The results of frozen nodes that other nodes read."""
    inside = set(frozen)
    made = {v for n in frozen for v in n.outputs}
    read = dict.fromkeys(v for n in graph.nodes if n not in inside for v in n.inputs if v in made)
    return [v for v in read if v is not None]


def _worth(frozen: Sequence[Node]) -> bool:
    return any(not isinstance(n.op, Reshape | Transpose | Identity) for n in frozen)


def _cut(
    graph: Graph,
    data: Sequence[Value],
    frozen: Sequence[Node],
    boundary: Sequence[Value],
    axes: Mapping[Value, int],
) -> TrainingParts:
    inside = set(frozen)
    rest = [n for n in graph.nodes if n not in inside]
    read = {v for n in rest for v in n.inputs}
    names: dict[Value, str] = {}
    for value in (*boundary, *(v for v in data if v in read)):
        names[value] = unique_name(value.name, set(names.values()))
    fresh = {v: Value(name, v.type) for v, name in names.items()}
    others = [v for v in graph.inputs if v not in data]
    before = Graph(list(data), {name: v for v, name in names.items()}, list(frozen), graph.name)
    after = Graph([*fresh.values(), *others], dict(graph.outputs), rest, graph.name)
    return TrainingParts(
        before, after.replace(rest, fresh), {n: axes.get(v) for v, n in names.items()}
    )


def check_whole(graph: Graph) -> None:
    """Check that the graph has no continuation, and outputs whose shapes do not depend on data.

    Raises UnsupportedLayerError, naming the layers.
    """
    if graph.continuation is not None:
        layers = graph.continuation.layers
        what = f"one of the layers {', '.join(dict.fromkeys(layers))}" if layers else "a layer"
        raise UnsupportedLayerError(
            [f"{what} needs data before it can be computed; such a network cannot be trained"]
        )
    open_shapes = [
        f"{node.origin} gives a shape that depends on data; it cannot be trained through"
        for node in graph.nodes
        if any(not v.type.is_static for v in node.outputs if v in set(graph.outputs.values()))
    ]
    if open_shapes:
        raise UnsupportedLayerError(open_shapes)


def as_one(arrays: Sequence[np.ndarray], axis: int | None) -> np.ndarray:
    """Arrays of examples joined along ``axis``; the first, where it is the same for all (None)."""
    return arrays[0] if axis is None or len(arrays) == 1 else np.concatenate(arrays, axis)
