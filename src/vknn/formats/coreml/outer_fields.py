"""Look at the outermost fields of a .mlmodel, before all of the file is read into memory.

Protocol buffers are parsed as a whole. That whole may be gigabytes that a damaged file, or one with
a hole, only claims to have.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from vknn.errors import ModelFormatError
from vknn.formats.coreml.signature import Cut, DamagedMessage, varint

#: What protocol buffers allow to a message.
MAX_BYTES = (1 << 31) - 1
#: Fields that are looked at; a model has about four, and unknown ones are allowed.
_MAX_FIELDS = 100
#: Bytes of the value by the wire type, where it says no more.
_FIXED = {1: 8, 5: 4}
_VARINT, _BYTES = 0, 2


def check_outer_fields(path: Path) -> None:
    """Check: ModelFormatError where the file cannot be one message, whatever is inside."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise ModelFormatError(
                f"{size} bytes are more than a Core ML model has: a protocol buffer ends below "
                "2 GiB",
                file=str(path),
            )
        if size == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            wrong = _wrong_place(data)
    if wrong is not None:
        raise ModelFormatError(
            "this is no Core ML model, or a damaged or truncated one: no field of it begins here, "
            "or it does not end within the file",
            file=str(path),
            offset=wrong,
        )


def _wrong_place(data: mmap.mmap) -> int | None:
    """Where a field begins that is none; None where those looked at are right."""
    place = 0
    for _ in range(_MAX_FIELDS):
        if place == len(data):
            return None
        try:
            behind = _behind(data, place)
        except (Cut, DamagedMessage):
            return place
        if behind > len(data):
            return place
        place = behind
    return None


def _behind(data: mmap.mmap, place: int) -> int:
    """The end of the field at ``place``. Raises Cut and DamagedMessage."""
    tag, place = varint(data, place)
    wire = tag & 7
    if tag >> 3 == 0 or wire not in (_VARINT, _BYTES, *_FIXED):
        raise DamagedMessage  # groups are none either: version 3 has none
    if wire in _FIXED:
        return place + _FIXED[wire]
    value, place = varint(data, place)
    return place + value if wire == _BYTES else place
