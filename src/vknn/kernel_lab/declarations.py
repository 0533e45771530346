"""Declarations of a kernel's module: descriptors, constants and capabilities, from its SPIR-V.

SPIR-V specification: 3.7 storage classes, 3.20 decorations, 3.31 capabilities, 3.42.6 types.
Vulkan specification, 15.5.2 "Descriptor Set Interface": which type of a variable is which type of
descriptor.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from vknn.errors import ShaderError
from vknn.kernel_lab.description import Number
from vknn.plan import View
from vknn.runtime.spirv import words as spv
from vknn.runtime.spirv.reflection import Member, interface

TYPE_IMAGE, TYPE_SAMPLED_IMAGE = 25, 27
_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER = 0, 2, 12
_NON_WRITABLE, _NON_READABLE, _BINDING, _SET, _BUFFER_BLOCK = 24, 25, 33, 34, 3
_DIM_BUFFER = 5
#: Capability -> feature of a device that has it. Those of plain compute shaders are not here.
FEATURES = {
    9: "fp16_arithmetic",
    11: "int64",
    39: "int8_arithmetic",
    63: "subgroup_arithmetic",
    65: "subgroup_shuffle",
    66: "subgroup_shuffle",
    4433: "fp16_storage",
    5345: "cooperative_matrix",
    5346: "cooperative_matrix",
    6016: "integer_dot",
    6017: "integer_dot",
    6018: "integer_dot",
    6019: "integer_dot",
    6022: "cooperative_matrix",
    6912: "float_dot",
}
#: Capabilities that every device has: matrices, shaders, texel buffers and their formats, queries
#: of images, and of subgroups the basics, votes and ballots.
_PLAIN = frozenset((0, 1, 46, 47, 49, 50, 61, 62, 64))


@dataclass(frozen=True)
class Descriptor:
    """A descriptor that a module uses: type, name, and what the shader may do with it."""

    binding: int
    view: View
    name: str
    readable: bool
    writable: bool


@dataclass(frozen=True)
class DeclaredConstant:
    """A specialization constant: id, type ("int", "uint", "float", "bool") and default."""

    id: int
    type: str
    default: Number


@dataclass(frozen=True)
class Declarations:
    """Demands of a module on its host.

    Attributes:
        descriptors: By binding number.
        constants: By name; the sizes of the workgroup, which have no name, are left out.
        push: Members of the push-constant block.
        local: The axes (0, 1, 2) whose number of lanes is a constant.
        features: Features of devices that it needs (as of vknn.plan.DeviceLimits).
    """

    descriptors: dict[int, Descriptor]
    constants: dict[str, DeclaredConstant]
    push: tuple[Member, ...]
    local: frozenset[int]
    features: frozenset[str]


def declarations(spirv: bytes) -> Declarations:
    """Declarations of a module. Raises ShaderError for descriptors that vknn cannot bind."""
    parameters, reader = interface(spirv), _Reader()
    for opcode, operands in spv.instructions(spv.unpacked(spirv)):
        if opcode == spv.FUNCTION:
            break
        reader.note(opcode, operands)
    constants = {
        name: DeclaredConstant(c.id, c.type, _number(c.type, reader.defaults.get(c.id, 0)))
        for name, c in sorted(parameters.constants.items(), key=lambda item: item[1].id)
    }
    return Declarations(
        descriptors=reader.descriptors(),
        constants=constants,
        push=parameters.push,
        local=frozenset(n for n in range(3) if n in reader.spec_ids.values()),
        features=reader.features(),
    )


@dataclass
class _Reader:
    """Declarations by result id."""

    names: dict[int, str] = field(default_factory=dict)
    decorations: dict[tuple[int, int], int] = field(default_factory=dict)
    members: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    kinds: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    variables: dict[int, tuple[int, int]] = field(default_factory=dict)
    spec_ids: dict[int, int] = field(default_factory=dict)
    defaults: dict[int, int] = field(default_factory=dict)
    capabilities: set[int] = field(default_factory=set)

    def note(self, opcode: int, operands: Sequence[int]) -> None:
        match opcode:
            case 17:  # OpCapability
                self.capabilities.add(operands[0])
            case spv.NAME:
                text = spv.packed(operands[1:]).partition(b"\0")[0]
                self.names[operands[0]] = text.decode(errors="replace")
            case spv.DECORATE:
                self.decorations[operands[0], operands[1]] = operands[2] if operands[2:] else 1
                if operands[1] == spv.SPEC_ID:
                    self.spec_ids[operands[0]] = operands[2]
            case spv.MEMBER_DECORATE:
                found = self.members.setdefault((operands[0], operands[2]), set())
                found.add(operands[1])
            case spv.VARIABLE:
                self.variables[operands[1]] = operands[0], operands[2]
            case spv.SPEC_CONSTANT | spv.SPEC_CONSTANT_TRUE | spv.SPEC_CONSTANT_FALSE:
                word = operands[2] if operands[2:] else int(opcode == spv.SPEC_CONSTANT_TRUE)
                if operands[1] in self.spec_ids:
                    self.defaults[self.spec_ids[operands[1]]] = word
            case 25 | 27 | 28 | 29 | 30 | 32:  # types of images, arrays, structs, pointers
                self.kinds[operands[0]] = opcode, tuple(operands[1:])

    def descriptors(self) -> dict[int, Descriptor]:
        found: dict[int, Descriptor] = {}
        for variable, (pointer, storage) in self.variables.items():
            if storage not in (_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER):
                continue
            one = self._descriptor(variable, pointer, storage)
            twin = found.get(one.binding)
            if twin is not None and twin.view is not one.view:
                raise ShaderError(f"binding {one.binding} is declared as two types of buffer")
            found[one.binding] = one
        return found

    def _descriptor(self, variable: int, pointer: int, storage: int) -> Descriptor:
        kind = self.kinds[pointer][1][1]
        opcode, operands = self.kinds.get(kind, (0, ()))
        name = self.names.get(variable) or self.names.get(kind, "")
        name = name.removesuffix("_block") or f"binding {self.decorations.get((variable, 33), 0)}"
        if self.decorations.get((variable, _SET), 0):
            raise ShaderError(f"{name!r} is of descriptor set 1 or above; vknn binds set 0")
        if opcode == TYPE_SAMPLED_IMAGE:
            opcode, operands = self.kinds[operands[0]]
            view = View.TEXEL
        else:
            view = View.IMAGE if opcode == TYPE_IMAGE and operands[5] == 2 else View.TEXEL
        if opcode == spv.TYPE_STRUCT:
            if storage == _UNIFORM and (kind, _BUFFER_BLOCK) not in self.decorations:
                raise ShaderError(f"{name!r} is a uniform buffer; vknn binds storage buffers")
            view = View.STORAGE
        elif opcode != TYPE_IMAGE or operands[1] != _DIM_BUFFER:
            raise ShaderError(f"{name!r} is neither a storage buffer nor a texel buffer")
        binding = self.decorations.get((variable, _BINDING), 0)
        readable, writable = (not self._has(variable, kind, d) for d in (25, 24))
        return Descriptor(binding, view, name, readable, writable and view is not View.TEXEL)

    def _has(self, variable: int, kind: int, decoration: int) -> bool:
        """Whether a variable, or every member of its block, is decorated so."""
        members = self.kinds.get(kind, (0, ()))[1]
        marked = self.members.get((kind, decoration), set())
        return (variable, decoration) in self.decorations or (
            bool(marked) and len(marked) == len(members)
        )

    def features(self) -> frozenset[str]:
        found = set()
        for capability in self.capabilities - _PLAIN:
            if capability not in FEATURES:
                raise ShaderError(
                    f"the shader needs SPIR-V capability {capability}, which vknn enables nowhere"
                )
            found.add(FEATURES[capability])
        return frozenset(found)


def _number(kind: str, word: int) -> Number:
    """A default from its word."""
    if kind == "float":
        return float(struct.unpack("<f", struct.pack("<I", word))[0])
    return word - (1 << 32) if kind == "int" and word >> 31 else word
