"""Declarations of a SPIR-V module by binding, to be held against the buffers that a plan binds."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.plan import Dispatch, TexelFormat, View
from vknn.runtime.spirv import modules
from vknn.runtime.spirv.glsl import Variant
from vknn.runtime.spirv.words import instructions, unpacked

# Opcodes and decorations of the SPIR-V specification.
_INT, _FLOAT, _VECTOR, _IMAGE, _SAMPLED_IMAGE = 21, 22, 23, 25, 27
_ARRAY, _STRUCT, _POINTER = 29, 30, 32
_VARIABLE, _DECORATE, _BINDING = 59, 71, 33

_ELEMENTS = {
    TexelFormat.R32_SFLOAT: "float32",
    TexelFormat.RGBA32_SFLOAT: "float32",
    TexelFormat.R32_SINT: "int32",
    TexelFormat.RGBA32_SINT: "int32",
    TexelFormat.R16_SFLOAT: "float16",
    TexelFormat.RGBA16_SFLOAT: "float16",
    TexelFormat.R16_UINT: "bfloat16",
    TexelFormat.RGBA16_UINT: "bfloat16",
}
#: SPIR-V's ImageFormat, 0 where a uniform texel buffer takes any.
_IMAGE_FORMATS = {
    1: TexelFormat.RGBA32_SFLOAT,
    2: TexelFormat.RGBA16_SFLOAT,
    3: TexelFormat.R32_SFLOAT,
    21: TexelFormat.RGBA32_SINT,
    24: TexelFormat.R32_SINT,
    31: TexelFormat.RGBA16_UINT,
}


def check_declarations(dispatch: Dispatch) -> None:
    """Asserts that each buffer is bound to what holds such elements."""
    declared = _declarations(dispatch.kernel, dispatch.variant)
    for number, binding in enumerate(dispatch.bindings):
        if number not in declared:
            continue  # an operand that this kernel has no room for
        view, what = declared[number]
        named = f"{dispatch.kernel} {dispatch.variant} binding {number}: {what}, {binding}"
        assert view is binding.view, named
        if view is View.STORAGE:
            assert what == _ELEMENTS[binding.format], named
        elif view is View.IMAGE:
            assert what is binding.format, named


@functools.cache
def _declarations(kernel: str, variant: Variant) -> dict[int, tuple[View, object]]:
    types: dict[int, tuple[int, Sequence[int]]] = {}
    places: dict[int, int] = {}
    variables: list[tuple[int, int]] = []
    for code, operands in instructions(unpacked(modules.spirv(kernel, variant))):
        if code in (_INT, _FLOAT, _VECTOR, _IMAGE, _SAMPLED_IMAGE, _ARRAY, _STRUCT, _POINTER):
            types[operands[0]] = code, operands[1:]
        elif code == _DECORATE and operands[1] == _BINDING:
            places[operands[0]] = operands[2]
        elif code == _VARIABLE:
            variables.append((operands[1], operands[0]))
    return {places[v]: _described(types, pointer) for v, pointer in variables if v in places}


def _described(types: dict[int, tuple[int, Sequence[int]]], pointer: int) -> tuple[View, object]:
    code, operands = types[types[pointer][1][1]]
    if code == _SAMPLED_IMAGE:
        return View.TEXEL, None
    if code == _IMAGE:
        # Sampled 1: a uniform texel buffer; 2: a storage texel buffer.
        return (View.TEXEL, None) if operands[5] == 1 else (View.IMAGE, _IMAGE_FORMATS[operands[6]])
    assert code == _STRUCT
    code, operands = types[operands[0]]
    assert code == _ARRAY
    code, operands = types[operands[0]]
    count = operands[1] if code == _VECTOR else 1
    if code == _VECTOR:
        code, operands = types[operands[0]]
    if code == _INT and (operands[0], count) in ((16, 1), (32, 2)):
        return View.STORAGE, "bfloat16"  # its bits: tensors of integers have no such elements
    return View.STORAGE, f"{'float' if code == _FLOAT else 'int'}{operands[0]}"
