"""Splitting of products whose weights are larger than a shader can see."""

from __future__ import annotations

import numpy as np

from vknn.graph import Node, TensorType, Value
from vknn.lowering.kit.layouts import ceil_div
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat


def split_columns(node: Node, max_bytes: int) -> list[Node] | None:
    """Matrix products, each with some columns of the constant second matrix, in place of one.

    ``max_bytes``: what a shader can see of a buffer. None where the node is no such product or its
    matrix is not the reason that it does not fit.
    """
    op = node.op
    if not isinstance(op, MatMul) or node.inputs[1] is None:
        return None
    b = node.inputs[1].constant
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    constant_bias = bias is None or bias.constant is not None
    if b is None or b.ndim != 2 or b.nbytes <= max_bytes // 2 or not constant_bias:
        return None
    columns = node.output_types[0].dims[-1]
    # Panels are padded to whole tiles: half the room leaves enough.
    each = columns // ceil_div(2 * b.nbytes, max_bytes) // 4 * 4
    if each < 4:
        return None
    starts = range(0, columns, each)
    parts = [_part(node, op, number, start, each) for number, start in enumerate(starts)]
    axis = node.output_types[0].rank - 1
    joined = tuple(part.outputs[0] for part in parts)
    return [*parts, Node(Concat(axis), joined, node.outputs, node.name, node.origin)]


def _part(node: Node, op: MatMul, number: int, start: int, count: int) -> Node:
    a, b = node.inputs[:2]
    assert b is not None
    assert b.constant is not None
    columns = slice(start, start + count)
    chosen = b.constant[columns] if op.transpose_b else b.constant[:, columns]
    name = f"{node.name}.{number}"
    inputs: list[Value | None] = [a, _constant(f"{name}.b", chosen)]
    if len(node.inputs) > 2:
        bias = node.inputs[2]
        piece = bias.constant[columns] if bias is not None and bias.constant is not None else None
        inputs.append(None if piece is None else _constant(f"{name}.bias", piece))
    (type_,) = op.infer(*(v.type if v is not None else None for v in inputs))
    return Node(op, tuple(inputs), (Value(name, type_),), name, node.origin)


def _constant(name: str, array: np.ndarray) -> Value:
    return Value(name, TensorType.of(array), array)
