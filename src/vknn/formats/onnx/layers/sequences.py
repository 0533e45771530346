"""Sequences and optionals, which exist only while the graph is built."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.registry import operator
from vknn.formats.onnx.steps import Item, TensorList
from vknn.graph import Value
from vknn.ops.movement.shape import Concat, Slice


@operator("SequenceConstruct", 11, inputs=(1, None), any_type=True)
def sequence_construct(c: Context) -> TensorList:
    """A sequence of the inputs"""
    return TensorList(tuple(c.value(i) for i in range(len(c.inputs))), c.x.type.dtype)


@operator("SequenceEmpty", 11, inputs=0, any_type=True)
def sequence_empty(c: Context) -> TensorList:
    """A sequence of nothing"""
    return TensorList((), c.dtype("dtype", ELEMENT_TYPES[1].dtype))


@operator("SequenceLength", 11, any_type=True, lists=True)
def sequence_length(c: Context) -> Value:
    """The number of elements"""
    return c.constant(np.asarray(len(c.tensors(0).values), np.int64), "length")


@operator("SequenceAt", 11, inputs=2, any_type=True, lists=True)
def sequence_at(c: Context) -> Value:
    """One element, counted from the end where the place is below 0"""
    values = c.tensors(0).values
    return values[_place(c, 1, len(values), len(values) - 1)]


@operator("SequenceInsert", 11, inputs=(2, 3), any_type=True, lists=True)
def sequence_insert(c: Context) -> TensorList:
    """The sequence with a further element, by default at its end"""
    found = c.tensors(0)
    count = len(found.values)
    at = count if c.optional(2) is None else _place(c, 2, count, count)
    new = c.value(1)
    fits = found.dtype in (None, new.type.dtype)
    c.require(fits, f"puts {new.type} into a sequence of another type")
    return TensorList((*found.values[:at], new, *found.values[at:]), new.type.dtype)


@operator("SequenceErase", 11, inputs=(1, 2), any_type=True, lists=True)
def sequence_erase(c: Context) -> TensorList:
    """The sequence without one element, by default the last"""
    found = c.tensors(0)
    count = len(found.values)
    c.require(count > 0, "takes an element out of an empty sequence")
    at = count - 1 if c.optional(1) is None else _place(c, 1, count, count - 1)
    return TensorList((*found.values[:at], *found.values[at + 1 :]), found.dtype)


def _place(c: Context, number: int, count: int, most: int) -> int:
    at = int(c.number(number, "position"))
    c.require(-count <= at <= most, f"position {at} is outside a sequence of {count}")
    return at + count if at < 0 else at


@operator("ConcatFromSequence", 11, any_type=True, lists=True)
def concat_from_sequence(c: Context) -> Value:
    """All elements joined along an axis, or along a new one"""
    values = list(c.tensors(0).values)
    c.require(bool(values), "joins an empty sequence")
    new = c.flag("new_axis")
    axis = c.axis(c.int("axis"), values[0].type.rank + new)
    if new:
        values = [c.reshape(v, (*v.type.dims[:axis], 1, *v.type.dims[axis:])) for v in values]
    return c.add(Concat(axis), *values)


@operator("SplitToSequence", 11, 24, inputs=(1, 2), any_type=True)
def split_to_sequence(c: Context) -> TensorList:
    """Parts along an axis"""
    axis = c.axis(c.int("axis", 0), c.rank)
    total = c.x.type.dims[axis]
    given = c.optional(1)
    if given is None:
        sizes = [1] * total
    elif given.type.rank == 0:
        piece = int(c.number(1, "split"))
        c.require(piece > 0, f"splits in parts of {piece}")
        sizes = [min(piece, total - at) for at in range(0, total, piece)]
    else:
        sizes = c.ints(1, "split")
    good = min(sizes, default=0) >= 0 and sum(sizes) == total
    c.require(good, f"splits an axis of {total} in {sizes}")
    ends = np.cumsum(sizes).tolist()
    parts = [
        c.add(Slice((end - size,), (end,), (axis,)), c.x)
        for size, end in zip(sizes, ends, strict=True)
    ]
    if given is None and not c.flag("keepdims", True):
        dims = c.x.type.dims
        parts = [c.reshape(part, (*dims[:axis], *dims[axis + 1 :])) for part in parts]
    return TensorList(tuple(parts), c.x.type.dtype)


@operator("Optional", 15, 28, inputs=(0, 1), any_type=True, lists=True)
def optional(c: Context) -> Item:
    """The input, or nothing"""
    return c.item(0)


@operator("OptionalHasElement", 15, 18, 28, inputs=(0, 1), any_type=True, lists=True)
def optional_has_element(c: Context) -> Value:
    """Whether the input is something"""
    return c.constant(np.asarray(c.item(0) is not None), "present")


@operator("OptionalGetElement", 15, 18, 28, any_type=True, lists=True)
def optional_get_element(c: Context) -> Item:
    """The value that the input holds"""
    if c.item(0) is None:
        c.fail("takes what an optional that is empty holds")
    return c.item(0)
