"""Values that break what was not written for them, and damage to plain bytes."""

from __future__ import annotations

import random
import struct

import numpy as np

#: Beside powers of two and what is near them: ncnn's "not given", kernels and ranks of any kind.
INTEGERS = (
    -(1 << 31), -(1 << 24), -1000, -233, -5, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 31, 64, 100,
    127, 128, 255, 256, 1000, 4096, 32767, 65535, 65536, 1 << 20, 1 << 24, (1 << 31) - 1,
)  # fmt: skip
WIDE = (1 << 31, (1 << 32) - 1, 1 << 32, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63))
FLOATS = (
    float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-10,
    -1e-10, 1e10, 3e38, -3e38, 65504.0, 16777217.0, 2147483648.0, 0.1,
)  # fmt: skip


def integer(rng: random.Random, old: int = 0, wide: bool = False) -> int:
    """An integer: near the old one, a small one, or an extreme one."""
    way = rng.random()
    if way < 0.35:
        return rng.choice((old + 1, old - 1, old * 2, old // 2, -old, old + 2, 0))
    if way < 0.75:
        return rng.randrange(-2, 12)
    return rng.choice(INTEGERS + WIDE if wide else INTEGERS)


def real(rng: random.Random, old: float = 0.0) -> float:
    """A float: near the old one, or one of FLOATS."""
    if rng.random() < 0.4:
        return rng.choice((old * 2, -old, old / 2, old + 1, old - 1))
    return rng.choice(FLOATS)


def clipped(value: int, bits: int, signed: bool) -> int:
    """``value`` wrapped to an integer of that many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def spoiled_weights(rng: random.Random, data: bytes) -> bytes:
    """Raw weights with a few, or all, elements of float32 replaced."""
    words = np.frombuffer(data[: len(data) // 4 * 4], "<f4").copy()
    if not words.size:
        return data
    value = np.float32(rng.choice(FLOATS))
    way = rng.random()
    if way < 0.7:
        for _ in range(rng.choice((1, 1, 3))):
            words[rng.randrange(words.size)] = value
    elif way < 0.85:
        words[:] = value
    else:
        with np.errstate(all="ignore"):
            words *= np.float32(rng.choice((1e-30, 1e5, 1e30, -1.0, 0.0)))
    return words.tobytes() + data[words.size * 4 :]


def damaged(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """Bytes with one plain damage, and its name."""
    found = bytearray(data or b"\0")
    head = rng.random() < 0.5  # tables stand at the beginning of most files
    place = rng.randrange(min(len(found), 1024) if head else len(found))
    way = rng.choice(("flip", "byte", "word", "delete", "insert", "copy", "truncate"))
    if way == "flip":
        found[place] ^= 1 << rng.randrange(8)
    elif way == "byte":
        found[place] = rng.randrange(256)
    elif way == "word":
        word = struct.pack("<q", rng.choice(INTEGERS))[:4]
        found[place : place + 4] = word[: len(found) - place]
    elif way == "delete":
        del found[place : place + rng.randrange(1, 17)]
    elif way == "insert":
        found[place:place] = rng.randbytes(rng.randrange(1, 17))
    elif way == "copy":
        start, length = rng.randrange(len(found)), rng.randrange(1, 65)
        found[place : place + length] = found[start : start + length]
    else:
        del found[place:]
    return bytes(found), way
