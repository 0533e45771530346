"""Shapes that inputs have to have, checked before anything is computed from their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.onnx.context import Context
from vknn.graph import Value

#: The size of an axis: a number, one of several, or None for any.
Size = int | tuple[int, ...] | None


def shaped(c: Context, number: int, name: str, *forms: Sequence[Size]) -> Value | None:
    """The input ``number`` in one of the shapes ``forms``, or None where it is left out.

    ``name``: the schema's for it. Raises Malformed that says what it is and what it has to be.
    """
    value = c.optional(number)
    if value is not None:
        check_shape(c, value, name, *forms)
    return value


def check_shape(c: Context, value: Value, name: str, *forms: Sequence[Size]) -> None:
    """Check that a value has one of the shapes ``forms``, as :func:`shaped` has it."""
    if not any(_fits(value.type.dims, form) for form in forms):
        wanted = " or ".join(_shown(form) for form in forms)
        c.fail(f"{name} is {value.type}, it has to be {wanted}")


def _fits(dims: Sequence[int], form: Sequence[Size]) -> bool:
    return len(dims) == len(form) and all(
        size is None or dim in (size if isinstance(size, tuple) else (size,))
        for dim, size in zip(dims, form, strict=True)
    )


def _shown(form: Sequence[Size]) -> str:
    def one(size: Size) -> str:
        if isinstance(size, tuple):
            return " or ".join(str(s) for s in dict.fromkeys(size))
        return "any" if size is None else str(size)

    return f"[{', '.join(one(size) for size in form)}]"
