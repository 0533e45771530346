"""Does a file start like a Core ML model?

There is no magic number: a model is a protobuf message whose field 1 is a small version and whose
field 2 is a description. An ONNX model starts in the same way, but its field 2 is the name of a
program; the description's own fields tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator

_VERSION_TAG, _DESCRIPTION_TAG = 0x08, 0x12
_MAX_VERSION = 100
#: Fields of a description, all of them length-delimited.
_DESCRIPTION_FIELDS = frozenset({1, 10, 11, 12, 13, 20, 21, 50, 100})
#: Fields of a feature: its name, its text, its type.
_FEATURE_FIELDS = frozenset({1, 2, 3})
_BYTES = 2


class _Damaged(ValueError):
    pass


def looks_like_model(head: bytes) -> bool:
    """True where ``head``, the first bytes of a file, may begin a Core ML model."""
    if head[:1] != bytes([_VERSION_TAG]):
        return False
    try:
        version, place = _varint(head, 1)
        if not 1 <= version <= _MAX_VERSION or place >= len(head):
            return False
        if head[place] != _DESCRIPTION_TAG:
            return False
        length, place = _varint(head, place + 1)
        inner = _fields(head, place, place + length, _DESCRIPTION_FIELDS)
        for number, start, end in inner:
            if number in (1, 10):
                for _ in _fields(head, start, end, _FEATURE_FIELDS):
                    pass
    except _Damaged:
        return False
    return True


def _fields(
    data: bytes, place: int, end: int, known: frozenset[int]
) -> Iterator[tuple[int, int, int]]:
    """(number, start, end) of the fields of a message, as far as ``data`` goes."""
    while place < end:
        if place >= len(data):
            return
        tag, place = _varint(data, place)
        length, place = _varint(data, place)
        if tag & 7 != _BYTES or tag >> 3 not in known or place + length > end:
            raise _Damaged
        yield tag >> 3, place, place + length
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number, and the place behind it; what lies behind the end of ``data`` is taken for 0."""
    value = 0
    for shift in range(0, 64, 7):
        byte = data[place] if place < len(data) else 0
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise _Damaged
