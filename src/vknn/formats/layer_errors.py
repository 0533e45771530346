"""Exceptions that the conversion of a layer raises, and the package's errors made of them.

A converter knows what is wrong, but not how the file names the layer: :func:`errors_of` adds that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vknn.errors import ShapeError, UnsupportedLayerError


class Malformed(ValueError):
    """A layer contradicts itself or its inputs."""


class Unsupported(ValueError):
    """A layer is well formed but asks for what vknn cannot do."""


#: Python's errors for numbers that no valid file holds. Converters check parameters and raise
#: Malformed with a clear text; these are caught in case such a check is missing.
STRAY = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


@contextmanager
def errors_of(place: str, file: str | None) -> Iterator[None]:
    """Errors inside the block with ``place``, as in "layer 'a' (Conv)", in front of their text.

    Unsupported becomes UnsupportedLayerError, Malformed and ShapeError become ShapeError. Texts
    that name a layer already (of a body inside this layer) stay as they are.
    """
    try:
        yield
    except Unsupported as problem:
        raise UnsupportedLayerError([f"{place}: {problem}"], file=file) from problem
    except (Malformed, ShapeError) as problem:
        if isinstance(problem, ShapeError) and str(problem).startswith("layer "):
            raise
        raise ShapeError(f"{place}: {problem}") from problem
