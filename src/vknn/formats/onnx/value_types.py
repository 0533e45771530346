"""Types of graphs' inputs and outputs: messages -> records."""

from __future__ import annotations

from typing import Any

from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.records import TypeRecord
from vknn.formats.onnx.tensors import MAX_RANK, BadTensor

_MAX_DEPTH = 4
_MAX_SIZE = 1 << 62


def read_type(message: Any, depth: int = 0) -> TypeRecord:
    """The record of a type message; None: not stated. Raises BadTensor."""
    kind = None if message is None else message.WhichOneof("value")
    if kind is None:
        return TypeRecord()
    if kind in ("sequence_type", "optional_type"):
        if depth > _MAX_DEPTH:
            raise BadTensor("sequences and optionals lie inside one another")
        inner = getattr(message, kind)
        inner = read_type(inner.elem_type if inner.HasField("elem_type") else None, depth + 1)
        if kind == "optional_type":
            return TypeRecord(inner.kind or "optional", inner.dtype, inner.shape, True)
        return TypeRecord("sequence", inner.dtype, inner.shape)
    if kind not in ("tensor_type", "sparse_tensor_type"):
        raise BadTensor(f"{kind.removesuffix('_type')}s are no values of neural networks")
    tensor = getattr(message, kind)
    element = ELEMENT_TYPES.get(tensor.elem_type)
    if element is None and not tensor.elem_type:
        raise BadTensor("it states no element type")
    if element is None:
        raise BadTensor(f"the element type number {tensor.elem_type} is unknown to vknn")
    shape = _shape(tensor.shape) if tensor.HasField("shape") else None
    return TypeRecord("tensor", element.dtype, shape)


def _shape(message: Any) -> tuple[int | str | None, ...]:
    if len(message.dim) > MAX_RANK:
        raise BadTensor(f"it has {len(message.dim)} axes")
    found: list[int | str | None] = []
    for dim in message.dim:
        kind = dim.WhichOneof("value")
        if kind == "dim_param":
            found.append(dim.dim_param or None)
        elif kind == "dim_value" and dim.dim_value >= _MAX_SIZE:
            raise BadTensor(f"it has an axis of the absurd size {dim.dim_value}")
        elif kind == "dim_value" and dim.dim_value >= 0:
            found.append(dim.dim_value)
        else:  # exporters write -1 for sizes that are unknown
            found.append(None)
    return tuple(found)
