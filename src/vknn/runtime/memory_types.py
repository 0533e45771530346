"""Types of a device's memory: which of them serves what. Pure. The C runner has the same rules."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.runtime.snapshot import (
    DEVICE_LOCAL,
    HOST_CACHED,
    HOST_COHERENT,
    HOST_VISIBLE,
    MemoryType,
)

#: What a buffer is for -> memory flags it must have, then wishes, the most important first.
_MAPPED = DEVICE_LOCAL | HOST_VISIBLE
_WISHES: dict[str, tuple[int, tuple[int, ...]]] = {
    "device": (0, (DEVICE_LOCAL,)),
    "unified": (_MAPPED, (HOST_CACHED, HOST_COHERENT)),
    "input": (_MAPPED, (HOST_COHERENT,)),
    "upload": (HOST_VISIBLE, (HOST_COHERENT,)),
    "download": (HOST_VISIBLE, (HOST_CACHED, HOST_COHERENT)),
}

#: Lazily allocated, protected, and for debugging: slow, or not for buffers.
_ODD = 0xF0

#: Allowed types of a buffer that may lie anywhere.
ANY = 0xFFFFFFFF


def memory_type(types: Sequence[MemoryType], allowed: int, purpose: str) -> int | None:
    """Index of the best memory type for a purpose; None where there is none.

    Among equals the first one: drivers list the faster types first.

    Args:
        types: All types of the device.
        allowed: Bit mask of indices, VkMemoryRequirements::memoryTypeBits.
        purpose: "device", "unified" (host and device both work there), "input" (the host writes,
            the device reads), "upload" or "download" (staging).
    """
    needed, wishes = _WISHES[purpose]
    usable = [i for i, t in enumerate(types) if allowed >> i & 1 and not t.flags & _ODD]
    able = [i for i in usable if types[i].flags & needed == needed]
    best = max(able, key=lambda i: _grade(types[i], purpose, wishes), default=None)
    if best is None or purpose != "unified":
        return best
    return best if _is_shared(types, usable, best, memory_type(types, allowed, "device")) else None


def _grade(type_: MemoryType, purpose: str, wishes: Sequence[int]) -> tuple[bool, ...]:
    met = [bool(type_.flags & wish) for wish in wishes]
    # Staging memory that is also device-local sits behind the bus, or in a small window.
    return (*met, purpose in ("unified", "device", "input") or not type_.flags & DEVICE_LOCAL)


def _is_shared(
    types: Sequence[MemoryType], usable: Sequence[int], index: int, own: int | None
) -> bool:
    """Whether the host works as well as the device in a type of memory that both reach.

    It is of the heap that the device's ``own`` memory comes from, which a window is not; and the
    host caches it, or has none apart from it. What discrete GPUs show of theirs, all of it even,
    the host reads over the bus, uncached.
    """
    if own is None or types[own].heap != types[index].heap:
        return False
    fast = HOST_CACHED | HOST_COHERENT
    if types[index].flags & fast == fast:
        return True
    return all(types[i].flags & _MAPPED != HOST_VISIBLE for i in usable)
