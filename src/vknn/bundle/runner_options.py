"""Options of the runner, checked and as C takes them. Pure."""

from __future__ import annotations

import ctypes
import math
import operator
import os

import numpy as np

from vknn.errors import InputError


def text(name: str, value: object) -> bytes | None:
    """A text or path as C takes it, which ends at the first zero byte."""
    if value is None:
        return None
    try:
        found = os.fsencode(value)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        raise InputError(f"{name}={value!r}: this is no text") from None
    if b"\0" in found:
        raise InputError(f"{name}={value!r}: texts have no zero bytes")
    return found


def whole(name: str, value: object, most: int, least: int = 0) -> int:
    """A number that C's type holds, where ctypes would cut it."""
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        found = -1
    if not least <= found <= most:
        raise InputError(f"{name}={value!r}: expected a whole number from {least} to {most:,}")
    return found


def seconds(value: object) -> float:
    """A time limit."""
    if not isinstance(value, (int, float, np.number)) or not 0 <= float(value) < math.inf:
        raise InputError(f"time_limit={value!r}: expected seconds")
    return float(value)


def digest(text: str) -> ctypes.Array[ctypes.c_uint8]:
    """The bytes of a SHA-256 in hexadecimal."""
    try:
        data = bytes.fromhex(text)
    except (TypeError, ValueError):
        data = b""
    if len(data) != 32:
        raise InputError(f"sha256={text!r}: expected 64 hexadecimal digits")
    return (ctypes.c_uint8 * 32)(*data)
