"""Errors about shapes that name the inputs they come of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from vknn.errors import InputError, ShapeError
from vknn.formats import Model
from vknn.graph import TensorType


@contextmanager
def shapes_named(model: Model, types: Mapping[str, TensorType]) -> Iterator[None]:
    """A layer's error about shapes as an InputError that names inputs of unusual shapes.

    Unusual are those that are not what the file suggests; where it suggests none, all.
    """
    try:
        yield
    except InputError:
        raise
    except ShapeError as error:
        hints = model.shape_hints
        unlike = [n for n, t in types.items() if n in hints and t.dims != hints[n]]
        unknown = [
            s.name
            for s in model.inputs
            if s.fixed is None and s.name not in hints and s.name in types
        ]
        if not (shown := unlike or unknown):
            raise
        text = "; ".join(
            f"input {name!r} has the shape {types[name].dims}"
            + (f", the file suggests {hints[name]}" if name in hints else "")
            for name in shown
        )
        raise InputError(f"{text}: {error}") from None
