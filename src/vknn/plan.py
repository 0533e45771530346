"""Plan: the steps that a device is asked to take, as pure data. No Vulkan handle, op or graph."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from vknn.graph.types import TensorType, Term


@dataclass(frozen=True)
class CooperativeMatrix:
    """A product of matrices that a subgroup computes at once, ``m`` x ``k`` times ``k`` x ``n``.

    Attributes:
        m: Rows of the first factor.
        n: Columns of the second factor.
        k: Columns of the first factor.
        factors: Element type of both factors ("float16", "float32"...).
        sums: Element type of what is added to and comes out.
    """

    m: int
    n: int
    k: int
    factors: str = "float16"
    sums: str = "float32"


@dataclass(frozen=True)
class ComputeUnits:
    """A GPU's processors.

    Attributes:
        count: How many there are: compute units (AMD), streaming multiprocessors (NVIDIA), shader
            cores, Xe cores, ... elsewhere.
        lanes: fp32 multiply-adds that one of them starts a clock.
        gigahertz: Their clock.
    """

    count: int
    lanes: int
    gigahertz: float


@dataclass(frozen=True)
class MeasuredSpeeds:
    """Speeds of a device, measured by ``vknn bench --device-limits``, by which plans are estimated.

    Attributes:
        gflops: GFLOP/s of fp32 multiply-adds in registers; a multiply-add counts as two.
        gbytes: GB/s of a copy by a shader, read and written bytes together.
        dispatch: Seconds of a dispatch with its barrier.
    """

    gflops: float
    gbytes: float
    dispatch: float


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of a device that lowering may know of. Sizes in bytes.

    The defaults are the minimum that Vulkan 1.1 guarantees (specification, "Required Limits");
    fields are described at :class:`vknn.runtime.Snapshot`.
    """

    name: str = "vulkan-1.1-minimum"
    kind: str = "other"  # discrete, integrated, virtual, cpu, other
    vendor_id: int = 0
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
    subgroup_size: int = 4
    unified_memory: bool = False
    #: Rounds of all loops together that a shader invocation may run. Mesa's llvmpipe ends loops
    #: after 65,535 without an error; elsewhere it keeps a dispatch far from any watchdog.
    max_loop_rounds: int = 65535
    #: Optional abilities that are present and switched on, such as "int64", "fp16_storage",
    #: "fp16_arithmetic", "int8_arithmetic", "subgroup_shuffle", "integer_dot",
    #: "integer_dot_fast" (the device computes it by itself), "integer_dot_mixed" (only of signed
    #: by unsigned bytes), "float_dot" (pairs of float16 added to a float32), "cooperative_matrix"
    #: and "timestamps".
    features: frozenset[str] = frozenset()
    #: Products of matrices that subgroups can compute; only with "cooperative_matrix".
    cooperative: tuple[CooperativeMatrix, ...] = ()
    #: The way in which shaders best read tensors here, "storage", "texel" (texelFetch) or "image"
    #: (imageLoad).
    preferred_access: str = "storage"
    #: Its processors, where they are known; None on CPUs.
    compute_units: ComputeUnits | None = None
    #: What was measured on this very device, if anything was; None on CPUs.
    speeds: MeasuredSpeeds | None = None

    @property
    def alignment(self) -> int:
        """Alignment at which a tensor may start, whatever way it is read."""
        return max(self.storage_alignment, self.texel_alignment, 16)


class Role(Term):
    """Purpose of a buffer; the buffers of a role lie in one arena."""

    INPUT = "input"
    OUTPUT = "output"
    WEIGHT = "weight"
    ACTIVATION = "activation"


class Access(enum.Enum):
    READ = "read"
    WRITE = "write"
    READ_WRITE = "readwrite"

    @property
    def writes(self) -> bool:
        return self is not Access.READ

    @property
    def reads(self) -> bool:
        return self is not Access.WRITE


class View(Term):
    """Descriptor type by which a shader sees a buffer."""

    STORAGE = "storage"  # storage buffer
    TEXEL = "texel"  # uniform texel buffer, texelFetch
    IMAGE = "image"  # storage texel buffer, imageLoad


class TexelFormat(enum.Enum):
    """Element format of a texel view; the Vulkan names."""

    R32_SFLOAT = "r32_sfloat"
    RGBA32_SFLOAT = "r32g32b32a32_sfloat"
    R32_SINT = "r32_sint"
    RGBA32_SINT = "r32g32b32a32_sint"
    R16_SFLOAT = "r16_sfloat"
    RGBA16_SFLOAT = "r16g16b16a16_sfloat"
    R16_UINT = "r16_uint"
    RGBA16_UINT = "r16g16b16a16_uint"

    @property
    def texel_bytes(self) -> int:
        """Bytes of a texel."""
        return _TEXEL_BYTES[self]


