"""Structure of SPIR-V modules in bundles: what ``runner/check.c`` refuses of a module by itself.

Instructions are whole and stand in the order of their kinds, and functions do not call themselves:
drivers end with the program, or take memory without end, where these do not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.errors import ShaderError
from vknn.runtime.spirv import words
from vknn.runtime.spirv.sweep import instruction_starts

#: Capabilities of a module, functions, and ids, of which drivers make a table, at most.
MOST_CAPABILITIES, MOST_FUNCTIONS, MOST_IDS = 64, 1024, 1 << 18
_VERSIONS = range(0x10000, 0x10601)
# Opcodes.
_LINE, _IMPORT, _MEMORY_MODEL, _ENTRY_POINT, _MODE, _CAPABILITY = 8, 11, 14, 15, 16, 17
_FUNCTION_END, _CALL, _NO_LINE = 56, 57, 317
_REFUSED = (73, 74, 75, 331, 332, 5632, 5633)  # groups; modes and decorations by id or text
_COMPUTE, _LOCAL_SIZE, _MAIN = 5, 17, 0x6E69616D
_LIBRARY = tuple(np.frombuffer(b"GLSL.std.450\0\0\0\0", "<u4").tolist())
_MODELS = (1, 3)  # of memory: GLSL450, Vulkan
_NUMBERED = (words.SPEC_ID, 6, 11, 33, 34)  # decorations: ArrayStride, BuiltIn, Binding, set
_OF_FUNCTIONS = 7  # a storage class


@dataclass(frozen=True)
class _Code:
    """A module's words, and of each instruction where it is, its opcode and its size."""

    words: np.ndarray
    starts: np.ndarray
    kinds: np.ndarray
    sizes: np.ndarray

    def of(self, *kinds: int) -> np.ndarray:
        """Which instructions are of these kinds: their numbers."""
        return np.flatnonzero(np.isin(self.kinds, kinds))

    def operands(self, number: int) -> list[int]:
        """The words of an instruction behind its first."""
        start = int(self.starts[number])
        found: list[int] = self.words[start + 1 : start + int(self.sizes[number])].tolist()
        return found


def check_module(spirv: bytes) -> int:
    """Check of a module by itself; how many words a runner looks at for it. Raises ShaderError."""
    code = np.frombuffer(spirv, np.uint32)
    if code[0] != words.MAGIC or int(code[1]) not in _VERSIONS:
        raise ShaderError("is no SPIR-V of version 1.0 to 1.6")
    if code[words.BOUND] > MOST_IDS or code[words.BOUND + 1]:
        raise ShaderError(f"has ids beyond {MOST_IDS}, or a schema")
    starts = instruction_starts(code)
    if starts is None:
        raise ShaderError("has an instruction that is not whole")
    starts, sizes = starts[:-1], np.diff(starts)
    read = _Code(code, starts, code[starts] & 0xFFFF, sizes)
    for check in (_check_heads, _check_decorations, _check_order):
        check(read)
    return len(code) + _check_calls(read, _checked_entry(read))


def _check_heads(code: _Code) -> None:
    """Check of capabilities, imports and the memory model."""
    heads = code.of(_CAPABILITY)
    in_front = np.array_equal(heads, np.arange(len(heads))) and (code.sizes[heads] == 2).all()
    if not in_front or len(heads) > MOST_CAPABILITIES:
        raise ShaderError(f"has capabilities that are not in front, or over {MOST_CAPABILITIES}")
    if any(tuple(code.operands(n)[1:]) != _LIBRARY for n in code.of(_IMPORT)):
        raise ShaderError("imports functions of others than GLSL.std.450")
    models = [code.operands(n) for n in code.of(_MEMORY_MODEL)]
    if len(models) != 1 or models[0] not in [[0, model] for model in _MODELS]:
        raise ShaderError("has no model of memory, or one of pointers to anywhere")


