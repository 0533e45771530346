"""FlexBuffers, the options of custom operators -> Python values.

The library's reader does no bounds checks: whatever it raises becomes BadFlexBuffer. The number of
decoded elements is limited by the number of bytes, so that data which refer to themselves end.
"""

from __future__ import annotations

import struct
from typing import Any

from flatbuffers import flexbuffers

_MAX_DEPTH = 32


class BadFlexBuffer(ValueError):
    """Bytes that are not a FlexBuffer."""


def decode(data: bytes) -> Any:
    """Python value of a FlexBuffer: dicts, lists, numbers, strings. No bytes give an empty dict.

    Raises BadFlexBuffer.
    """
    if not data:
        return {}
    try:
        return _Decoder(len(data)).value(flexbuffers.GetRoot(data), 0)
    except BadFlexBuffer:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, struct.error) as error:
        raise BadFlexBuffer(f"not a FlexBuffer: {error}") from error


class _Decoder:
    """Recursive decoder; ``budget``: number of values that may still be decoded."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def value(self, ref: Any, depth: int) -> Any:
        """Any value."""
        self.budget -= 1
        if depth > _MAX_DEPTH or self.budget < 0:
            raise BadFlexBuffer("not a FlexBuffer: it refers to itself")
        if ref.IsNull:
            return None
        if ref.IsMap:
            keys = [self.plain(key) for key in self.elements(ref.AsMap.Keys)]
            values = self.elements(ref.AsMap.Values)
            return {k: self.value(v, depth + 1) for k, v in zip(keys, values, strict=True)}
        if ref.IsBlob:
            return bytes(ref.AsBlob)
        if ref.IsTypedVector:
            return [self.plain(v) for v in self.elements(ref.AsTypedVector)]
        if ref.IsFixedTypedVector:
            return [self.plain(v) for v in self.elements(ref.AsFixedTypedVector)]
        if ref.IsVector:
            return [self.value(v, depth + 1) for v in self.elements(ref.AsVector)]
        return self.plain(ref)

    def elements(self, vector: Any) -> list[Any]:
        """The elements of a vector, counted."""
        count = len(vector)
        self.budget -= count
        if self.budget < 0:
            raise BadFlexBuffer(f"not a FlexBuffer: a vector of {count} elements")
        return [vector[i] for i in range(count)]

    def plain(self, ref: Any) -> Any:
        """A number, string or the like, but no container."""
        if ref.IsMap or ref.IsVector:
            raise BadFlexBuffer("not a FlexBuffer: a vector where a number or string belongs")
        return ref.Value
