"""Checks of inputs, element types, shapes and axes, for all ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Shape, TensorType

if TYPE_CHECKING:
    from vknn.graph import Op


def arguments(op: Op, inputs: Sequence[Any], required: int, optional: int = 0) -> tuple[Any, ...]:
    """The inputs of an op, absent optional ones as None.

    Raises ShapeError where there are too few or too many or a required one is None.
    """
    if not required <= len(inputs) <= required + optional:
        wanted = f"{required}" if not optional else f"{required} to {required + optional}"
        raise ShapeError(f"{type(op).__name__} takes {wanted} inputs, not {len(inputs)}")
    for index, value in enumerate(inputs[:required]):
        if value is None:
            raise ShapeError(f"{type(op).__name__}: input {index} is missing")
    return (*inputs, *([None] * (required + optional - len(inputs))))


def require(condition: bool, message: str) -> None:
    """Check: ShapeError unless ``condition``."""
    if not condition:
        raise ShapeError(message)


def require_float(op: Op, *types: TensorType | None) -> None:
    """Check: ShapeError unless all present types are floating point."""
    for type_ in types:
        if type_ is not None and not type_.dtype.is_float:
            raise ShapeError(f"{type(op).__name__} wants floating point, not {type_}")


def require_dtype(op: Op, dtype: DType, *types: TensorType | None) -> None:
    """Check: ShapeError unless all present types have the element type ``dtype``."""
    for type_ in types:
        if type_ is not None and type_.dtype is not dtype:
            raise ShapeError(f"{type(op).__name__} wants {dtype.value}, not {type_}")


def require_vector(op: Op, what: str, type_: TensorType | None, length: int | None) -> None:
    """Check: ShapeError unless ``type_`` is absent or a vector of ``length`` elements."""
    if type_ is None:
        return
    if type_.rank != 1 or not fits(type_.shape[0], length):
        wanted = "?" if length is None else length
        raise ShapeError(f"{type(op).__name__}: {what} has shape {type_.shape}, not ({wanted},)")


def fits(a: int | None, b: int | None) -> bool:
    """True where two dimensions may be equal; an open one fits anything."""
    return a is None or b is None or a == b


def normal_axis(op: Op, axis: int, rank: int) -> int:
    """``axis`` counted from the front; raises ShapeError where the rank has no such axis."""
    if not -rank <= axis < rank:
        raise ShapeError(f"{type(op).__name__}: axis {axis} is out of range for rank {rank}")
    return axis % rank


def broadcast(op: Op, *shapes: Shape) -> Shape:
    """The shape that NumPy's rules broadcast ``shapes`` to; raises ShapeError where they do not.

    An open dimension against 1 stays open; against another number it is taken to be that number.
    """
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    result: list[int | None] = []
    for dims in zip(*padded, strict=True):
        sizes = {d for d in dims if d is not None and d != 1}
        if len(sizes) > 1:
            text = " and ".join(str(tuple(s)) for s in shapes)
            raise ShapeError(f"{type(op).__name__}: shapes {text} do not broadcast")
        result.append(sizes.pop() if sizes else None if None in dims else 1)
    return tuple(result)


def wide(x: np.ndarray) -> np.ndarray:
    """Floats as float64; other dtypes as they are."""
    return x.astype(np.float64) if x.dtype.kind == "f" else x
