"""Schema of a bundle (.vkb): its sections and the fields of their records, byte by byte.

The one source of the format: writer and reader take NumPy dtypes from here, and
``tools/bundle_format.py`` makes the table of docs/bundle.md and ``runner/vkb.h`` of it. All numbers
are little endian; a record lies at a multiple of 8 and its size is one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

MAGIC = b"\x89VKB\r\n\x1a\n"
VERSION = 1
#: Stands for "none" where a record names another by its index.
NONE = 0xFFFFFFFF
#: A section begins at a multiple of 64 bytes, the data of weights and examples at one of 64 KiB.
ALIGNMENT, DATA_ALIGNMENT = 64, 1 << 16
#: A blob begins at a multiple of this within the data.
BLOB_ALIGNMENT = 256
#: Axes that a port may have.
MOST_AXES = 8
#: What examples allow is below it, in proportion and in all; scales of quantized ports are, too.
MOST_TOLERANCE = 1e30
#: Bytes of an arena, a buffer, or of all weights of a plan, at most.
MOST_BYTES = 1 << 48
#: Invocations of a run, and words moved by it, at most: seconds on a GPU, minutes elsewhere. A byte
#: of an example, which is summed and compared by the host, counts as EXAMPLE_WORK.
MOST_WORK, EXAMPLE_WORK = 1 << 36, 16
#: Ports of a plan, and bytes of a port's name with the zero behind it, at most.
MOST_PORTS = MOST_NAME = 1024


class StepKind(enum.IntEnum):
    """Kind of a step."""

    DISPATCH = 0
    COPY = 1
    FILL = 2
    BARRIER = 3


class BufferRole(enum.IntEnum):
    """Arena of a buffer."""

    INPUT = 0
    OUTPUT = 1
    ACTIVATION = 2
    WEIGHT = 3


class PortElement(enum.IntEnum):
    """Element type of a port, as it lies in its buffer."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    UINT64 = 9
    BOOL = 10  # a byte, 0 or 1
    FLOAT64 = 11


class Direction(enum.IntEnum):
    """Direction of a port."""

    INPUT = 0
    OUTPUT = 1


class Feature(enum.IntFlag):
    """Abilities of a device that a plan needs."""

    STORAGE_16BIT = 1 << 0  # VkPhysicalDevice16BitStorageFeatures.storageBuffer16BitAccess
    FLOAT16 = 1 << 1  # shaderFloat16
    INT8 = 1 << 2  # shaderInt8
    INT16 = 1 << 3  # shaderInt16
    INT64 = 1 << 4  # shaderInt64
    FLOAT64 = 1 << 5  # shaderFloat64
    STORAGE_8BIT = 1 << 6  # storageBuffer8BitAccess
    INTEGER_DOT = 1 << 7  # shaderIntegerDotProduct
    COOPERATIVE_MATRIX = 1 << 8  # VK_KHR_cooperative_matrix
    FULL_SUBGROUPS = 1 << 9  # computeFullSubgroups
    SUBGROUP_BASIC = 1 << 10
    SUBGROUP_VOTE = 1 << 11
    SUBGROUP_ARITHMETIC = 1 << 12
    SUBGROUP_BALLOT = 1 << 13
    SUBGROUP_SHUFFLE = 1 << 14
    SUBGROUP_SHUFFLE_RELATIVE = 1 << 15
    FLOAT_DOT = 1 << 16  # VK_VALVE_shader_mixed_float_dot_product
    VULKAN_MEMORY_MODEL = 1 << 17  # vulkanMemoryModel
    MEMORY_MODEL_DEVICE_SCOPE = 1 << 18  # vulkanMemoryModelDeviceScope


@dataclass(frozen=True)
class Field:
    """A field of a record: ``count`` numbers of ``kind`` ("u8", "u32", "i32", "f32", "u64")."""

    name: str
    kind: str
    text: str
    count: int = 1


