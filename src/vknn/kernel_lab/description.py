"""Description of a lab: what lab.json says of the dispatch, as checked data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vknn.errors import VknnError
from vknn.kernel_lab.fields import DocumentFields
from vknn.plan import Access, TexelFormat, View

FORMAT, VERSION = "vknn-lab", 1
#: The most that a description may name of each kind.
MOST = 4096
#: Element types of buffers; bfloat16 lies in files as the uint16 of its bits.
DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8")
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int8": 1, "uint8": 1}
LAYOUTS = ("linear", "c4", "c4b")

Number = int | float
#: A push constant: a number, or those of an array.
Pushed = Number | tuple[Number, ...]


@dataclass(frozen=True)
class LabMemory:
    """A piece of device memory that bindings lie in.

    Attributes:
        nbytes: Its size.
        file: The .npy file of its bytes before the dispatch; None where all that is bound of it is
            only written, and nothing is known of what lay there.
    """

    nbytes: int
    file: str | None


@dataclass(frozen=True)
class LabBinding:
    """A buffer as the shader sees it.

    Attributes:
        name: Name of the tensor in the network.
        role: "input", "output", "weight" or "activation".
        access: How the dispatch uses it.
        view: Type of its descriptor.
        format: Element format of texel views.
        dtype: Element type, one of DTYPES.
        memory: Index of the memory that it lies in.
        offset: Bytes from the start of that.
        nbytes: Its size.
    """

    name: str
    role: str
    access: Access
    view: View
    format: TexelFormat
    dtype: str
    memory: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class LabTensor:
    """A tensor in a buffer: ``dtype`` of its elements on the host, sizes, "linear", "c4" or
    "c4b"."""

    dtype: str
    dims: tuple[int, ...]
    layout: str


@dataclass(frozen=True)
class LabOutput:
    """Result that the dispatch should give in one binding.

    Attributes:
        binding: Number of the binding.
        device: File of what the device gave, in the binding's elements.
        reference: File of what NumPy gives, float32 or integers, packed as the binding is; None
            where the dispatch is only a part of an operator.
        allowed: File of the error allowed to each element of that, float32.
        written: File that says which elements the dispatch writes (bool); None: all.
        tensor: What the bytes are, where that is known.
        tolerance: Error allowed where there is no reference, as a share of the largest number.
    """

    binding: int
    device: str
    reference: str | None
    allowed: str | None
    written: str | None
    tensor: LabTensor | None
    tolerance: float


@dataclass(frozen=True)
class LabDevice:
    """The device that a lab was extracted on, and what of it the dispatch was made for."""

    name: str
    kind: str
    driver: str
    uuid: str
    subgroup_size: int
    features: tuple[str, ...]
    limits: Mapping[str, Any]


@dataclass(frozen=True)
class LabDescription:
    """All that lab.json says.

    Attributes:
        kernel: "<family>/<name>"; its text is glsl/<kernel>.comp.
        own: Whether the kernel is a user's own and not one of vknn's.
        layers: The layers that the dispatch computes.
        label: The operator and the form of its kernel.
        model: Name of the model.
        precision: What floats were stored in.
        vknn: Version that extracted it.
        variant: Macros that the kernel is compiled with.
        constants: Specialization constants by name; those left out have the shader's defaults.
        local: Lanes of a workgroup.
        groups: Workgroups.
        push: Push constants by name.
        sources: Files below glsl/ with the SHA-256 that they had.
        needs: Features of devices that the module used.
    """

    kernel: str
    own: bool
    layers: tuple[str, ...]
    label: str
    model: str
    precision: str
    vknn: str
    variant: Mapping[str, str]
    constants: Mapping[str, Number]
    local: tuple[int, int, int]
    groups: tuple[int, int, int]
    push: Mapping[str, Pushed]
    sources: Mapping[str, str]
    needs: tuple[str, ...]
    memories: tuple[LabMemory, ...]
    bindings: tuple[LabBinding, ...]
    outputs: tuple[LabOutput, ...]
    device: LabDevice
    flops: int = 0
    nbytes: int = 0
    format: str = field(default=FORMAT)
    version: int = field(default=VERSION)

    def document(self) -> dict[str, Any]:
        """The description as JSON takes it; numbers that JSON lacks as text."""
        found = asdict(self)
        for entry, binding in zip(found["bindings"], self.bindings, strict=True):
            kinds = (binding.access.value, binding.view.value, binding.format.value)
            entry["access"], entry["view"], entry["format"] = kinds
        found["constants"] = {k: _plain(v) for k, v in self.constants.items()}
        found["push"] = {k: _plain(v) for k, v in self.push.items()}
        return found


def read_description(document: Any, file: str) -> LabDescription:
    """The description of a lab.json's document; ``file`` names it in errors.

    Raises VknnError for what is none: wrong types, sizes that do not fit, files outside the folder.
    """
    top = DocumentFields(document, file)
    if top.text("format") != FORMAT:
        raise VknnError(f"{file}: this is no description of a kernel lab")
    version = top.integer("version", 1)
    if version > VERSION:
        raise VknnError(
            f"{file}: a kernel lab of version {version}, and this vknn knows {VERSION}: update vknn"
        )
    memories = tuple(
        LabMemory(m.integer("nbytes", 4), m.file("file")) for m in top.entries("memories", MOST)
    )
    found = LabDescription(
        kernel=top.kernel("kernel"),
        own=top.flag("own"),
        layers=top.texts("layers"),
        label=top.text("label"),
        model=top.text("model"),
        precision=top.one_of("precision", ("fp32", "fp16", "bf16")),
        vknn=top.text("vknn"),
        variant=top.macros("variant"),
        constants=top.numbers("constants"),
        local=top.triple("local"),
        groups=top.triple("groups"),
        push=top.pushed("push"),
        sources=top.hashes("sources"),
        needs=top.texts("needs"),
        memories=memories,
        bindings=tuple(_binding(b) for b in top.entries("bindings", MOST)),
        outputs=tuple(_output(o) for o in top.entries("outputs", MOST)),
        device=_device(top.inner("device")),
        flops=top.integer("flops", 0),
        nbytes=top.integer("nbytes", 0),
    )
    _check(found, file)
    return found


def _binding(entry: DocumentFields) -> LabBinding:
    return LabBinding(
        name=entry.text("name"),
        role=entry.text("role"),
        access=Access(entry.one_of("access", [a.value for a in Access])),
        view=View(entry.one_of("view", [v.value for v in View])),
        format=TexelFormat(entry.one_of("format", [f.value for f in TexelFormat])),
        dtype=entry.one_of("dtype", DTYPES),
        memory=entry.integer("memory", 0),
        offset=entry.integer("offset", 0),
        nbytes=entry.integer("nbytes", 4),
    )


def _output(entry: DocumentFields) -> LabOutput:
    tensor = entry.optional("tensor")
    device = entry.file("device")
    if device is None:
        raise VknnError(f"{entry.place}: an output without the file of what the device gave")
    return LabOutput(
        binding=entry.integer("binding", 0),
        device=device,
        reference=entry.file("reference"),
        allowed=entry.file("allowed"),
        written=entry.file("written"),
        tensor=None if tensor is None else _tensor(tensor),
        tolerance=entry.number("tolerance"),
    )


def _tensor(entry: DocumentFields) -> LabTensor:
    layout = entry.one_of("layout", LAYOUTS)
    dims = entry.sizes("dims")
    if layout != "linear" and len(dims) < 2:
        raise VknnError(f"{entry.place}: a tensor in {layout} has no channels")
    return LabTensor(entry.text("dtype"), dims, layout)


def _device(entry: DocumentFields) -> LabDevice:
    return LabDevice(
        name=entry.text("name"),
        kind=entry.text("kind"),
        driver=entry.text("driver"),
        uuid=entry.text("uuid"),
        subgroup_size=entry.integer("subgroup_size", 0),
        features=entry.texts("features"),
        limits=entry.inner("limits").given,
    )


def _check(found: LabDescription, file: str) -> None:
    """Check that what refers to another part finds it."""
    for number, memory in enumerate(found.memories):
        ends = [b.offset + b.nbytes for b in found.bindings if b.memory == number]
        if max(ends, default=0) != memory.nbytes:
            raise VknnError(
                f"{file}: memory {number} has {memory.nbytes} bytes, and its bindings end at "
                f"{max(ends, default=0)}"
            )
    for number, b in enumerate(found.bindings):
        place = f"{file}: binding {number} ({b.name})"
        if b.memory >= len(found.memories):
            raise VknnError(f"{place} lies in memory {b.memory}, and there are only "
                            f"{len(found.memories)}")  # fmt: skip
        if b.offset + b.nbytes > found.memories[b.memory].nbytes or b.offset % 4 or b.nbytes % 4:
            raise VknnError(f"{place}: {b.nbytes} bytes from {b.offset} on are not in its memory")
        if b.access is not Access.WRITE and found.memories[b.memory].file is None:
            raise VknnError(f"{place} is read, and its memory has no file")
    for output in found.outputs:
        place = f"{file}: the output of binding {output.binding}"
        if output.binding >= len(found.bindings):
            raise VknnError(f"{place}: there are only {len(found.bindings)} bindings")
        binding = found.bindings[output.binding]
        if not binding.access.writes:
            raise VknnError(f"{place}: the dispatch does not write it")
        if (output.reference is None) != (output.allowed is None):
            raise VknnError(f"{place}: a reference and its allowed errors come together")
        if output.tensor is not None:
            count = packed_count(output.tensor)
            if count * ITEMSIZE[binding.dtype] > binding.nbytes:
                raise VknnError(f"{place}: {list(output.tensor.dims)} do not fit its bytes")


def packed_count(tensor: LabTensor) -> int:
    """Elements of a tensor's buffer, the lanes behind the last channel included."""
    if tensor.layout == "linear":
        return math.prod(tensor.dims)
    n, c, *spatial = tensor.dims
    return n * -(-c // 4) * 4 * math.prod(spatial)


def _plain(value: Pushed) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, int) or math.isfinite(value) else str(value)
