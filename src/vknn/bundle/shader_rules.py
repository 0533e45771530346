"""Rules for SPIR-V modules in bundles and for the pipelines that are made of them.

What ``runner/check.c`` refuses, read the same way. Shaders are programs, and no check makes them
safe; these make sure that a module fits what is around it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.bundle.needs import capabilities
from vknn.bundle.schema import Feature
from vknn.errors import ShaderError
from vknn.runtime.spirv import words
from vknn.runtime.spirv.sweep import instruction_starts

#: Bindings of a pipeline, its specialization constants, and capabilities of a module, at most.
MOST_SLOTS, MOST_CONSTANTS, MOST_CAPABILITIES = 32, 128, 64
#: Words of SPIR-V that a runner looks at, of a bundle, at most: pipelines share modules.
MOST_VISITS = 1 << 31
_VERSIONS = range(0x10000, 0x10601)
_CAPABILITY, _ENTRY_POINT, _MODE, _FUNCTION_END = 17, 15, 16, 56
_COMPUTE, _LOCAL_SIZE, _MAIN = 5, 17, 0x6E69616D
_MODE_ID, _GROUPS = 331, (73, 74, 75)  # OpExecutionModeId; groups of decorations
_VECTOR, _IMAGE, _SAMPLED_IMAGE = 23, 25, 27
_COMPOSITES = (44, 51)  # constant, specialized
_ARRAY_STRIDE, _BUILT_IN, _BINDING, _SET = 6, 11, 33, 34  # decorations
_WORKGROUP_SIZE, _BUFFERS = 25, 5  # a built-in; a dimension of images
# Storage classes.
_UNIFORM_CONSTANT, _PUSH_CONSTANT, _STORAGE_BUFFER, _OF_FUNCTIONS = 0, 9, 12, 7
_OWN = (1, 4, 6)  # Input, Workgroup, Private
UNIFORM_TEXEL, STORAGE_TEXEL, STORAGE = 4, 5, 7  # VkDescriptorType


@dataclass(frozen=True)
class PipelineParts:
    """Parts of a pipeline beside its module.

    ``constants``: words by id; ``views``: VkDescriptorType of each slot; ``push_bytes``: bytes of
    its push constants.
    """

    constants: Mapping[int, int]
    views: Sequence[int]
    push_bytes: int

    @property
    def group_size(self) -> tuple[int, int, int]:
        """Size of its workgroups: specialization constants 0, 1 and 2."""
        x, y, z = (self.constants.get(number, 1) for number in range(3))
        return x, y, z


@dataclass(frozen=True)
class ModuleNeeds:
    """Needs of a module: features and the minor version of Vulkan."""

    features: Feature
    vulkan: int


def check_module(spirv: bytes) -> None:
    """Check of a module by itself. Raises ShaderError."""
    code = np.frombuffer(spirv, np.uint32)
    if code[0] != words.MAGIC or int(code[1]) not in _VERSIONS:
        raise ShaderError("is no SPIR-V of version 1.0 to 1.6")
    starts = instruction_starts(code)
    if starts is None:
        raise ShaderError("has an instruction that is not whole")
    starts, sizes = starts[:-1], np.diff(starts)
    kinds = code[starts] & 0xFFFF
    heads = np.flatnonzero(kinds == _CAPABILITY)
    in_front = np.array_equal(heads, np.arange(len(heads))) and (sizes[heads] == 2).all()
    if not in_front or len(heads) > MOST_CAPABILITIES:
        raise ShaderError(f"has capabilities that are not in front, or over {MOST_CAPABILITIES}")
    entries = np.flatnonzero(kinds == _ENTRY_POINT)
    if len(entries) != 1 or not _is_main(code[starts[entries[0]] :][: sizes[entries[0]]]):
        raise ShaderError("has another entry point than one for compute shaders named main")
    if np.isin(kinds, (_MODE_ID, *_GROUPS)).any():
        raise ShaderError("has modes by id or groups of decorations")
    functions = np.flatnonzero(kinds == words.FUNCTION)
    late = slice(int(functions[0]) + 1 if len(functions) else len(kinds), None)
    if _declares(code, starts[late], kinds[late], sizes[late]).any():
        raise ShaderError("has declarations behind the beginning of its functions")
    if kinds[-1] != _FUNCTION_END:
        raise ShaderError("does not end with the end of a function")


def _is_main(entry: np.ndarray) -> bool:
    return len(entry) >= 5 and entry[1] == _COMPUTE and entry[3] == _MAIN and entry[4] == 0


def _declares(
    code: np.ndarray, starts: np.ndarray, kinds: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Which instructions declare something that functions cannot."""
    classes = code[np.minimum(starts + 3, len(code) - 1)]
    of_functions = (sizes >= 4) & (classes == _OF_FUNCTIONS)
    plain = (kinds >= 11) & (kinds <= 52) & (kinds != 12)
    decorations = np.isin(kinds, (words.DECORATE, words.MEMBER_DECORATE))
    found: np.ndarray = plain | decorations | ((kinds == words.VARIABLE) & ~of_functions)
    return found


