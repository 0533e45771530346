"""Floats in which nothing is computed: bfloat16 becomes float32 before an operator and back after.

Operators on bfloat16 mean what they mean on float32, rounded once; that is also how onnxruntime and
ONNX's reference compute them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.steps import Item, TensorList
from vknn.graph import DType, Value
from vknn.ops.casting import LowPrecisionCast


def widened(c: Context) -> tuple[bool, ...]:
    """The context's inputs made float32 where they are bfloat16; tells which were."""
    small = [False] * len(c.inputs)
    inputs = list(c.inputs)
    for number, value in enumerate(inputs):
        if value is not None and value.type.dtype is DType.BFLOAT16:
            small[number] = True
            inputs[number] = c.cast(value, DType.FLOAT32)
        elif value is not None and (
            value.type.dtype.is_small_float or value.type.dtype.is_small_integer
        ):
            c.refuse(f"inputs of {value.type.dtype.value}")
    c.inputs = tuple(inputs)
    return tuple(small)


def narrowed(
    c: Context,
    results: Sequence[Item],
    small: Sequence[bool],
    like: int | tuple[int, ...] | None = None,
) -> tuple[Item, ...]:
    """Results of float32 made bfloat16 again where their inputs were; ``like``: which inputs."""
    if not any(small):
        return tuple(results)
    found = list(results)
    for number, item in enumerate(results):
        source = like[min(number, len(like) - 1)] if isinstance(like, tuple) else like
        if source is None or (0 <= source < len(small) and small[source]):
            found[number] = _narrow(c, item, DType.BFLOAT16)
    return tuple(found)


def as_float(c: Context, value: Value) -> Value:
    """Floats that NumPy lacks as float32; all else as it is."""
    if not value.type.dtype.is_small_float:
        return value
    if value.type.dtype is DType.BFLOAT16:
        return c.cast(value, DType.FLOAT32)
    return c.add(LowPrecisionCast(DType.FLOAT32), value)


def _narrow(c: Context, item: Item, small: DType) -> Item:
    if isinstance(item, TensorList):
        return TensorList(tuple(_rounded(c, v, small) for v in item.values), small)
    return None if item is None else _rounded(c, item, small)


def _rounded(c: Context, value: Value, small: DType) -> Value:
    return c.cast(value, small) if value.type.dtype is DType.FLOAT32 else value