@dataclass(frozen=True)
class TableRecord:
    """A kind of record. ``section``: number of the section that holds them; 0: none does."""

    name: str
    section: int
    text: str
    fields: tuple[Field, ...]

    @property
    def dtype(self) -> np.dtype:
        """The record as NumPy reads it."""
        entries = [
            (f.name, _KINDS[f.kind]) if f.count == 1 else (f.name, _KINDS[f.kind], (f.count,))
            for f in self.fields
        ]
        return np.dtype(entries)  # packed: fields are put so that nothing lies between them


@dataclass(frozen=True)
class ByteSection:
    """A section that is no table: bytes."""

    name: str
    section: int
    text: str


_KINDS = {"u8": "u1", "u32": "<u4", "i32": "<i4", "f32": "<f4", "u64": "<u8"}


def _range(name: str, of: str) -> tuple[Field, Field]:
    return (
        Field(f"first_{name}", "u32", f"First of its records among the {of}"),
        Field(f"{name}", "u32", "How many these are"),
    )


HEADER = TableRecord(
    "header",
    0,
    "The first 128 bytes; the section table follows",
    (
        Field("magic", "u8", "89 56 4B 42 0D 0A 1A 0A", 8),
        Field("version", "u32", "Version of the format"),
        Field("header_bytes", "u32", "128"),
        Field("file_bytes", "u64", "Bytes of the whole file"),
        Field("sections", "u32", "Entries of the section table"),
        Field("table_crc", "u32", "CRC-32 (IEEE 802.3) of the section table"),
        Field("sha256", "u8", "SHA-256 of the whole file, with these 32 bytes as zeros", 32),
        Field("data_sha256", "u8", "SHA-256 of the data section; zeros: not given", 32),
        Field("reserved", "u8", "Zeros", 32),
    ),
)
SECTION = TableRecord(
    "section",
    0,
    "An entry of the section table; each kind is there once at most, missing ones are empty",
    (
        Field("kind", "u32", "Which section"),
        Field("crc", "u32", "CRC-32 of its bytes; 0 for the data, whose blobs have their own"),
        Field("offset", "u64", "From the start of the file"),
        Field("nbytes", "u64", "Its size"),
        Field("record_bytes", "u32", "Size of a record; 1 where it is no table"),
        Field("count", "u32", "How many records; bytes where it is no table and they fit, else 0"),
    ),
)
STRINGS = ByteSection(
    "strings", 1, "UTF-8 texts, each ended by a zero byte; the first is the empty one"
)
PLAN = TableRecord(
    "plan",
    2,
    "A plan: a network for one set of shapes and one target, and what it needs of a device",
    (
        Field("name", "u32", "String: the network's name"),
        Field("target", "u32", "String: the target that it was made for"),
        Field("shapes", "u32", 'String: its inputs\' shapes, "data=3,224,224;mask=7"'),
        Field("precision", "u32", 'String: "fp32", "fp16", ...'),
        *_range("buffers", "buffers"),
        *_range("steps", "steps"),
        *_range("submits", "submits"),
        *_range("ports", "ports"),
        *_range("states", "states"),
        *_range("examples", "examples"),
        *_range("matrices", "matrices"),
        Field("arenas", "u64", "Bytes of the arenas of inputs, outputs and activations", 3),
        Field("features", "u64", "Bits of the abilities that it needs"),
        Field("storage_range", "u64", "Bytes of the largest storage buffer"),
        Field("work", "u64", "Multiply-adds and other operations of a run, estimated"),
        Field("vulkan", "u32", "Version of Vulkan, as VK_MAKE_API_VERSION writes it"),
        Field("texel_elements", "u32", "Texels of the largest texel view"),
        Field("group_size", "u32", "Largest size of a workgroup in x, y, z", 3),
        Field("group_invocations", "u32", "Most invocations of a workgroup"),
        Field("group_count", "u32", "Most workgroups of a dispatch in x, y, z", 3),
        Field("shared_memory", "u32", "Most bytes of shared memory of a workgroup"),
        Field("push_bytes", "u32", "Most bytes of push constants"),
        Field("storage_buffers", "u32", "Most storage buffers of a pipeline"),
        Field("uniform_texel_buffers", "u32", "Most uniform texel buffers of a pipeline"),
        Field("storage_texel_buffers", "u32", "Most storage texel buffers of a pipeline"),
        Field("storage_alignment", "u32", "Every offset of a storage buffer is a multiple of this"),
        Field("texel_alignment", "u32", "Every offset of a texel view is a multiple of this"),
        Field("subgroup_size", "u32", "The subgroups' size, exactly; 0: any will do"),
        Field("loop_rounds", "u32", "Most rounds that the loops of an invocation run, estimated"),
    ),
)
BUFFER = TableRecord(
    "buffer",
    3,
    "A range of an arena, or a weight",
    (
        Field("name", "u32", "String"),
        Field("role", "u32", "0 input, 1 output, 2 activation, 3 weight"),
        Field("offset", "u64", "In its arena; 0 for weights"),
        Field("nbytes", "u64", "Its size"),
        Field("blob", "u32", "A weight's blob (bytes of the buffer behind it are 0), else none"),
        Field("reserved", "u32", "0"),
    ),
)
STEP = TableRecord(
    "step",
    4,
    "A dispatch, copy, fill or barrier (of all memory, from and to shaders and transfers)",
    (
        Field("kind", "u32", "0 dispatch, 1 copy, 2 fill, 3 barrier"),
        Field("label", "u32", "String: the layers that it computes"),
        Field("op", "u32", "String: the operator and algorithm"),
        Field("pipeline", "u32", "Of a dispatch"),
        *_range("bindings", "bindings"),
        Field("push", "u32", "Offset of a dispatch's push constants in that section"),
        Field("groups", "u32", "Workgroups of a dispatch in x, y, z", 3),
        Field("source", "u32", "Buffer that a copy reads"),
        Field("target", "u32", "Buffer that a copy or fill writes (a fill all of it)"),
        Field("source_offset", "u64", "Of a copy, in its source"),
        Field("target_offset", "u64", "Of a copy, in its target"),
        Field("nbytes", "u64", "Of a copy"),
        Field("word", "u32", "Of a fill"),
        Field("reserved", "u32", "0"),
        Field("flops", "u64", "Operations, estimated"),
        Field("traffic", "u64", "Bytes read and written once, estimated"),
    ),
)
PIPELINE = TableRecord(
    "pipeline",
    5,
    "A compute pipeline; its entry point is main",
    (
        Field("kernel", "u32", "String"),
        Field("module", "u32", "Its module"),
        *_range("constants", "constants"),
        *_range("slots", "slots"),
        Field("push_bytes", "u32", "Bytes of its push constants"),
        Field("flags", "u32", "1: subgroups must be full"),
    ),
)
MODULE = TableRecord(
    "module",
    6,
    "A SPIR-V module",
    (
        Field("offset", "u64", "In the SPIR-V section, a multiple of 4"),
        Field("nbytes", "u64", "Its size"),
        Field("shared_memory", "u32", "Bytes of shared memory with any pipeline's constants"),
        Field("reserved", "u32", "0"),
    ),
)
CONSTANT = TableRecord(
    "constant",
    7,
    "A specialization constant",
    (Field("id", "u32", "Its SpecId"), Field("word", "u32", "Its 32 bits")),
)
SLOT = TableRecord(
    "slot",
    8,
    "A binding of a pipeline's layout; slot n has binding number n",
    (
        Field(
            "view", "u32", "VkDescriptorType: 4 uniform texel, 5 storage texel, 7 storage buffer"
        ),
        Field("access", "u32", "1 read, 2 written, 3 both"),
    ),
)
BINDING = TableRecord(
    "binding",
    9,
    "A buffer of a dispatch, in the order of its pipeline's slots",
    (
        Field("buffer", "u32", "Index in the plan's own buffers"),
        Field("format", "u32", "VkFormat of a texel view, else 0"),
    ),
)
PUSH = ByteSection("push", 10, "Push constants")
PORT = TableRecord(
    "port",
    11,
    "An input or output, in the model's own words; its elements lie dense in its buffer",
    (
        Field("name", "u32", "String"),
        Field("direction", "u32", "0 input, 1 output"),
        Field("type", "u32", "Element type"),
        Field("rank", "u32", "How many axes"),
        Field("dims", "u64", "Their sizes; 1 behind the last", MOST_AXES),
        Field("buffer", "u32", "Index in the plan's own buffers"),
        Field("count", "u32", "Buffer with an int32: size of the open axis, at most; else none"),
        Field("open_axis", "u32", "Which axis that is; those in front of it are of size 1"),
        Field("layout", "u32", 'String: a letter an axis, "NHWC"; empty where the format has none'),
        *_range("labels", "labels"),
        Field("picture", "u32", 'String: order of a picture\'s colours, "RGB"; else empty'),
        Field("quantized", "u32", "1: integers stand for scale * (stored - zero point)"),
        Field("scale", "f32", "Of a quantized port"),
        Field("zero_point", "i32", "Of a quantized port"),
    ),
)
SUBMIT = TableRecord(
    "submit",
    12,
    "The end of a submit",
    (Field("end", "u32", "Step behind its last, in the plan's own"), Field("reserved", "u32", "0")),
)
BLOB = TableRecord(
    "blob",
    13,
    "Bytes of the data section: a weight, or an array of an example",
    (
        Field("offset", "u64", "In the data section, a multiple of 256"),
        Field("nbytes", "u64", "Its size"),
        Field("crc", "u32", "CRC-32 of its bytes"),
        Field("reserved", "u32", "0"),
    ),
)
SPIRV = ByteSection("spirv", 14, "SPIR-V modules")
DATA = ByteSection("data", 15, "Weights as they lie on the device, and the arrays of examples")
META = ByteSection("meta", 16, "JSON for people and tools; a runner does not read it")
LABEL = TableRecord(
    "label",
    17,
    "A label of a class",
    (Field("text", "u32", "String"), Field("reserved", "u32", "0")),
)
STATE = TableRecord(
    "state",
    18,
    "State: behind a run the output buffer is copied over the input buffer",
    (
        Field("name", "u32", "String"),
        Field("input", "u32", "Index in the plan's own buffers"),
        Field("output", "u32", "Index in the plan's own buffers"),
        Field("blob", "u32", "First value; none: zeros"),
        Field("nbytes", "u64", "Size of both"),
    ),
)
EXAMPLE = TableRecord(
    "example",
    19,
    "An array of the example: an input, or what the NumPy reference makes of these",
    (
        Field("port", "u32", "Index in the plan's own ports"),
        Field("blob", "u32", "Its elements; where the port's axis is open, as many as there are"),
        Field(
            "absolute", "f32", "Of an output: |got - expected| <= absolute + relative |expected|"
        ),
        Field("relative", "f32", "Of an output; both 0: must be equal"),
    ),
)
MATRIX = TableRecord(
    "matrix",
    20,
    "A product of cooperative matrices that the device must know, with the scope of a subgroup",
    (
        Field("m", "u32", "Rows of the first factor"),
        Field("n", "u32", "Columns of the second factor"),
        Field("k", "u32", "Columns of the first factor"),
        Field("factors", "u32", "VkComponentTypeKHR of both factors"),
        Field("sums", "u32", "VkComponentTypeKHR of what is added to and comes out"),
        Field("reserved", "u32", "0"),
    ),
)

RECORDS = (
    PLAN, BUFFER, STEP, PIPELINE, MODULE, CONSTANT, SLOT, BINDING, PORT, SUBMIT, BLOB, LABEL, STATE,
    EXAMPLE, MATRIX,
)  # fmt: skip
BLOBS = (STRINGS, PUSH, SPIRV, DATA, META)
