"""Snapshot of a physical device: all that it reports, as pure data for every device policy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from vknn.plan import CooperativeMatrix

# VkMemoryPropertyFlagBits
DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
# VkQueueFlagBits
GRAPHICS, COMPUTE, TRANSFER = 1, 2, 4

#: VkPhysicalDeviceType -> kind
KINDS = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}

#: Where the groups of a UUID begin and end, in hexadecimal digits.
_UUID_GROUPS = (0, 8, 12, 16, 20, 32)


def uuid_selector(uuid: bytes) -> str:
    """The selector of a UUID: "uuid:" and five groups of digits."""
    digits = uuid.hex()
    return "uuid:" + "-".join(digits[start:end] for start, end in pairwise(_UUID_GROUPS))


@dataclass(frozen=True)
class MemoryType:
    """A type of memory.

    Attributes:
        flags: VkMemoryPropertyFlags.
        heap: Index of its heap.
    """

    flags: int
    heap: int


@dataclass(frozen=True)
class QueueFamily:
    """A family of queues.

    Attributes:
        flags: VkQueueFlags.
        timestamp_bits: Bits of a timestamp; 0 where timestamps are not possible.
        count: Number of its queues.
    """

    flags: int
    timestamp_bits: int = 0
    count: int = 1


@dataclass(frozen=True)
class Snapshot:
    """Properties that a physical device reports. The defaults are what Vulkan 1.1 guarantees.

    Attributes:
        index: Its place in the loader's list.
        name: Its name.
        kind: "discrete", "integrated", "virtual", "cpu" or "other".
        api_version: The Vulkan version of its driver.
        vendor_id: The vendor's PCI id.
        device_id: The device's PCI id.
        driver: VkDriverId where known, else 0.
        driver_name: Name of the driver.
        driver_info: Its version as text.
        driver_version: Its version as a number.
        uuid: VkPhysicalDeviceIDProperties::deviceUUID; zeros where it is not told.
        pci: Its PCI address, "0000:3b:00.0"; None where it has none or its driver does not tell.
        extensions: Names of the device extensions.
        features: Optional abilities that the device offers, used or not (see
            :class:`vknn.plan.DeviceLimits`).
        memory_types: Types of memory.
        heaps: Bytes of each heap.
        queue_families: Families of queues.
        max_storage_buffer_range: Bytes of the largest storage buffer.
        max_texel_buffer_elements: Elements of the largest texel buffer.
        storage_alignment: Bytes, of offsets of storage buffers.
        texel_alignment: Bytes, of offsets of texel buffers.
        max_push_constants: Bytes.
        max_storage_buffers: Storage buffers of a shader.
        max_group_count: Workgroups of a dispatch along x, y and z.
        max_group_size: Lanes of a workgroup along x, y and z.
        max_group_invocations: Lanes of a workgroup in all.
        shared_memory: Bytes of shared memory of a workgroup.
        subgroup_size: Lanes of a subgroup.
        max_allocation: Bytes of the largest allocation.
        non_coherent_atom: Bytes, of ranges of memory that is not coherent.
        timestamp_period: Nanoseconds of a timestamp's unit.
        pipeline_cache_uuid: VkPhysicalDeviceProperties::pipelineCacheUUID.
        cooperative: Products of matrices that subgroups can compute.
        unit_count: Processors that run workgroups: compute units (AMD), streaming multiprocessors
            (NVIDIA), shader cores (ARM); 0 where the driver does not tell.
        unit_lanes: Multiply-adds that one of them starts a clock; 0 where not told.
        unit_subgroups: Subgroups that one of them can hold; 0 where not told.
        is_null: Whether it computes nothing: its driver runs without the GPU.
        performance_queries: Whether counters can be read around commands and submits.
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
    uuid: bytes = bytes(16)
    pci: str | None = None
    extensions: frozenset[str] = frozenset()
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
    pipeline_cache_uuid: bytes = bytes(16)
    cooperative: tuple[CooperativeMatrix, ...] = ()
    unit_count: int = 0
    unit_lanes: int = 0
    unit_subgroups: int = 0
    is_null: bool = False
    performance_queries: bool = False

    def __repr__(self) -> str:
        """In a line what tells devices apart; the attributes have the rest."""
        version = ".".join(map(str, self.api_version))
        told = (self.kind, f"Vulkan {version}", f"{self.driver_name} {self.driver_info}".strip())
        return f"<vulkan:{self.index} {self.name}: {', '.join(filter(None, told))}>"

    @property
    def uuid_name(self) -> str | None:
        """Selector by its UUID, in five groups behind ``uuid:``; None where that is not told."""
        return uuid_selector(self.uuid) if any(self.uuid) else None

    @property
    def pci_name(self) -> str | None:
        """Selector by its PCI address, ``pci:0000:3b:00.0``; None where that is not known."""
        return None if self.pci is None else f"pci:{self.pci}"

    @property
    def lasting_names(self) -> tuple[str, ...]:
        """Selectors that mean it whatever other devices there are, unlike its index."""
        return tuple(filter(None, (self.uuid_name, self.pci_name)))

    @property
    def compute_family(self) -> int | None:
        """The queue family to use. One that also has graphics comes last.

        Families with compute alone do not wait behind the desktop's drawing.
        """
        able = [i for i, f in enumerate(self.queue_families) if f.flags & COMPUTE]
        return min(able, key=lambda i: (self._busy(i), i), default=None)

    @property
    def copy_family(self) -> int | None:
        """The family of a queue that copies beside the one that computes; None where there is none.

        One that can only copy drives an engine made for it. Else it is a second queue of the
        family that computes, or one of another.
        """
        own, families = self.compute_family, self.queue_families
        working = GRAPHICS | COMPUTE
        apart = [i for i, f in enumerate(families) if f.flags & (TRANSFER | working) == TRANSFER]
        if not apart and own is not None and families[own].count > 1:
            return own
        others = [i for i, f in enumerate(families) if i != own and f.flags & working]
        return next(iter(apart + others), None)

    def _busy(self, family: int) -> bool:
        # A timestamp is worth more than a quiet queue: profiles need it.
        entry = self.queue_families[family]
        return bool(entry.flags & GRAPHICS) or not entry.timestamp_bits

    @property
    def memory_bytes(self) -> int:
        """Size of the device-local heaps."""
        local = {m.heap for m in self.memory_types if m.flags & DEVICE_LOCAL}
        return sum(self.heaps[heap] for heap in local)