def _checked_entry(code: _Code) -> int:
    """The id of the function that is the one entry point, with one mode, its workgroups' size."""
    entries, modes = code.of(_ENTRY_POINT), code.of(_MODE)
    found = [code.operands(n) for n in entries]
    first = found[0][:4] if len(found) == 1 else []
    if len(first) < 4 or first[::2] != [_COMPUTE, _MAIN] or first[3]:
        raise ShaderError("has another entry point than one for compute shaders named main")
    given = [code.operands(n) for n in modes]
    sizes = all(len(o) == 5 and o[:2] == [first[1], _LOCAL_SIZE] for o in given)
    if len(given) > 1 or not sizes or (modes < entries[0]).any():
        raise ShaderError("has other modes than one size of the workgroups of its entry point")
    return first[1]


def _check_decorations(code: _Code) -> None:
    if len(code.of(*_REFUSED)):
        raise ShaderError("has modes or decorations by id or text, or groups of decorations")
    for number in code.of(words.DECORATE, words.MEMBER_DECORATE):
        operands, is_member = code.operands(number), code.kinds[number] == words.MEMBER_DECORATE
        kind, numbered = (2, (words.OFFSET,)) if is_member else (1, _NUMBERED)
        if len(operands) <= kind or (operands[kind] in numbered and len(operands) != kind + 2):
            raise ShaderError("has a decoration that is not whole")


def _check_order(code: _Code) -> None:
    """Check that declarations stand in front of functions, and these one behind the other."""
    functions, ends = code.of(words.FUNCTION), code.of(_FUNCTION_END)
    bounds = np.sort(np.concatenate((functions, ends)))
    paired = len(functions) == len(ends) and np.array_equal(bounds[::2], functions)
    if not len(functions) or not paired or (code.sizes[functions] != 5).any():
        raise ShaderError("has functions that do not begin and end one by one")
    behind = np.arange(len(code.kinds)) > functions[0]
    if (behind & _declares(code)).any():
        raise ShaderError("has declarations behind the beginning of its functions")
    depth = np.zeros(len(code.kinds), np.int64)
    depth[functions], depth[ends] = 1, -1
    outside = behind & (np.cumsum(depth) == 0)
    if (outside & ~np.isin(code.kinds, (_FUNCTION_END, _LINE, _NO_LINE))).any():
        raise ShaderError("has instructions between its functions")
    if code.kinds[-1] != _FUNCTION_END:
        raise ShaderError("does not end with the end of a function")


def _declares(code: _Code) -> np.ndarray:
    """Which instructions declare something that functions cannot."""
    kinds = code.kinds
    classes = code.words[np.minimum(code.starts + 3, len(code.words) - 1)]
    of_functions = (code.sizes >= 4) & (classes == _OF_FUNCTIONS)
    plain = (kinds >= 11) & (kinds <= 52) & (kinds != 12)
    decorations = np.isin(kinds, (words.DECORATE, words.MEMBER_DECORATE))
    found: np.ndarray = plain | decorations | ((kinds == words.VARIABLE) & ~of_functions)
    return found


def _check_calls(code: _Code, entry: int) -> int:
    """Check that functions call those in front of them, and ``entry`` all others.

    How many words a runner looks at: for each function and call the ids of all that may be called.
    """
    functions = [code.operands(n)[1] for n in code.of(words.FUNCTION)]
    if len(functions) > MOST_FUNCTIONS:
        raise ShaderError(f"has more than {MOST_FUNCTIONS} functions")
    seen, behind = 0, 0
    for number in code.of(words.FUNCTION, _CALL):
        operands = code.operands(number)
        if code.kinds[number] == words.FUNCTION:
            known, behind = functions[:behind], behind + 1
            good = operands[1] not in known
        else:
            known = functions if functions[behind - 1] == entry else functions[: behind - 1]
            good = len(operands) > 2 and operands[2] != entry and operands[2] in known
        if not good:
            raise ShaderError("has a function twice, or that calls itself, or one behind it")
        seen += len(known)
    if entry not in functions:
        raise ShaderError("has an entry point that is no function")
    return seen
