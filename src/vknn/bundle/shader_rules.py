"""Rules for the pipelines that are made of SPIR-V modules in bundles.

What ``runner/check.c`` refuses, read the same way. Shaders are programs, and no check makes them
safe; these make sure that a module fits what is around it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vknn.bundle.needs import capabilities
from vknn.bundle.schema import Feature
from vknn.errors import ShaderError
from vknn.runtime.spirv import words

#: Bindings of a pipeline and its specialization constants, at most.
MOST_SLOTS, MOST_CONSTANTS = 32, 128
#: Words of SPIR-V that a runner looks at, of a bundle, at most: pipelines share modules.
MOST_VISITS = 1 << 31
_CAPABILITY, _MODE, _LOCAL_SIZE = 17, 16, 17
_VECTOR, _IMAGE, _SAMPLED_IMAGE = 23, 25, 27
_COMPOSITES = (44, 51)  # constant, specialized
_ARRAY_STRIDE, _BUILT_IN, _BINDING, _SET = 6, 11, 33, 34  # decorations
_WORKGROUP_SIZE, _BUFFERS = 25, 5  # a built-in; a dimension of images
# Storage classes.
_UNIFORM_CONSTANT, _PUSH_CONSTANT, _STORAGE_BUFFER = 0, 9, 12
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


def module_needs(spirv: bytes) -> ModuleNeeds:
    """The needs of a module. Raises ShaderError for capabilities that are not known."""
    declared = _declared(spirv)
    minor = 1 if declared.version <= 0x10300 else 2 if declared.version <= 0x10500 else 3
    return ModuleNeeds(capabilities(declared.capabilities), minor)


def check_pipeline(spirv: bytes, parts: PipelineParts) -> int:
    """Check of a module, which ``module_structure.check_module`` has passed, in a pipeline.

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
    if any(len(constant) != 4 for constant in declared.specialized) or any(
        declared.type_bytes(type_) != 4
        for type_, _ in itertools.groupby(constant[1] for constant in declared.specialized)
    ):
        raise ShaderError("has specialization constants of other sizes than 32 bits")
    size = declared.group_size(parts.constants)
    if size != parts.group_size:
        own, given = ("x".join(map(str, s)) for s in (size, parts.group_size))
        raise ShaderError(f"has workgroups of {own} lanes, its pipeline says {given}")
    return len(spirv) // 4 + declared.visits - begin


#: An id, a member of it (None: the whole), and the decoration's kind.
_Decoration = tuple[int, int | None, int]
_Key = TypeVar("_Key", int, _Decoration)
_Kept = TypeVar("_Kept")


@dataclass
class _Declared:
    """What stands in front of a module's functions, instructions as words by what they make."""

    version: int
    words: int = 0  # of it
    visits: int = 0  # words, as if each that is looked for were
    capabilities: list[int] = field(default_factory=list)
    made: dict[int, tuple[int, ...]] = field(default_factory=dict)
    variables: list[tuple[int, ...]] = field(default_factory=list)
    specialized: list[tuple[int, ...]] = field(default_factory=list)
    #: Operands of decorations, by id, member (None: of the whole) and kind.
    decorations: dict[_Decoration, int] = field(default_factory=dict)
    #: What is there once more: ids and decorations. Drivers may take either.
    twice: set[int | _Decoration] = field(default_factory=set)
    _local: tuple[int, ...] | None = None
    _sizes: list[int] = field(default_factory=list)  # what is decorated as the workgroups' size

    def note(self, kind: int, code: tuple[int, ...]) -> None:
        if kind == _CAPABILITY:
            self.capabilities.append(code[1])
        elif kind == words.DECORATE and len(code) == 4:
            self._add(self.decorations, (code[1], None, code[2]), code[3])
            if code[2:] == (_BUILT_IN, _WORKGROUP_SIZE):
                self._sizes.append(code[1])
        elif kind == words.MEMBER_DECORATE and len(code) == 5:
            self._add(self.decorations, (code[1], code[2], code[3]), code[4])
        elif kind == _MODE and len(code) == 6 and code[2] == _LOCAL_SIZE:
            self._local = code[3:]
        elif kind == words.VARIABLE:
            self.variables.append(code)
        elif kind == words.SPEC_CONSTANT:
            self.specialized.append(code)
        at = 1 if 19 <= kind <= 33 else 2 if 41 <= kind <= 52 or kind == words.VARIABLE else 0
        if at and len(code) > at:
            self._add(self.made, code[at], code)

    def maker(self, id_: int) -> tuple[int, ...]:
        """The instruction that makes a type, constant or variable; of zeros where none does."""
        return self._found(self.made, id_) or _NOTHING

    def decoration(self, id_: int, kind: int, member: int | None = None) -> int | None:
        """The operand of a decoration."""
        return self._found(self.decorations, (id_, member, kind))

    def _add(self, all_: dict[_Key, _Kept], key: _Key, value: _Kept) -> None:
        if key in all_:
            self.twice.add(key)
        all_.setdefault(key, value)

    def _found(self, all_: Mapping[_Key, _Kept], key: _Key) -> _Kept | None:
        self.visits += self.words
        if key in self.twice:
            raise ShaderError("makes or decorates a type, a constant or a variable twice")
        return all_.get(key)

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
        """Size of its workgroups; zeros where it is not known. Raises ShaderError."""
        size = self._local or (0, 0, 0)
        for id_ in self._sizes:
            whole = self.maker(id_)
            composite = any(_is(whole, kind, 6) for kind in _COMPOSITES)
            if not composite or self.type_bytes(whole[1]) != 12 or len(self._sizes) > 1:
                raise ShaderError("has a size of workgroups that is not three words, once")
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