def module_needs(spirv: bytes) -> ModuleNeeds:
    """The needs of a module. Raises ShaderError for capabilities that are not known."""
    declared = _declared(spirv)
    minor = 1 if declared.version <= 0x10300 else 2 if declared.version <= 0x10500 else 3
    return ModuleNeeds(capabilities(declared.capabilities), minor)


def check_pipeline(spirv: bytes, parts: PipelineParts) -> int:
    """Check of a module, which :func:`check_module` has passed, in a pipeline.

    How many words a runner looks at for it: it goes through all declarations for each that it
    looks for. Raises ShaderError.
    """
    declared = _declared(spirv)
    begin = declared.visits
    capabilities(declared.capabilities)
    for variable in declared.variables:
        if len(variable) < 4:
            raise ShaderError("has a variable that is not whole")
        _check_variable(declared, variable, parts)
    if declared.has_wide_constants:
        raise ShaderError("has specialization constants of other sizes than 32 bits")
    size = declared.group_size(parts.constants)
    if size != parts.group_size:
        own, given = ("x".join(map(str, s)) for s in (size, parts.group_size))
        raise ShaderError(f"has workgroups of {own} lanes, its pipeline says {given}")
    return len(spirv) // 4 + declared.visits - begin


@dataclass
class _Declared:
    """What stands in front of a module's functions, instructions as words by what they make."""

    version: int
    words: int = 0  # of it
    visits: int = 0  # words, as if each that is looked for were
    capabilities: list[int] = field(default_factory=list)
    made: dict[int, tuple[int, ...]] = field(default_factory=dict)
    variables: list[tuple[int, ...]] = field(default_factory=list)
    has_wide_constants: bool = False
    #: Operands of decorations, by id, member (None: of the whole) and kind.
    decorations: dict[tuple[int, int | None, int], int] = field(default_factory=dict)
    _local: tuple[int, ...] | None = None

    def note(self, kind: int, code: tuple[int, ...]) -> None:
        if kind == _CAPABILITY:
            self.capabilities.append(code[1])
        elif kind == words.DECORATE and len(code) == 4:
            self.decorations.setdefault((code[1], None, code[2]), code[3])
        elif kind == words.MEMBER_DECORATE and len(code) == 5:
            self.decorations.setdefault((code[1], code[2], code[3]), code[4])
        elif kind == _MODE and len(code) == 6 and code[2] == _LOCAL_SIZE:
            self._local = code[3:]
        elif kind == words.VARIABLE:
            self.variables.append(code)
        elif kind == words.SPEC_CONSTANT and len(code) != 4:
            self.has_wide_constants = True
        at = 1 if 19 <= kind <= 33 else 2 if 41 <= kind <= 52 or kind == words.VARIABLE else 0
        if at and len(code) > at:
            self.made.setdefault(code[at], code)

    def maker(self, id_: int) -> tuple[int, ...]:
        """The instruction that makes a type, constant or variable; of zeros where none does."""
        self.visits += self.words
        return self.made.get(id_, _NOTHING)

    def decoration(self, id_: int, kind: int, member: int | None = None) -> int | None:
        """The operand of a decoration."""
        self.visits += self.words
        return self.decorations.get((id_, member, kind))

    def type_bytes(self, id_: int) -> int | None:
        """Bytes of a number, a vector or an array with a stride; None of anything else."""
        type_, count = self.maker(id_), 1
        if _is(type_, words.TYPE_ARRAY, 4):
            length, stride = self.maker(type_[3]), self.decoration(id_, _ARRAY_STRIDE)
            if stride is None or not _is(length, words.CONSTANT, 4):
                return None
            return length[3] * stride
        if _is(type_, _VECTOR, 4):
            count, type_ = type_[3], self.maker(type_[2])
        is_number = _is(type_, words.TYPE_INT, 4) or _is(type_, words.TYPE_FLOAT, 3)
        return count * (type_[2] // 8) if is_number and type_[2] <= 64 else None

    def group_size(self, constants: Mapping[int, int]) -> tuple[int, ...]:
        """Size of its workgroups; zeros where it is not known."""
        size = self._local or (0, 0, 0)
        for (id_, member, kind), value in self.decorations.items():
            if (member, kind, value) == (None, _BUILT_IN, _WORKGROUP_SIZE):
                whole, size = self.maker(id_), (0, 0, 0)
                if any(_is(whole, composite, 6) for composite in _COMPOSITES):
                    size = tuple(self._size(part, constants) for part in whole[3:])
        return size

    def _size(self, id_: int, constants: Mapping[int, int]) -> int:
        number, spec = self.maker(id_), self.decoration(id_, words.SPEC_ID)
        if not _is(number, words.CONSTANT, 4) and not _is(number, words.SPEC_CONSTANT, 4):
            return 0
        return number[3] if spec is None else constants.get(spec, number[3])


_NOTHING = (0,) * 4


def _is(code: Sequence[int], kind: int, size: int) -> bool:
    """Whether an instruction is of this kind and of so many words."""
    return code[0] == words.first_word(kind, size - 1)


@functools.lru_cache(maxsize=64)
def _declared(spirv: bytes) -> _Declared:
    code = words.unpacked(spirv)
    found = _Declared(code[1])
    for kind, rest in words.instructions(code):
        if kind == words.FUNCTION:
            break
        found.words += 1 + len(rest)
        found.note(kind, (words.first_word(kind, len(rest)), *rest))
    return found


def _check_variable(declared: _Declared, variable: Sequence[int], parts: PipelineParts) -> None:
    _, pointer_type, id_, storage, *_ = variable
    pointer = declared.maker(pointer_type)
    if storage in _OWN:
        return
    is_pointer = _is(pointer, words.TYPE_POINTER, 4)
    type_ = declared.maker(pointer[3]) if is_pointer else _NOTHING
    if storage == _PUSH_CONSTANT:
        _check_push(declared, type_, parts.push_bytes)
        return
    set_, binding = declared.decoration(id_, _SET), declared.decoration(id_, _BINDING)
    if set_ != 0 or binding is None or binding >= len(parts.views):
        raise ShaderError(
            f"has a variable of descriptor set {set_}, binding {binding}; there are bindings 0 to "
            f"{len(parts.views) - 1} of set 0"
        )
    if _view(declared, storage, type_) != parts.views[binding]:
        raise ShaderError(
            f"has a variable of another kind than binding {binding}, which is "
            f"{_VIEWS.get(parts.views[binding], 'unknown')}"
        )


_VIEWS = {
    UNIFORM_TEXEL: "a uniform texel buffer",
    STORAGE_TEXEL: "a storage texel buffer",
    STORAGE: "a storage buffer",
}


def _view(declared: _Declared, storage: int, type_: tuple[int, ...]) -> int | None:
    """VkDescriptorType of a variable; None of those that no bundle has."""
    if storage == _STORAGE_BUFFER and type_[0] & 0xFFFF == words.TYPE_STRUCT:
        return STORAGE
    if _is(type_, _SAMPLED_IMAGE, 3):
        type_ = declared.maker(type_[2])
    if storage == _UNIFORM_CONSTANT and _is(type_, _IMAGE, 9) and type_[3] == _BUFFERS:
        return UNIFORM_TEXEL if type_[7] == 1 else STORAGE_TEXEL
    return None


def _check_push(declared: _Declared, type_: tuple[int, ...], most: int) -> None:
    if type_[0] & 0xFFFF != words.TYPE_STRUCT:
        raise ShaderError("has push constants that are no structure")
    for number, member in enumerate(type_[2:]):
        offset = declared.decoration(type_[1], words.OFFSET, number)
        size = None if offset is None else declared.type_bytes(member)
        if offset is None or size is None:
            raise ShaderError("has push constants that are no numbers, vectors or arrays")
        if offset + size > most:
            raise ShaderError(f"has {offset + size} bytes of push constants but is given {most}")
