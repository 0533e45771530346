"""FarmHash's Fingerprint64 of many keys of one length, in NumPy.

The algorithm was published as FarmHash ("na" form, 64 bits): keys are read as little-endian words,
mixed by multiplications modulo 2^64, rotations and shifts.
"""

from __future__ import annotations

import numpy as np

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MASK = (1 << 64) - 1
_BLOCK = 64

Words = np.ndarray
Pair = tuple[np.ndarray, np.ndarray]


def fingerprint64(keys: np.ndarray) -> np.ndarray:
    """uint64 [n] of keys, uint8 [n, length]."""
    length = keys.shape[1]
    with np.errstate(all="ignore"):
        if length <= 16:
            return _to_16(keys, length)
        if length <= 32:
            return _to_32(keys, length)
        if length <= 64:
            return _to_64(keys, length)
        return _longer(keys, length)


def _word(number: int) -> np.uint64:
    return np.uint64(number & _MASK)


def _fetch(keys: np.ndarray, place: int, size: int = 8) -> Words:
    """``size`` bytes from ``place`` on as a number."""
    part = np.ascontiguousarray(keys[:, place : place + size])
    return part.view(f"<u{size}")[:, 0].astype(np.uint64)


def _rotate(x: Words, bits: int) -> Words:
    """Rotation of 64-bit words to the right."""
    return (x >> np.uint64(bits)) | (x << np.uint64(64 - bits))


def _shift_mix(x: Words) -> Words:
    return x ^ (x >> np.uint64(47))


def _mixed(u: Words, v: Words, factor: np.uint64 | Words) -> Words:
    a = _shift_mix((u ^ v) * factor)
    return _shift_mix((v ^ a) * factor) * factor


def _to_16(keys: np.ndarray, n: int) -> Words:
    factor = _word(_K2 + 2 * n)
    if n >= 8:
        a, b = _fetch(keys, 0) + _word(_K2), _fetch(keys, n - 8)
        c = _rotate(b, 37) * factor + a
        return _mixed(c, (_rotate(a, 25) + b) * factor, factor)
    if n >= 4:
        a = _fetch(keys, 0, 4)
        return _mixed(_word(n) + (a << np.uint64(3)), _fetch(keys, n - 4, 4), factor)
    if n > 0:
        first, middle, last = (keys[:, i].astype(np.uint64) for i in (0, n >> 1, n - 1))
        y, z = first + (middle << np.uint64(8)), _word(n) + (last << np.uint64(2))
        return _shift_mix(y * _word(_K2) ^ z * _word(_K0)) * _word(_K2)
    return np.full(len(keys), _word(_K2))


def _to_32(keys: np.ndarray, n: int) -> Words:
    factor = _word(_K2 + 2 * n)
    a, b = _fetch(keys, 0) * _word(_K1), _fetch(keys, 8)
    c, d = _fetch(keys, n - 8) * factor, _fetch(keys, n - 16) * _word(_K2)
    left = _rotate(a + b, 43) + _rotate(c, 30) + d
    return _mixed(left, a + _rotate(b + _word(_K2), 18) + c, factor)


def _to_64(keys: np.ndarray, n: int) -> Words:
    factor = _word(_K2 + 2 * n)
    a, b = _fetch(keys, 0) * _word(_K2), _fetch(keys, 8)
    c, d = _fetch(keys, n - 8) * factor, _fetch(keys, n - 16) * _word(_K2)
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _mixed(y, a + _rotate(b + _word(_K2), 18) + c, factor)
    e, f = _fetch(keys, 16) * factor, _fetch(keys, 24)
    g, h = (y + _fetch(keys, n - 32)) * factor, (z + _fetch(keys, n - 24)) * factor
    return _mixed(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, factor)


def _weak(keys: np.ndarray, place: int, a: Words, b: Words) -> Pair:
    """Hash of 32 bytes with two seeds."""
    w, x, y, z = (_fetch(keys, place + 8 * i) for i in range(4))
    a = a + w
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _rotate(a, 44) + c


def _longer(keys: np.ndarray, n: int) -> Words:
    seed = 81
    x = _fetch(keys, 0) + _word(seed * _K2)
    y: Words = np.full(len(keys), _word(seed * _K1 + 113))
    z = _shift_mix(y * _word(_K2) + np.uint64(113)) * _word(_K2)
    zero = np.zeros(len(keys), np.uint64)
    v: Pair = (zero, zero)
    w: Pair = (zero, zero)
    k1 = _word(_K1)
    for s in range(0, (n - 1) // _BLOCK * _BLOCK, _BLOCK):
        x = _rotate(x + y + v[0] + _fetch(keys, s + 8), 37) * k1
        y = _rotate(y + v[1] + _fetch(keys, s + 48), 42) * k1
        x = x ^ w[1]
        y = y + v[0] + _fetch(keys, s + 40)
        z = _rotate(z + w[0], 33) * k1
        v = _weak(keys, s, v[1] * k1, x + w[0])
        w = _weak(keys, s + 32, z + w[1], y + _fetch(keys, s + 16))
        z, x = x, z
    return _last(keys, n, (x, y, z), v, w)


def _last(keys: np.ndarray, n: int, state: tuple[Words, Words, Words], v: Pair, w: Pair) -> Words:
    """The last 64 bytes, which overlap those before."""
    (x, y, z), s = state, n - _BLOCK
    factor = _word(_K1) + ((z & np.uint64(0xFF)) << np.uint64(1))
    first = w[0] + np.uint64((n - 1) % _BLOCK)
    v = (v[0] + first, v[1])
    w = (first + v[0], w[1])
    x = _rotate(x + y + v[0] + _fetch(keys, s + 8), 37) * factor
    y = _rotate(y + v[1] + _fetch(keys, s + 48), 42) * factor
    x = x ^ (w[1] * np.uint64(9))
    y = y + v[0] * np.uint64(9) + _fetch(keys, s + 40)
    z = _rotate(z + w[0], 33) * factor
    v = _weak(keys, s, v[1] * factor, x + w[0])
    w = _weak(keys, s + 32, z + w[1], y + _fetch(keys, s + 16))
    z, x = x, z
    left = _mixed(v[0], w[0], factor) + _shift_mix(y) * _word(_K0) + z
    return _mixed(left, _mixed(v[1], w[1], factor) + x, factor)
