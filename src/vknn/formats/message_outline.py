"""Look at the fields of a large protocol buffer, before all of the file is read into memory.

Protocol buffers are parsed as a whole. That whole may be gigabytes that a damaged file, or one with
a hole, only claims to have. Numbers and bytes of weights are skipped here, all else is followed, so
that few pages of the file are touched.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from vknn.errors import ModelFormatError

#: What protocol buffers allow to a message.
MAX_BYTES = (1 << 31) - 1
#: Of smaller files the outermost fields are looked at alone.
SMALL = 1 << 26
#: Bytes of a text or of an unknown field.
MAX_TEXT = 1 << 24
#: Fields that are looked at: a large model has thousands.
_MAX_FIELDS = 200_000
_MAX_DEPTH = 100  # as protocol buffers themselves
#: Bytes of the value by the wire type, where it says no more.
_FIXED = {1: 8, 5: 4}
_VARINT, _BYTES = 0, 2


class Cut(Exception):
    """The bytes at hand end before the message does."""


class DamagedMessage(Exception):
    """The bytes are no message."""


def varint(data: bytes | mmap.mmap, place: int) -> tuple[int, int]:
    """A number, and the place behind it. Raises Cut and DamagedMessage."""
    value = 0
    for shift in range(0, 64, 7):
        if place >= len(data):
            raise Cut
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise DamagedMessage


def check_outline(
    path: Path,
    descriptor: Any,
    weights: Collection[str],
    what: str,
    refuse: Callable[[Any], None] = lambda field: None,
) -> None:
    """Check: ModelFormatError where a file cannot be one message, or has fields of absurd size.

    ``descriptor``: of the message. ``weights``: names of the fields of bytes that may be large
    ("Tensor.raw_data"). ``what``: "a Core ML model". ``refuse``: is given other large fields first,
    and may raise an error of its own.
    """
    file, size = str(path), path.stat().st_size
    if size > MAX_BYTES:
        raise ModelFormatError(
            f"{size} bytes are more than {what} has: a protocol buffer ends below 2 GiB",
            file=file,
        )
    if size == 0:
        return
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        walk = _Walk(data, weights, refuse, _MAX_DEPTH if size > SMALL else 0)
        try:
            walk.message(0, size, descriptor, 0)
        except (Cut, DamagedMessage):
            raise ModelFormatError(
                f"this is not {what}, or a damaged or truncated one: no field of it begins here, "
                "or it does not end within what it is in; fetch or export it again",
                file=file,
                offset=walk.place,
            ) from None
        except _TooLarge as error:
            raise ModelFormatError(
                f"{error} here, which {what} does not have: it may be damaged; fetch or export it "
                "again",
                file=file,
                offset=walk.place,
            ) from None


class _TooLarge(Exception):
    """A field that is no weights is larger than any."""


class _Walk:
    """Walk over the fields of a message and of those in it; ``place``: of the one looked at."""

    def __init__(
        self, data: mmap.mmap, weights: Collection[str], refuse: Callable[[Any], None], depth: int
    ) -> None:
        self.place, self._depth = 0, depth
        self._data, self._weights, self._refuse = data, weights, refuse
        self._left = _MAX_FIELDS

    def message(self, place: int, end: int, descriptor: Any, depth: int) -> None:
        """The fields from ``place`` to ``end``. Raises Cut, DamagedMessage and _TooLarge."""
        fields = descriptor.fields_by_number
        while place < end and self._left:
            self._left -= 1
            self.place = place
            tag, place = varint(self._data, place)
            number, wire = tag >> 3, tag & 7
            if number == 0 or wire not in (_VARINT, _BYTES, *_FIXED):
                raise DamagedMessage  # groups are none either: version 3 has none
            if wire in _FIXED:
                place += _FIXED[wire]
            else:
                value, place = varint(self._data, place)
                if wire == _BYTES:
                    if place + value > end:
                        raise Cut
                    self._field(fields.get(number), number, place, value, depth)
                    place += value
            if place > end:
                raise Cut

    def _field(self, field: Any, number: int, place: int, size: int, depth: int) -> None:
        if field is not None and field.message_type is not None:
            if depth < self._depth:
                self.message(place, place + size, field.message_type, depth + 1)
            return
        if size <= MAX_TEXT or not self._depth:
            return
        if field is None:
            raise _TooLarge(f"there is an unknown field {number} of {size} bytes")
        name = f"{field.containing_type.name}.{field.name}"
        if field.type in (field.TYPE_STRING, field.TYPE_BYTES) and name not in self._weights:
            self._refuse(field)
            raise _TooLarge(f"{name} has {size} bytes")
