"""Snapshot of a physical device: all that it reports, as pure data for every device policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from vknn.plan import CooperativeMatrix

# VkMemoryPropertyFlagBits
DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
# VkQueueFlagBits
GRAPHICS, COMPUTE = 1, 2

#: VkPhysicalDeviceType -> kind
KINDS = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}


@dataclass(frozen=True)
class MemoryType:
    """``flags``: VkMemoryPropertyFlags; ``heap``: index of its heap."""

    flags: int
    heap: int


@dataclass(frozen=True)
class QueueFamily:
    """``flags``: VkQueueFlags; ``timestamp_bits``: 0 where timestamps are not possible."""

    flags: int
    timestamp_bits: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A physical device. Sizes in bytes. ``index`` is its place in the loader's list.

    ``features``: optional abilities the device offers (see plan.DeviceLimits.features), whether or
    not they are used. ``driver``: VkDriverId where known, else 0. The defaults are the minimum
    that Vulkan 1.1 guarantees.
    """

    index: int = 0
    name: str = "device"
    kind: str = "other"
    api_version: tuple[int, int, int] = (1, 1, 0)
    vendor_id: int = 0
    device_id: int = 0
    driver: int = 0
    driver_name: str = ""
    driver_info: str = ""
    driver_version: int = 0
    uuid: bytes = field(default=bytes(16), repr=False)
    extensions: frozenset[str] = field(default=frozenset(), repr=False)
    features: frozenset[str] = frozenset()
    memory_types: tuple[MemoryType, ...] = ()
    heaps: tuple[int, ...] = ()
    queue_families: tuple[QueueFamily, ...] = (QueueFamily(COMPUTE),)
    max_storage_buffer_range: int = 1 << 27
    max_texel_buffer_elements: int = 1 << 16
    storage_alignment: int = 256
    texel_alignment: int = 256
    max_push_constants: int = 128
    max_storage_buffers: int = 4
    max_group_count: tuple[int, int, int] = (65535, 65535, 65535)
    max_group_size: tuple[int, int, int] = (128, 128, 64)
    max_group_invocations: int = 128
    shared_memory: int = 16384
    subgroup_size: int = 1
    max_allocation: int = 1 << 30
    non_coherent_atom: int = 256
    timestamp_period: float = 1.0
    pipeline_cache_uuid: bytes = field(default=bytes(16), repr=False)
    cooperative: tuple[CooperativeMatrix, ...] = ()

    @property
    def compute_family(self) -> int | None:
        """The queue family to use: one that also has graphics comes last.

        Families with compute alone do not wait behind the desktop's drawing.
        """
        able = [i for i, f in enumerate(self.queue_families) if f.flags & COMPUTE]
        return min(able, key=lambda i: (self._busy(i), i), default=None)

    def _busy(self, family: int) -> bool:
        # A timestamp is worth more than a quiet queue: profiles need it.
        entry = self.queue_families[family]
        return bool(entry.flags & GRAPHICS) or not entry.timestamp_bits

    @property
    def memory_bytes(self) -> int:
        """Size of the device-local heaps."""
        local = {m.heap for m in self.memory_types if m.flags & DEVICE_LOCAL}
        return sum(self.heaps[heap] for heap in local)