_TEXEL_BYTES = {
    TexelFormat.R32_SFLOAT: 4,
    TexelFormat.RGBA32_SFLOAT: 16,
    TexelFormat.R32_SINT: 4,
    TexelFormat.RGBA32_SINT: 16,
    TexelFormat.R16_SFLOAT: 2,
    TexelFormat.RGBA16_SFLOAT: 8,
    TexelFormat.R16_UINT: 2,
    TexelFormat.RGBA16_UINT: 8,
}


@dataclass(frozen=True)
class Buffer:
    """A range of an arena: ``nbytes`` from ``offset``. Buffers that alias share bytes."""

    name: str
    role: Role
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Binding:
    """A buffer (by index) bound to a shader; ``format`` counts for texel views only."""

    buffer: int
    access: Access
    view: View = View.STORAGE
    format: TexelFormat = TexelFormat.RGBA32_SFLOAT


@dataclass(frozen=True)
class Dispatch:
    """One compute dispatch.

    ``variant`` are the compile-time choices, ``specialization`` the constants by id (ids 0, 1, 2
    are the workgroup size), ``push`` the push constants' bytes, ``nodes`` the layers it covers in
    the source file's words, ``flops`` and ``nbytes`` the work (bytes read and written once).
    ``source``: the GLSL of a kernel that is the user's own, to be compiled; ``kernel`` names it.
    """

    kernel: str
    variant: tuple[tuple[str, str], ...]
    specialization: tuple[tuple[int, int | float], ...]
    push: bytes
    bindings: tuple[Binding, ...]
    groups: tuple[int, int, int]
    nodes: tuple[str, ...] = ()
    label: str = ""
    flops: int = 0
    nbytes: int = 0
    source: str | None = None


@dataclass(frozen=True)
class Copy:
    """Copy of ``nbytes`` from the start of ``source`` plus offset to ``target`` plus offset."""

    source: int
    target: int
    nbytes: int
    source_offset: int = 0
    target_offset: int = 0
    nodes: tuple[str, ...] = ()
    label: str = "copy"


@dataclass(frozen=True)
class Fill:
    """Fill of every 32-bit word of a buffer with ``word``."""

    buffer: int
    word: int = 0
    nodes: tuple[str, ...] = ()
    label: str = "fill"


@dataclass(frozen=True)
class Barrier:
    """Barrier: all earlier writes are visible to all later work; ``buffers`` made it necessary."""

    buffers: tuple[int, ...]


Command = Dispatch | Copy | Fill
Step = Dispatch | Copy | Fill | Barrier


@dataclass(frozen=True)
class Port:
    """An input or output of a plan: host-side type, dense row-major in ``buffer``.

    On the device a float is 32 bits (or 16 in a plan of precision "fp16" or "bf16"), every integer
    and bool 32 bits. ``count``: buffer with one int32, the size of the first open dimension, where
    ``type`` is only an upper bound (``open_axis`` says which axis; all axes before it have size 1).
    ``width``: bytes of an element in the buffer. ``bfloat16``: floats of two bytes are bfloat16.
    ``as_typed``: elements lie as ``type`` has them on the host, a byte of int8, eight of int64.
    """

    buffer: int
    type: TensorType
    count: int | None = None
    open_axis: int = 0
    width: int = 4
    bfloat16: bool = False
    as_typed: bool = False


@dataclass(frozen=True)
class Guard:
    """Bytes behind a buffer that nothing may write."""

    role: Role
    offset: int
    nbytes: int


@dataclass(eq=False)
class Plan:
    """Steps in order over buffers in four arenas.

    ``submits`` are the ends (exclusive step indices) of the submits, the last one len(steps).
    ``constants`` maps weight buffers to their packed bytes; the same array object in two plans is
    the same weight.
    """

    name: str
    buffers: tuple[Buffer, ...]
    arenas: dict[Role, int]
    steps: tuple[Step, ...]
    submits: tuple[int, ...]
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    constants: dict[int, np.ndarray] = field(repr=False, default_factory=dict)
    guards: tuple[Guard, ...] = ()

    @property
    def dispatches(self) -> list[Dispatch]:
        return [s for s in self.steps if isinstance(s, Dispatch)]

    @property
    def commands(self) -> list[Command]:
        return [s for s in self.steps if not isinstance(s, Barrier)]


@dataclass(frozen=True)
class Touch:
    """Bytes of a buffer that a step touches; ``nbytes`` None: all from ``start`` on."""

    buffer: int
    access: Access
    start: int = 0
    nbytes: int | None = None


def touches(step: Command) -> list[Touch]:
    """The bytes that a step touches: of a copy its ranges, of other steps the whole buffers."""
    match step:
        case Dispatch():
            return [Touch(b.buffer, b.access) for b in step.bindings]
        case Copy():
            return [
                Touch(step.source, Access.READ, step.source_offset, step.nbytes),
                Touch(step.target, Access.WRITE, step.target_offset, step.nbytes),
            ]
        case Fill():
            return [Touch(step.buffer, Access.WRITE)]


def accesses(step: Command) -> list[tuple[int, Access]]:
    """The buffers that a step touches."""
    return [(touch.buffer, touch.access) for touch in touches(step)]
