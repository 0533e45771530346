"""Quirks of drivers that they do not report: faults, and which reads are fast. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vknn.plan import DeviceLimits, MeasuredSpeeds
from vknn.runtime.compute_units import compute_units
from vknn.runtime.memory_types import ANY, memory_type
from vknn.runtime.snapshot import Snapshot

# VkDriverId
SWIFTSHADER, LLVMPIPE = 10, 13


@dataclass(frozen=True)
class Quirk:
    """A fault of a driver: the features not to use, and why. ``unusable``: use nothing of it."""

    name: str
    reason: str
    applies: Callable[[Snapshot], bool]
    disables: frozenset[str] = frozenset()
    unusable: bool = False


def is_llvmpipe(snapshot: Snapshot) -> bool:
    return snapshot.driver == LLVMPIPE or "llvmpipe" in snapshot.name.lower()


def is_swiftshader(snapshot: Snapshot) -> bool:
    return snapshot.driver == SWIFTSHADER or "swiftshader" in snapshot.name.lower()


QUIRKS: tuple[Quirk, ...] = ()

#: Which features a name in VKNN_DISABLE takes away.
_DISABLES = {
    "fp16": frozenset(("fp16_storage", "fp16_arithmetic", "cooperative_matrix", "float_dot")),
    "int64": frozenset(("int64",)),
    "subgroup": frozenset(("subgroup_shuffle", "subgroup_arithmetic", "cooperative_matrix")),
    "cooperative": frozenset(("cooperative_matrix",)),
    "dot": frozenset(("integer_dot", "integer_dot_fast", "integer_dot_mixed", "float_dot")),
    "timestamps": frozenset(("timestamps",)),
}


def unusable(snapshot: Snapshot, quirks: tuple[Quirk, ...] = QUIRKS) -> str | None:
    """Reason why the driver must not be used; None where it may."""
    return next((q.reason for q in quirks if q.unusable and q.applies(snapshot)), None)


def usable_features(
    snapshot: Snapshot, disabled: frozenset[str] = frozenset(), quirks: tuple[Quirk, ...] = QUIRKS
) -> frozenset[str]:
    """The features to switch on: those offered, less known faults and what the user disabled."""
    off = frozenset().union(
        *(q.disables for q in quirks if q.applies(snapshot)),
        *(_DISABLES.get(name, frozenset()) for name in disabled),
    )
    return snapshot.features - off


def preferred_access(snapshot: Snapshot, disabled: frozenset[str] = frozenset()) -> str:
    """Access mode by which shaders best read tensors: "storage", "texel" or "image"."""
    if "texel" in disabled:
        return "storage"
    # Measured: both texel forms read more than twice as fast as storage buffers, and in the inner
    # loop of a matrix product imageLoad is a sixth faster than texelFetch. On SwiftShader all three
    # are equally fast, so it gets the form without a limit on size, as GPUs do.
    return "image" if is_llvmpipe(snapshot) else "storage"


def unified_memory(snapshot: Snapshot, disabled: frozenset[str] = frozenset()) -> bool:
    """True where the host may work in device memory directly, by what its types of memory say."""
    able = memory_type(snapshot.memory_types, ANY, "unified") is not None
    return able and "unified" not in disabled


def writes_inputs_directly(snapshot: Snapshot, disabled: frozenset[str] = frozenset()) -> bool:
    """True where the host writes inputs into device memory that it cannot well read.

    A discrete GPU's memory behind its BAR: the host's writes go over the bus as they are made, and
    no copy and no barrier stand before the first dispatch.
    """
    able = memory_type(snapshot.memory_types, ANY, "input") is not None
    return able and "unified" not in disabled and not unified_memory(snapshot)


def copies_beside(snapshot: Snapshot, disabled: frozenset[str] = frozenset()) -> bool:
    """True where streams copy by a queue of their own: where they have something to copy."""
    return "copy-queue" not in disabled and not unified_memory(snapshot, disabled)


def keeps_threads(snapshot: Snapshot) -> bool:
    """True where the driver's threads last as long as any of its devices, for all later ones: in a
    forked process, which has none of them, a new device would wait for ever."""
    return is_swiftshader(snapshot)


def compiles_late(snapshot: Snapshot) -> bool:
    """True where pipelines are not compiled when they are created but at their first dispatch."""
    return is_llvmpipe(snapshot)


def device_limits(
    snapshot: Snapshot,
    disabled: frozenset[str] = frozenset(),
    speeds: MeasuredSpeeds | None = None,
) -> DeviceLimits:
    """Limits of a device for lowering, from its snapshot less what is disabled or faulty."""
    return DeviceLimits(
        name=snapshot.name,
        kind=snapshot.kind,
        vendor_id=snapshot.vendor_id,
        max_storage_buffer_range=snapshot.max_storage_buffer_range,
        max_texel_buffer_elements=snapshot.max_texel_buffer_elements,
        storage_alignment=snapshot.storage_alignment,
        texel_alignment=snapshot.texel_alignment,
        max_push_constants=snapshot.max_push_constants,
        max_storage_buffers=snapshot.max_storage_buffers,
        max_group_count=snapshot.max_group_count,
        max_group_size=snapshot.max_group_size,
        max_group_invocations=snapshot.max_group_invocations,
        shared_memory=snapshot.shared_memory,
        subgroup_size=snapshot.subgroup_size,
        unified_memory=unified_memory(snapshot, disabled),
        features=usable_features(snapshot, disabled),
        cooperative=snapshot.cooperative,
        preferred_access=preferred_access(snapshot, disabled),
        compute_units=compute_units(snapshot),
        speeds=speeds,
    )
