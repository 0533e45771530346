"""Exceptions that the conversion of a layer raises, and the package's errors made of them.

A converter knows what is wrong, but not how the file names the layer: :func:`errors_of` adds that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from vknn.errors import ModelFormatError, ShapeError, UnsupportedLayerError, VknnError


class Malformed(ValueError):
    """A layer contradicts itself or its inputs."""


class Unsupported(ValueError):
    """A layer is well formed but asks for what vknn cannot do."""


#: Python's errors for numbers that no valid file holds. Converters check parameters and raise
#: Malformed with a clear text; these are caught in case such a check is missing.
_STRAY = (
    ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, struct.error,
)  # fmt: skip


@contextmanager
def errors_of(place: str, file: str | None, layer: str | None = None) -> Iterator[None]:
    """Errors inside the block with ``place``, as in "layer 'a' (Conv)", in front of their text.

    Unsupported becomes UnsupportedLayerError, Malformed and ShapeError become ShapeError, Python's
    own errors ModelFormatError with the name ``layer``. Texts that name a layer already (the graph
    builder's, and those of a body inside this layer) stay as they are.
    """
    try:
        yield
    except Unsupported as problem:
        raise UnsupportedLayerError([f"{place}: {problem}"], file=file) from None
    except (Malformed, ShapeError) as problem:
        if isinstance(problem, ShapeError) and str(problem).startswith("layer "):
            raise
        raise ShapeError(f"{place}: {problem}") from None
    except VknnError:
        raise
    except _STRAY as problem:
        error = ModelFormatError(f"{place}: {type(problem).__name__}: {problem}", file=file)
        error.layer = layer
        raise error from problem
