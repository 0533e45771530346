"""Checks of a model's inputs: types that are stated, and those of their initializers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from vknn.formats.onnx.records import GraphRecord, TensorProtoRecord, TypeRecord


def check_inputs(graph: GraphRecord, fail: Callable[[str], NoReturn]) -> None:
    """Check of the model's graph.

    Calls ``fail`` for an input without a type, or for one whose initializer has another.
    """
    for value in graph.inputs:
        if value.type.dtype is None:
            fail(f"the graph's input {value.name!r} states no element type; export the model again")
        stored = graph.initializers.get(value.name)
        if stored is not None and not _fits(stored, value.type):
            fail(
                f"the initializer {value.name!r} is {stored.dtype.value}{list(stored.dims)}, the "
                f"input of that name {value.type.dtype.value}{list(value.type.shape or ())}; "
                "export the model again"
            )


def _fits(stored: TensorProtoRecord, declared: TypeRecord) -> bool:
    if declared.kind != "tensor" or stored.dtype is not declared.dtype:
        return False
    sizes = declared.shape
    return sizes is None or (
        len(sizes) == len(stored.dims)
        and all(not isinstance(d, int) or d == s for d, s in zip(sizes, stored.dims, strict=True))
    )
