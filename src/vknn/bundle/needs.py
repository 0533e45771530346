"""Needs of a plan: what a device must have and be able to do, taken from the plan and its modules.

Not from the limits that it was made for: a bundle runs wherever it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vknn.bundle.module_facts import MatrixProduct, ModuleFacts
from vknn.bundle.schema import Feature
from vknn.errors import ShaderError
from vknn.plan import Binding, DeviceLimits, Dispatch, Plan, Role, View

#: Offsets are multiples of it at most: no device may want more (specification, "Required Limits").
MOST_ALIGNMENT = 256
#: VK_API_VERSION_1_1
VULKAN_1_1 = 1 << 22 | 1 << 12
#: Capability (SPIR-V specification, 3.31) -> what gives it in Vulkan; nothing: Vulkan 1.0 does.
_CAPABILITIES: dict[int, Feature] = {
    1: Feature(0),  # Shader
    9: Feature.FLOAT16,
    10: Feature.FLOAT64,
    11: Feature.INT64,
    22: Feature.INT16,
    39: Feature.INT8,
    46: Feature(0),  # SampledBuffer
    47: Feature(0),  # ImageBuffer
    50: Feature(0),  # ImageQuery
    61: Feature.SUBGROUP_BASIC,
    62: Feature.SUBGROUP_VOTE,
    63: Feature.SUBGROUP_ARITHMETIC,
    64: Feature.SUBGROUP_BALLOT,
    65: Feature.SUBGROUP_SHUFFLE,
    66: Feature.SUBGROUP_SHUFFLE_RELATIVE,
    4433: Feature.STORAGE_16BIT,  # StorageBuffer16BitAccess
    4448: Feature.STORAGE_8BIT,  # StorageBuffer8BitAccess
    5345: Feature.VULKAN_MEMORY_MODEL,
    5346: Feature.MEMORY_MODEL_DEVICE_SCOPE,
    6016: Feature.INTEGER_DOT,  # DotProductInputAll
    6017: Feature.INTEGER_DOT,  # DotProductInput4x8Bit
    6018: Feature.INTEGER_DOT,  # DotProductInput4x8BitPacked
    6019: Feature.INTEGER_DOT,  # DotProduct
    6912: Feature.FLOAT_DOT,  # DotProductFloat16AccFloat32VALVE
    6022: Feature.COOPERATIVE_MATRIX | Feature.FULL_SUBGROUPS,
}


#: Features by which lanes exchange numbers: a plan counts on the subgroups' size.
_EXCHANGES = (
    Feature.SUBGROUP_VOTE
    | Feature.SUBGROUP_ARITHMETIC
    | Feature.SUBGROUP_BALLOT
    | Feature.SUBGROUP_SHUFFLE
    | Feature.SUBGROUP_SHUFFLE_RELATIVE
    | Feature.COOPERATIVE_MATRIX
)
#: Version of SPIR-V -> the first of Vulkan that takes it ("Versions and Formats").
_VERSIONS = {(1, 4): 2, (1, 5): 2, (1, 6): 3}


@dataclass(frozen=True)
class Needs:
    """Needs of a plan; fields as of the record of a plan (``vknn.bundle.schema``).

    ``matrices``: the products of cooperative matrices that it takes, each once.
    """

    features: Feature
    storage_range: int
    texel_elements: int
    group_size: tuple[int, int, int]
    group_invocations: int
    group_count: tuple[int, int, int]
    shared_memory: int
    push_bytes: int
    storage_buffers: int
    uniform_texel_buffers: int
    storage_texel_buffers: int
    storage_alignment: int
    texel_alignment: int
    subgroup_size: int = 0
    loop_rounds: int = 0
    vulkan: int = VULKAN_1_1
    matrices: tuple[MatrixProduct, ...] = ()


def needs(plan: Plan, facts: Sequence[ModuleFacts], limits: DeviceLimits) -> Needs:
    """The needs of a plan.

    ``facts``: of each dispatch's module with its constants; ``limits``: what the plan was made for,
    of which its subgroups' size counts where lanes exchange numbers, and the rounds of its loops,
    of which plans keep no record. Raises ShaderError for a module with a capability that is not
    known here.
    """
    dispatches = plan.dispatches
    sizes = [group_size(d) for d in dispatches] or [(1, 1, 1)]
    features = Feature(0)
    for asked in {f.capabilities for f in facts}:
        features |= capabilities(asked)

    def most(view: View) -> int:
        return max((sum(b.view is view for b in d.bindings) for d in dispatches), default=0)

    bound = [b for d in dispatches for b in d.bindings]
    storage = [b for b in bound if b.view is View.STORAGE]
    texels = [b for b in bound if b.view is not View.STORAGE]
    minor = max((_VERSIONS.get(f.version, 1) for f in facts), default=1)
    return Needs(
        features=features,
        storage_range=max((plan.buffers[b.buffer].nbytes for b in storage), default=0),
        texel_elements=max(
            (plan.buffers[b.buffer].nbytes // b.format.texel_bytes for b in texels), default=0
        ),
        group_size=_largest(sizes),
        group_invocations=max(math.prod(size) for size in sizes),
        group_count=_largest([d.groups for d in dispatches] or [(1, 1, 1)]),
        shared_memory=max((f.shared_memory for f in facts), default=0),
        push_bytes=max((len(d.push) for d in dispatches), default=0),
        storage_buffers=most(View.STORAGE),
        uniform_texel_buffers=most(View.TEXEL),
        storage_texel_buffers=most(View.IMAGE),
        storage_alignment=_alignment(plan, storage),
        texel_alignment=_alignment(plan, texels),
        subgroup_size=limits.subgroup_size if features & _EXCHANGES else 0,
        loop_rounds=limits.max_loop_rounds if dispatches else 0,
        vulkan=1 << 22 | minor << 12,
        matrices=tuple(sorted({m for f in facts for m in f.matrices})),
    )


def group_size(dispatch: Dispatch) -> tuple[int, int, int]:
    """Size of a dispatch's workgroups: specialization constants 0, 1 and 2."""
    given = dict(dispatch.specialization)
    return int(given.get(0, 1)), int(given.get(1, 1)), int(given.get(2, 1))


def capabilities(numbers: Iterable[int]) -> Feature:
    """The features that capabilities of SPIR-V, by their numbers, ask for."""
    found = Feature(0)
    for number in numbers:
        if number not in _CAPABILITIES:
            raise ShaderError(f"has the SPIR-V capability {number}, which no bundle can ask for")
        found |= _CAPABILITIES[number]
    return found


def _largest(sizes: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    x, y, z = (max(axis) for axis in zip(*sizes, strict=True))
    return x, y, z


def _alignment(plan: Plan, bindings: Iterable[Binding]) -> int:
    """The largest power of two, up to MOST_ALIGNMENT, of which all offsets are multiples.

    Weights do not count: a runner puts them where the device wants them.
    """
    found = MOST_ALIGNMENT
    for binding in bindings:
        buffer = plan.buffers[binding.buffer]
        if buffer.role is not Role.WEIGHT:
            found = math.gcd(found, buffer.offset)
    return found
