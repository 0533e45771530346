"""Suitability: what a device lacks that a plan of a bundle needs."""

from __future__ import annotations

from vknn.bundle.needs import Needs
from vknn.bundle.records import BundlePlan
from vknn.bundle.schema import Feature
from vknn.runtime import Snapshot
from vknn.runtime.quirks import is_llvmpipe

#: Features -> how a snapshot calls them. Of others it tells nothing.
_FEATURES = {
    Feature.STORAGE_16BIT: "fp16_storage",
    Feature.FLOAT16: "fp16_arithmetic",
    Feature.INT8: "int8_arithmetic",
    Feature.INT64: "int64",
    Feature.INTEGER_DOT: "integer_dot",
    Feature.FLOAT_DOT: "float_dot",
    Feature.COOPERATIVE_MATRIX: "cooperative_matrix",
    Feature.SUBGROUP_ARITHMETIC: "subgroup_arithmetic",
    Feature.SUBGROUP_SHUFFLE: "subgroup_shuffle",
}
#: Parts of those above, or what Vulkan 1.1 has without asking.
_IMPLIED = {
    Feature.SUBGROUP_BASIC: "",  # required of every device that computes
    Feature.FULL_SUBGROUPS: "cooperative_matrix",
    Feature.VULKAN_MEMORY_MODEL: "cooperative_matrix",
    Feature.MEMORY_MODEL_DEVICE_SCOPE: "cooperative_matrix",
}
#: Rounds of loops that llvmpipe runs, and other devices.
_ROUNDS, _ANY = 65535, (1 << 32) - 1
#: VkComponentTypeKHR -> element types.
_COMPONENTS = {0: "float16", 1: "float32", 2: "float64", 3: "int8", 5: "int32", 7: "uint8"}


def lacking(plan: BundlePlan, snapshot: Snapshot, *, program: bool = False) -> list[str]:
    """Things that the device lacks, each in a few words; none where the plan can run on it.

    ``program``: by vknn-run, which can ask drivers for more than vknn does: things that it alone
    may have, or tell, are left out.
    """
    needs = plan.needs
    found = [*_features(needs.features, snapshot), *_limits(needs, snapshot)]
    known = {(m.m, m.n, m.k, m.factors, m.sums) for m in snapshot.cooperative}
    for product in needs.matrices:
        kinds = tuple(_COMPONENTS.get(kind, "?") for kind in (product.factors, product.sums))
        sizes = (product.m, product.n, product.k)
        if (*sizes, *kinds) not in known:
            text = "x".join(map(str, sizes))
            found.append(f"products of cooperative matrices {text} of {kinds[0]} into {kinds[1]}")
    size, has = needs.subgroup_size, snapshot.subgroup_size
    if size and size != has:
        askable = _sizes_can_be_asked_for(snapshot)
        more = f"; vknn-run alone asks for {size}, which the driver may have" if askable else ""
        if not (program and askable):
            found.append(f"subgroups of {size} (it has {has}{more})")
    if not program:
        found += [f"{_name(f)} (vknn-run tells whether it has that)" for f in _unknown(needs)]
    return found


def _sizes_can_be_asked_for(snapshot: Snapshot) -> bool:
    """Whether pipelines can say the size of their subgroups, within limits that are not known."""
    extension = "VK_EXT_subgroup_size_control"
    return snapshot.api_version[:2] >= (1, 3) or extension in snapshot.extensions


def _unknown(needs: Needs) -> list[Feature]:
    """Features of which a snapshot tells nothing."""
    return [f for f in Feature if f in needs.features and f not in {**_FEATURES, **_IMPLIED}]


def needs_text(needs: Needs) -> dict[str, str]:
    """Needs of a plan, as names and values for people."""
    features = " ".join(_name(f) for f in Feature if f in needs.features)
    version = f"{needs.vulkan >> 22 & 0x7F}.{needs.vulkan >> 12 & 0x3FF}"
    told = {
        "Vulkan": version,
        "features": features,
        "largest storage buffer": f"{needs.storage_range:,} bytes",
        "texels of a view": f"{needs.texel_elements:,}" if needs.texel_elements else "",
        "workgroup": f"{'x'.join(map(str, needs.group_size))}, {needs.group_invocations} lanes",
        "workgroups": "x".join(map(str, needs.group_count)),
        "shared memory": f"{needs.shared_memory:,} bytes" if needs.shared_memory else "",
        "push constants": f"{needs.push_bytes} bytes",
        "buffers of a pipeline": f"{needs.storage_buffers} storage, "
        f"{needs.uniform_texel_buffers} uniform texel, {needs.storage_texel_buffers} storage texel",
        "alignment": f"storage {needs.storage_alignment}, texel {needs.texel_alignment}",
        "subgroup size": str(needs.subgroup_size or ""),
    }
    return {name: text for name, text in told.items() if text}


def _features(wanted: Feature, snapshot: Snapshot) -> list[str]:
    names = {**_FEATURES, **_IMPLIED}
    asked = ((feature, names.get(feature)) for feature in Feature if feature in wanted)
    return [_name(feature) for feature, name in asked if name and name not in snapshot.features]


def _limits(needs: Needs, snapshot: Snapshot) -> list[str]:
    major, minor = needs.vulkan >> 22 & 0x7F, needs.vulkan >> 12 & 0x3FF
    found = []
    if snapshot.api_version[:2] < (major, minor):
        has = ".".join(map(str, snapshot.api_version))
        found.append(f"Vulkan {major}.{minor} (it has {has})")
    pairs = {
        "bytes of a storage buffer": (needs.storage_range, snapshot.max_storage_buffer_range),
        "texels of a view": (needs.texel_elements, snapshot.max_texel_buffer_elements),
        "lanes of a workgroup": (needs.group_invocations, snapshot.max_group_invocations),
        "bytes of shared memory": (needs.shared_memory, snapshot.shared_memory),
        "bytes of push constants": (needs.push_bytes, snapshot.max_push_constants),
        "storage buffers of a pipeline": (needs.storage_buffers, snapshot.max_storage_buffers),
        # Elsewhere a runner takes any number: llvmpipe alone ends loops in silence.
        "rounds of loops": (needs.loop_rounds, _ROUNDS if is_llvmpipe(snapshot) else _ANY),
    }
    for axis, letter in enumerate("xyz"):
        pairs |= {
            f"lanes of a workgroup in {letter}": (
                needs.group_size[axis], snapshot.max_group_size[axis]
            ),
            f"workgroups in {letter}": (needs.group_count[axis], snapshot.max_group_count[axis]),
        }  # fmt: skip
    found += [f"{n:,} {name} (it has {has:,})" for name, (n, has) in pairs.items() if n > has]
    for name, told, wanted in (
        ("storage buffers", needs.storage_alignment, snapshot.storage_alignment),
        ("texel views", needs.texel_alignment, snapshot.texel_alignment),
    ):
        if wanted and told % wanted:
            found.append(f"{name} at multiples of {told} (it wants {wanted})")
    return found


def _name(feature: Feature) -> str:
    return str(feature.name).lower()
