"""Targets: sets of limits by name, or of a file, that bundles are planned for.

Planning asks for limits alone; a bundle then says what its plans need (``vknn.bundle.needs``), so
that a target is no promise about phones of that name, and no limit below one either.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vknn.bundle.limits_file import checked_limits, read_limits
from vknn.errors import VknnError
from vknn.plan import DeviceLimits

#: A target: a name of TARGETS, a JSON file of limits, or limits.
TargetLike = str | os.PathLike[str] | DeviceLimits


@dataclass(frozen=True)
class PlanTarget:
    """Limits that a plan is made for, by the name that a bundle keeps."""

    name: str
    limits: DeviceLimits


# Where a number has no source it is the required minimum of Vulkan 1.1 (specification, "Required
# Limits"), which DeviceLimits has. None of these GPUs was seen: their numbers are those that Mesa's
# drivers report behind a drm-shim (docs/null-devices.md; `tools/null_devices run a740 vknn devices
# --json`), whose compiler and limits need not be the vendor's own. Processors are left out of all:
# plans are estimated by the vendor's id.

_PLAIN = frozenset(("subgroup_arithmetic", "subgroup_shuffle", "timestamps"))
_HALF = frozenset(("fp16_storage", "fp16_arithmetic"))

#: Turnip (Mesa 26.2.6) on the Adreno 630 and 660; the 630 alone is without fp16_storage and fast
#: dot products, and the two have all else alike.
_ADRENO_6XX = DeviceLimits(
    name="adreno-6xx",
    kind="integrated",
    vendor_id=0x5143,  # Qualcomm, PCI-SIG
    max_storage_buffer_range=1 << 27,
    max_texel_buffer_elements=1 << 27,
    storage_alignment=64,  # Turnip: 4; texels want 64, and tensors may be read both ways
    texel_alignment=64,
    max_push_constants=128,  # Turnip: 256; the specification's minimum is enough
    max_storage_buffers=24,  # Turnip: 2^24; no kernel of vknn's binds more
    max_group_count=(65535, 65535, 65535),
    max_group_size=(1024, 1024, 64),
    max_group_invocations=1024,  # Turnip: 2048; no kernel has more than 1024 lanes
    shared_memory=32768,
    subgroup_size=128,
    unified_memory=True,
    features=_PLAIN | {"fp16_arithmetic", "int8_arithmetic"},
)

TARGETS: dict[str, DeviceLimits] = {
    # Vulkan 1.1, specification, "Required Limits"; nothing optional, storage buffers.
    "generic": DeviceLimits(name="generic"),
    "adreno-6xx": _ADRENO_6XX,
    # Turnip (Mesa 26.2.6) on the Adreno 730, 740 and 750, all alike.
    "adreno-7xx": replace(
        _ADRENO_6XX,
        name="adreno-7xx",
        features=_PLAIN | _HALF | {"int8_arithmetic", "integer_dot", "integer_dot_fast"},
    ),
    # PanVK of Mesa's main branch, panvk_vX_physical_device.c, pan_subgroup_size() and
    # panvk_descriptor_set_layout.h, for Valhall; its largest workgroup is the kernel driver's word,
    # so that this is the specification's. ARM's own driver was not looked at.
    "mali-g7xx": DeviceLimits(
        name="mali-g7xx",
        kind="integrated",
        vendor_id=0x13B5,  # ARM, PCI-SIG
        max_texel_buffer_elements=1 << 16,
        texel_alignment=64,
        storage_alignment=64,  # PanVK: 4
        max_storage_buffers=24,  # PanVK: 64 and more
        shared_memory=32768,
        subgroup_size=16,
        unified_memory=True,
        features=_PLAIN | {"fp16_storage"},
    ),
    # RDNA 2 and 3 with a driver of Samsung's, of which nothing here reports numbers: but for those
    # with a source of their own, the specification's minimum.
    "xclipse": DeviceLimits(
        name="xclipse",
        kind="integrated",  # Exynos 2200 (Samsung's product page): GPU and CPU on one chip
        vendor_id=0x144D,  # Samsung, PCI-SIG; vulkan.gpuinfo.org's reports of Xclipse have it, too
        unified_memory=True,  # as above: one LPDDR5 memory
        # vulkan.gpuinfo.org's reports of the Xclipse 530 to 950, as the text of llama.cpp's pull
        # request 28531 (September 2026) lists them; the 960 has twice as much.
        shared_memory=32768,
        subgroup_size=32,  # RDNA's narrower waves (AMD, "RDNA Architecture", whitepaper, 2019)
    ),
    # Honeykrisp (Mesa 26.2.6) on the M1. MoltenVK's limits are Metal's ("Metal Feature Set
    # Tables": 32 KB of threadgroup memory, 1,024 threads, all families from Apple 4 on).
    "apple": DeviceLimits(
        name="apple",
        kind="integrated",
        vendor_id=0x106B,  # Apple, PCI-SIG
        max_storage_buffer_range=1 << 28,
        max_texel_buffer_elements=1 << 26,
        storage_alignment=16,
        texel_alignment=16,
        max_storage_buffers=24,  # Honeykrisp: 2^20; Metal: 31 buffers
        max_group_count=(65535, 65535, 65535),  # Honeykrisp: 2^31 - 1 in x
        max_group_size=(1024, 1024, 64),
        max_group_invocations=1024,
        shared_memory=32768,
        subgroup_size=32,
        unified_memory=True,
        features=_PLAIN | _HALF | {"int8_arithmetic"},
    ),
    # The least of RADV (Mesa 26.2.6: Polaris 10 to RDNA 4), NVK (GM200, TU104, GA102, AD102) and
    # ANV (22.3.6: Skylake to DG2), and what all of them can do.
    "desktop": DeviceLimits(
        name="desktop",
        kind="discrete",
        max_storage_buffer_range=1 << 30,
        max_texel_buffer_elements=1 << 27,
        storage_alignment=16,
        texel_alignment=16,
        max_push_constants=128,
        max_storage_buffers=65535,
        max_group_count=(65535, 65535, 65535),
        max_group_size=(1024, 1024, 64),
        max_group_invocations=1024,
        shared_memory=49152,
        subgroup_size=32,  # RADV: 64
        features=_PLAIN | {"fp16_storage", "int64", "int8_arithmetic", "integer_dot"},
    ),
    # Mesa 22.3.6 with LLVM 15 and 256 bits, as `vknn devices --json` has it.
    "llvmpipe": DeviceLimits(
        name="llvmpipe",
        kind="cpu",
        vendor_id=0x10005,  # Mesa, Vulkan registry
        max_storage_buffer_range=1 << 27,
        max_texel_buffer_elements=1 << 27,
        storage_alignment=16,
        texel_alignment=16,
        max_push_constants=128,
        max_storage_buffers=32,
        max_group_count=(65535, 65535, 65535),
        max_group_size=(1024, 1024, 1024),
        max_group_invocations=1024,
        shared_memory=32768,
        subgroup_size=8,
        unified_memory=True,
        features=_PLAIN | _HALF | {"int64", "int8_arithmetic", "integer_dot"},
        preferred_access="image",
    ),
}


def chosen_targets(given: TargetLike | Sequence[TargetLike]) -> list[PlanTarget]:
    """The targets that are asked for, in their order, each once.

    Raises VknnError for names that nobody knows, for files that hold no limits, and for limits that
    no device can have.
    """
    if isinstance(given, Iterable) and not isinstance(given, str | os.PathLike):
        found = [_target(one) for one in given]
    else:
        found = [_target(given)]
    if not found:
        raise VknnError("there are no targets: name one, such as 'generic'")
    names = [target.name for target in found]
    for name in names:
        if names.count(name) > 1:
            raise VknnError(f"target {name!r:.200} is given twice")
    return found


def _target(given: object) -> PlanTarget:
    if isinstance(given, DeviceLimits):
        return PlanTarget(given.name, checked_limits(given))
    if not isinstance(given, str | os.PathLike):
        raise VknnError(f"a target is a name, a file or limits, not {type(given).__name__}")
    if isinstance(given, str) and given in TARGETS:
        return PlanTarget(given, TARGETS[given])
    path = Path(given)
    if isinstance(given, os.PathLike) or path.suffix.lower() == ".json":
        limits = read_limits(path)
        return PlanTarget(limits.name, limits)
    near = difflib.get_close_matches(given, TARGETS, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise VknnError(
        f"there is no target {given!r:.200}; there are {', '.join(TARGETS)}, and .json files of "
        f"limits, such as `vknn devices --json` writes{hint}"
    )
