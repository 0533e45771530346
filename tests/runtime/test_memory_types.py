"""Which memory serves what, and where the host works in the device's: by its types alone."""

from __future__ import annotations

import dataclasses

import pytest

from vknn.runtime.memory_types import ANY, memory_type
from vknn.runtime.quirks import (
    copies_beside,
    device_limits,
    unified_memory,
    writes_inputs_directly,
)
from vknn.runtime.snapshot import (
    DEVICE_LOCAL,
    HOST_CACHED,
    HOST_COHERENT,
    HOST_VISIBLE,
    KINDS,
    MemoryType,
    Snapshot,
)

LOCAL = MemoryType(DEVICE_LOCAL, 0)
BAR = MemoryType(DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT, 0)
WINDOW = MemoryType(DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT, 2)
CACHED_WINDOW = MemoryType(DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT | HOST_CACHED, 2)
SYSTEM = MemoryType(HOST_VISIBLE | HOST_COHERENT, 1)
CACHED = MemoryType(HOST_VISIBLE | HOST_COHERENT | HOST_CACHED, 1)
UNIFIED_CACHED = MemoryType(DEVICE_LOCAL | HOST_VISIBLE | HOST_CACHED, 0)
SHARED = MemoryType(DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT | HOST_CACHED, 0)
LAZY = MemoryType(DEVICE_LOCAL | 0x10, 0)
PROTECTED = MemoryType(HOST_VISIBLE | HOST_COHERENT | 0x20, 3)


def device(*types: MemoryType, kind: str = "other") -> Snapshot:
    return Snapshot(kind=kind, memory_types=types)


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize(
    ("types", "unified", "direct"),
    [
        # CPUs, Apple, Turnip, others of one memory: all that the host sees is the device's.
        ((SHARED,), True, False),
        ((SHARED, BAR), True, False),
        ((BAR, SHARED, UNIFIED_CACHED, LAZY), True, False),
        ((LOCAL, BAR), True, False),
        ((BAR,), True, False),
        ((LOCAL, UNIFIED_CACHED, PROTECTED), True, False),
        # Some of it is the host's alone, but the host caches the device's.
        ((LOCAL, SYSTEM, SHARED), True, False),
        ((LOCAL, CACHED, SHARED), True, False),
        # A whole BAR (RADV lists APUs so, too), another one, a driver that keeps copies in step.
        ((LOCAL, SYSTEM, BAR, CACHED), False, True),
        ((LOCAL, BAR, CACHED), False, True),
        ((LOCAL, SYSTEM, UNIFIED_CACHED), False, True),
        # A small window onto memory that lies in another heap.
        ((LOCAL, SYSTEM, WINDOW, CACHED), False, True),
        ((LOCAL, WINDOW), False, True),
        ((LOCAL, CACHED_WINDOW), False, True),
        # Nothing for host and device both.
        ((LOCAL, SYSTEM), False, False),
        ((LOCAL, CACHED), False, False),
        ((), False, False),
    ],
)
def test_host_and_device_share_memory_where_its_types_say_so(
    types: tuple[MemoryType, ...], unified: bool, direct: bool, kind: str
) -> None:
    snapshot = device(*types, kind=kind)
    assert unified_memory(snapshot) is unified
    assert writes_inputs_directly(snapshot) is direct
    assert copies_beside(snapshot) is not unified
    off = frozenset(("unified",))
    assert not unified_memory(snapshot, off)
    assert not writes_inputs_directly(snapshot, off)


def test_copies_have_no_queue_where_it_is_switched_off() -> None:
    assert not copies_beside(device(LOCAL, SYSTEM), frozenset(("copy-queue",)))


@pytest.mark.parametrize(
    ("types", "allowed", "purpose", "expected"),
    [
        ((SYSTEM, LOCAL, BAR), 7, "device", 1),
        ((SYSTEM, LOCAL, BAR), 5, "device", 2),
        ((LAZY, PROTECTED, LOCAL), 7, "device", 2),
        ((LOCAL, SYSTEM, CACHED, BAR), 15, "upload", 1),
        ((LOCAL, SYSTEM, CACHED, BAR), 15, "download", 2),
        ((PROTECTED, SYSTEM), 3, "upload", 1),
        ((LOCAL, BAR), 3, "upload", 1),
        ((BAR, UNIFIED_CACHED), 3, "unified", 1),
        ((BAR, UNIFIED_CACHED, SHARED), 7, "unified", 2),
        ((BAR, SYSTEM), 1, "unified", 0),  # the host's own is not for this buffer
        ((LOCAL, SHARED), 1, "unified", None),
        ((SHARED, SYSTEM, BAR), 6, "unified", None),
        ((LOCAL, SYSTEM), 3, "unified", None),
        ((LOCAL, SYSTEM), 0, "device", None),
        ((LOCAL, SYSTEM, UNIFIED_CACHED, BAR), 15, "input", 3),
        ((LOCAL, SYSTEM), 3, "input", None),
        ((LOCAL,) * 31 + (SHARED,), ANY, "unified", 31),
    ],
)
def test_memory_type(
    types: tuple[MemoryType, ...], allowed: int, purpose: str, expected: int | None
) -> None:
    assert memory_type(types, allowed, purpose) == expected


def test_limits_repeat_it() -> None:
    snapshot = device(LOCAL, BAR)
    assert device_limits(snapshot).unified_memory
    assert not device_limits(dataclasses.replace(snapshot, memory_types=(LOCAL,))).unified_memory
