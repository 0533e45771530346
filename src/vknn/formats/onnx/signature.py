"""Recognition of ONNX files by their first bytes.

An .onnx file has no magic number: it is a protobuf message that begins with its IR version, a small
number, and whose further fields come in any order. Other formats are protobuf, too.
"""

from __future__ import annotations

from collections.abc import Iterator

_MAX_IR = 64
_LENGTH, _VARINT = 2, 0
#: Top-level fields: number -> wire type.
_FIELDS = {
    1: _VARINT, 2: _LENGTH, 3: _LENGTH, 4: _LENGTH, 5: _VARINT, 6: _LENGTH, 7: _LENGTH, 8: _LENGTH,
    14: _LENGTH, 20: _LENGTH, 25: _LENGTH, 26: _LENGTH,
}  # fmt: skip
#: Those that hold text: producer, its version, the domain, the description.
_TEXTS = (2, 3, 4, 6)
_GRAPH, _IMPORT = 7, 8
#: First byte of a graph's, an opset import's fields.
_GRAPH_TAGS = frozenset((0x0A, 0x12, 0x2A, 0x52, 0x5A, 0x62, 0x6A, 0x72, 0x7A, 0x82))
_IMPORT_TAGS = frozenset((0x0A, 0x10))


def looks_like_model(head: bytes) -> bool:
    """Whether the first bytes of a file may be an ONNX model's."""
    sure = False
    try:
        for number, wire, value, whole in _fields(head):
            if _FIELDS.get(number) != wire:
                return False
            if number == 1 and not 0 < int.from_bytes(value, "little") <= _MAX_IR:
                return False
            if number in _TEXTS and not _is_text(value, whole):
                return False
            if number == _GRAPH and value and value[0] not in _GRAPH_TAGS:
                return False
            if number == _IMPORT and value and value[0] not in _IMPORT_TAGS:
                return False
            sure = sure or number in (2, _GRAPH, _IMPORT)
    except ValueError:
        return False
    return sure


def _fields(head: bytes) -> Iterator[tuple[int, int, bytes, bool]]:
    """Number, wire type and bytes of the fields; the last may be cut off (not whole)."""
    place = 0
    while place < len(head):
        tag, place = _varint(head, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            found, place = _varint(head, place)
            yield number, wire, found.to_bytes(10, "little"), True
        elif wire == _LENGTH:
            size, place = _varint(head, place)
            yield number, wire, head[place : place + size], place + size <= len(head)
            place += size
        else:
            raise ValueError(f"wire type {wire}")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    for at in range(place, min(place + 10, len(data))):
        value |= (data[at] & 127) << shift
        shift += 7
        if data[at] < 128:
            return value, at + 1
    if place + 10 > len(data) and len(data) >= 4096:
        return value, len(data)  # cut off with the head
    raise ValueError("no varint")


def _is_text(data: bytes, whole: bool) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if whole or len(data) - error.start > 3:
            return False
        text = data[: error.start].decode("utf-8")
    return all(character >= " " or character.isspace() for character in text)
