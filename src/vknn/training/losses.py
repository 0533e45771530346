"""Losses as parts of a graph, for examples that lie along an axis of the losses' inputs.

Each loss reads an input that the trainer feeds: a row of weights for each example, which sum up
to 1 over a mini-batch. Examples that only fill the graph's batch have weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.errors import UnsupportedLayerError
from vknn.graph import Graph, GraphBuilder, Node, TensorType, Value
from vknn.ops.elementwise import Add, Mul, Neg, Square, Sub
from vknn.ops.movement.shape import Identity, Reshape, Transpose
from vknn.ops.reduction import LogSoftmax, ReduceSum, Softmax
from vknn.training.task import CROSS_ENTROPY, Arrays, Loss

LOSS = "\0loss"


def rows_name(index: int) -> str:
    """The output with a row for each example: logarithms of probabilities, or predictions."""
    return f"\0rows {index}"


def target_name(index: int) -> str:
    """The input with the targets of a loss."""
    return f"\0target {index}"


def weight_name(index: int) -> str:
    """The input with the examples' weights, of losses that are no cross entropy."""
    return f"\0weight {index}"


def with_losses(graph: Graph, losses: Sequence[Loss], axes: Sequence[int | None]) -> Graph:
    """The graph with inputs for the targets and the outputs LOSS and ``rows_name``.

    ``axes``: the axis of each loss's input along which examples lie; None: it is one example.
    """
    builder = GraphBuilder(graph.name)
    outputs, inputs, parts = {}, list(graph.inputs), []
    for index, (loss, axis) in enumerate(zip(losses, axes, strict=True)):
        value = graph.outputs[loss.input]
        entropy = loss.kind == CROSS_ENTROPY
        rows = _rows(builder, _logarithms(graph, builder, loss) if entropy else value, axis)
        target = builder.input(target_name(index), rows.type)
        inputs.append(target)
        if entropy:
            parts.append(_cross_entropy(builder, rows, target))
        else:
            weight = builder.input(weight_name(index), TensorType((rows.type.dims[0], 1)))
            inputs.append(weight)
            parts.append(_squared_error(builder, rows, target, weight))
        outputs[rows_name(index)] = rows
    total = parts[0]
    for part in parts[1:]:
        total = builder.add(Add(), total, part)
    added = builder.finish({}).nodes
    return Graph(inputs, {LOSS: total, **outputs}, [*graph.nodes, *added], graph.name)


def targets_of(
    index: int, loss: Loss, targets: Sequence[object], weights: np.ndarray, width: int
) -> Arrays:
    """Feeds of a loss for examples with these targets and weights."""
    if loss.kind == CROSS_ENTROPY:
        hot = np.zeros((len(targets), width), np.float32)
        hot[np.arange(len(targets)), np.asarray(targets, np.int64)] = weights
        return {target_name(index): hot}
    rows = np.stack([np.asarray(t, np.float32) for t in targets])
    share = (weights / np.float32(width)).astype(np.float32)
    return {target_name(index): rows, weight_name(index): share[:, None]}


def _cross_entropy(builder: GraphBuilder, rows: Value, target: Value) -> Value:
    """-sum of log p [class of the example] * weight; the weight stands in the target."""
    total = builder.add(ReduceSum(keepdims=False), builder.add(Mul(), rows, target))
    return builder.add(Neg(), total)


def _squared_error(builder: GraphBuilder, rows: Value, target: Value, weight: Value) -> Value:
    """The sum of (y - target)^2 * weight; the weight is that of the example over its elements."""
    square = builder.add(Square(), builder.add(Sub(), rows, target))
    return builder.add(ReduceSum(keepdims=False), builder.add(Mul(), square, weight))


def _rows(builder: GraphBuilder, value: Value, axis: int | None) -> Value:
    """``value`` as [examples, elements]."""
    dims = value.type.dims
    if axis is None:
        return builder.add(Reshape((1, -1)), value)
    order = (axis, *(i for i in range(len(dims)) if i != axis))
    if order != tuple(range(len(dims))):
        value = builder.add(Transpose(order), value)
    return builder.add(Reshape((dims[axis], -1)), value)


def _logarithms(graph: Graph, builder: GraphBuilder, loss: Loss) -> Value:
    """The logarithm of a softmax, from what the softmax reads: precise, and without overflow."""
    producers = graph.producers()
    value, moved = graph.outputs[loss.input], list[Node]()
    while (node := producers.get(value)) is not None:
        source = node.inputs[0]
        assert source is not None
        if isinstance(node.op, Softmax):
            value = builder.add(LogSoftmax(node.op.axis), source, origin=node.origin)
            for step in reversed(moved):
                value = builder.add(step.op, value, origin=step.origin)
            return value
        if not isinstance(node.op, Reshape | Transpose | Identity):
            break
        moved.append(node)
        value = source
    raise UnsupportedLayerError(
        [f"loss {loss.name!r}: its input {loss.input!r} is not the output of a softmax layer"]
    )
