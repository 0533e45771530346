"""Splitting of products whose weights are larger than a shader can see."""

from __future__ import annotations

import numpy as np

from vknn.graph import Node, TensorType, Value
from vknn.lowering.kit.layouts import ceil_div, element_bytes
from vknn.ops.elementwise import Fused
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat

#: Columns and rows that panels of weights are padded to whole tiles of, at most.
_TILE = 128


def split_columns(node: Node, max_bytes: int, half: bool) -> list[Node] | None:
    """Matrix products, each with some columns of the constant second matrix, in place of one.

    ``max_bytes``: what a shader can see of a buffer. ``half``: floats are stored in 16 bits. Steps
    behind the product stay with the parts where they read no tensor. None where the node is no such
    product or its matrix is not the reason that it does not fit.
    """
    op = node.op
    product = op.base if isinstance(op, Fused) and not op.operand_count else op
    if not isinstance(product, MatMul) or node.inputs[1] is None:
        return None
    b = node.inputs[1].constant
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    constant_bias = bias is None or bias.constant is not None
    if b is None or b.ndim != 2 or not constant_bias:
        return None
    width = element_bytes(node.inputs[1].type.dtype, half)
    columns = node.output_types[0].dims[-1]
    each = _columns_each(b.size // columns, columns, max_bytes // width)
    if each is None:
        return None
    starts = range(0, columns, each)
    parts = [
        _part(node, product, number, start, min(each, columns - start))
        for number, start in enumerate(starts)
    ]
    axis = node.output_types[0].rank - 1
    joined = tuple(part.outputs[0] for part in parts)
    return [*parts, Node(Concat(axis), joined, node.outputs, node.name, node.origin)]


def _columns_each(rows: int, columns: int, room: int) -> int | None:
    """Columns of a part, as few parts as ``room`` elements allow; None for one that has room.

    Whole tiles, so that parts begin where a buffer may be bound and are joined without a copy.
    """
    if 2 * rows * columns <= room:
        return None
    tile = _TILE
    most = room // (ceil_div(rows, tile) * tile) // tile * tile
    if most == 0 or columns <= tile:  # half the room leaves enough to pad
        tile = 4
        most = room // (2 * rows) // tile * tile
    if most == 0:
        return None
    each = ceil_div(ceil_div(columns, max(2, ceil_div(columns, most))), tile) * tile
    return each if each < columns else None


def _part(node: Node, product: MatMul, number: int, start: int, count: int) -> Node:
    a, b = node.inputs[:2]
    assert b is not None
    assert b.constant is not None
    columns = slice(start, start + count)
    chosen = b.constant[columns] if product.transpose_b else b.constant[:, columns]
    name = f"{node.name}.{number}"
    inputs: list[Value | None] = [a, _constant(f"{name}.b", chosen)]
    if len(node.inputs) > 2:
        bias = node.inputs[2]
        piece = bias.constant[columns] if bias is not None and bias.constant is not None else None
        inputs.append(None if piece is None else _constant(f"{name}.bias", piece))
    (type_,) = node.op.infer(*(v.type if v is not None else None for v in inputs))
    return Node(node.op, tuple(inputs), (Value(name, type_),), name, node.origin)


def _constant(name: str, array: np.ndarray) -> Value:
    return Value(name, TensorType.of(array), array)
