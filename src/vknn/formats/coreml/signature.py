"""Recognition of Core ML files by their first bytes.

There is no magic number: a model is a protobuf message whose field 1 is a small version and whose
field 2 is a description. An ONNX model starts in the same way, but its field 2 is the name of a
program; the description's own fields tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from vknn.formats.message_outline import Cut, DamagedMessage, varint

_VERSION_TAG, _DESCRIPTION_TAG = 0x08, 0x12
_MAX_VERSION = 100
#: Fields of a description, all of them length-delimited.
_DESCRIPTION_FIELDS = frozenset({1, 10, 11, 12, 13, 20, 21, 50, 100})
#: Fields of a feature: its name, its text, its type.
_FEATURE_FIELDS = frozenset({1, 2, 3})
_BYTES = 2


def looks_like_model(head: bytes) -> bool:
    """Whether ``head``, the first bytes of a file, may be the start of a Core ML model."""
    # A version of one byte, then the description.
    if len(head) < 3 or head[0] != _VERSION_TAG or not 1 <= head[1] <= _MAX_VERSION:
        return False
    if head[2] != _DESCRIPTION_TAG:
        return False
    try:
        length, place = varint(head, 3)
        inner = _fields(head, place, place + length, _DESCRIPTION_FIELDS)
        for number, start, end in inner:
            if number in (1, 10):
                for _ in _fields(head, start, end, _FEATURE_FIELDS):
                    pass
    except Cut:
        return True
    except DamagedMessage:
        return False
    return True


def _fields(
    data: bytes, place: int, end: int, known: frozenset[int]
) -> Iterator[tuple[int, int, int]]:
    """(number, start, end) of the fields of a message, as far as ``data`` goes."""
    while place < end:
        tag, place = varint(data, place)
        length, place = varint(data, place)
        if tag & 7 != _BYTES or tag >> 3 not in known or place + length > end:
            raise DamagedMessage
        yield tag >> 3, place, place + length
        place += length
