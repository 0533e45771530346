"""Axes and sizes that are attributes in old opsets and inputs in newer ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vknn.formats.onnx.context import Context


def int_values(
    c: Context, name: str, number: int, by_input: int, scalar: bool = False
) -> list[int] | None:
    """Integers of the attribute ``name``, or from version ``by_input`` on of an input; or None.

    ``scalar``: the input may be a single number without axes.
    """
    if c.version < by_input:
        found = c.int_list(name, None)
        return None if found is None else list(found)
    return None if c.optional(number) is None else c.vector(number, name, scalar)


def axis_set(c: Context, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, ascending; one that is named twice counts once."""
    return tuple(sorted({c.axis(axis, rank) for axis in axes}))


def normal_axes(c: Context, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front. Raises Malformed where one is out of range or there twice."""
    found = [c.axis(axis, rank) for axis in axes]
    c.require(len(set(found)) == len(found), f"names an axis twice: {list(axes)}")
    return found
