"""Vulkan structs: all are built here, with their parts kept alive.

A C struct holds bare pointers to its strings, arrays and inner structs. Those belong to Python
objects that are freed as soon as nothing names them, which leaves the pointers dangling. So each
struct here is a :class:`Struct`, which owns its parts; no other module makes native memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from vknn.runtime.vulkan.vk_result import INCOMPLETE, SUCCESS
from vknn.runtime.vulkan.vulkan_api import ffi, vk

T = TypeVar("T")

#: The "whole size" of a range. (The binding's VK_WHOLE_SIZE is -1 and overflows.)
WHOLE_SIZE = 2**64 - 1

#: How often a list is asked for that grows while it is read.
LISTING_TRIES = 8

#: Structs whose VkStructureType sets off a number differently from the rest.
_IRREGULAR = {
    "VkPhysicalDeviceFeatures2": "VkPhysicalDeviceFeatures_2",
    "VkPhysicalDeviceProperties2": "VkPhysicalDeviceProperties_2",
    "VkPhysicalDeviceMaintenance3Properties": "VkPhysicalDeviceMaintenance_3Properties",
    "VkPhysicalDeviceIDProperties": "VkPhysicalDevice_ID_Properties",
    "VkPhysicalDevicePCIBusInfoPropertiesEXT": "VkPhysicalDevicePCI_BusInfoPropertiesEXT",
    "VkPhysicalDevice16BitStorageFeatures": "VkPhysicalDevice_16bitStorageFeatures",
    "VkPhysicalDeviceShaderCoreProperties2AMD": "VkPhysicalDeviceShaderCoreProperties_2AMD",
    "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV": "VkPhysicalDeviceShaderSM_BuiltinsPropertiesNV",
}


class Struct:
    """A native struct or array (``ptr``) and what it points to."""

    __slots__ = ("parts", "ptr")

    def __init__(self, ptr: Any, parts: Sequence[Any] = ()) -> None:
        self.ptr = ptr
        self.parts = tuple(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ptr, name)


def make(name: str, **fields: Any) -> Struct:
    """A struct of type ``name`` (as in "VkBufferCreateInfo"); ``sType`` is set where it has one.

    Values: numbers and handles as they are; str and bytes for ``char *``; a Struct, a mapping or a
    sequence of them for structs and pointers to them; a sequence for any array; None for NULL.
    """
    members = _members(name)
    ptr = ffi.new(f"{name} *")
    parts: list[Any] = []
    if "sType" in members and "sType" not in fields:
        ptr.sType = structure_type(name)
    for field, value in fields.items():
        setattr(ptr, field, _convert(members[field].type, value, parts))
    return Struct(ptr, parts)


def array(name: str, items: Sequence[Any]) -> Struct:
    """An array of ``name``: of handles, numbers, or of structs given as Struct or mapping."""
    parts: list[Any] = []
    return Struct(_array(ffi.typeof(name), items, parts), parts)


def out(name: str, count: int | None = None) -> Any:
    """Zeroed memory for a result of type ``name``, or for ``count`` of them."""
    return ffi.new(f"{name} *") if count is None else ffi.new(f"{name}[]", count)


def listed(
    name: str, call: Callable[[Any, Any], int | None], read: Callable[[Any], T]
) -> tuple[int, list[T]]:
    """VkResult of a vkEnumerate or vkGet function, and what ``read`` makes of each entry.

    ``call`` takes a count and an array of type ``name``. ``read`` may keep no part of an entry,
    whose memory ends with the call. A list can grow between the question for its length and the
    list itself; then both are asked for again.
    """
    code: int | None = None
    for _ in range(LISTING_TRIES):
        count = out("uint32_t")
        if code := call(count, ffi.NULL):
            break
        found = entries(name, max(1, count[0]))
        if not (code := call(count, found.ptr)):
            return SUCCESS, [read(found.ptr[i]) for i in range(count[0])]
        if code != INCOMPLETE:
            break
    return code or SUCCESS, []


def block(data: bytes) -> Struct:
    """Bytes as native memory, aligned for 32-bit words."""
    words = ffi.new("uint32_t[]", -(-len(data) // 4) or 1)
    ffi.memmove(words, data, len(data))
    return Struct(words)


def chain(*structs: Struct) -> Struct:
    """Links structs through ``pNext``; the first one, which then keeps the others alive."""
    for front, back in pairwise(structs):
        front.ptr.pNext = back.ptr
        front.parts = (*front.parts, back)
    return structs[0]


def entries(name: str, count: int) -> Struct:
    """An array for so many structs of a type, or handles, that a function writes."""
    ctype = ffi.typeof(name)
    if ctype.kind == "struct" and "sType" in _members(name):
        return array(name, [make(name) for _ in range(count)])
    return Struct(out(name, count))


@cache
def structure_type(name: str) -> int:
    """The VkStructureType of a struct: VkBufferCreateInfo -> VK_STRUCTURE_TYPE_BUFFER_..."""
    stem = re.sub(r"(KHR|EXT|AMD|NV|ARM)$", r"_\1", _IRREGULAR.get(name, name).removeprefix("Vk"))
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem)
    return getattr(vk, f"VK_STRUCTURE_TYPE_{words.upper()}")


@cache
def _members(name: str) -> dict[str, Any]:
    return dict(ffi.typeof(name).fields)


def _convert(ctype: Any, value: Any, parts: list[Any]) -> Any:
    """``value`` as cffi wants it for a member of type ``ctype``; owners go to ``parts``."""
    if value is None:
        return ffi.NULL
    if ctype.kind == "pointer":
        return _pointer(ctype, value, parts)
    if ctype.kind == "struct":
        return _struct(ctype, value, parts).ptr[0]
    if ctype.kind == "array" and ctype.item.kind == "struct":
        return [_struct(ctype.item, item, parts).ptr[0] for item in value]
    return value


def _pointer(ctype: Any, value: Any, parts: list[Any]) -> Any:
    if isinstance(value, Struct):
        parts.append(value)
        return value.ptr
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        parts.append(ffi.new("char[]", value))
        return ffi.cast(ctype, parts[-1])
    if isinstance(value, Mapping):
        return _struct(ctype.item, value, parts).ptr
    if isinstance(value, Sequence):
        if not value:
            return ffi.NULL
        parts.append(_array(ctype.item, value, parts))
        return parts[-1]
    parts.append(value)
    return value


def _struct(ctype: Any, value: Any, parts: list[Any]) -> Struct:
    name = ctype.cname.removeprefix("struct ")
    struct = value if isinstance(value, Struct) else make(name, **value)
    parts.append(struct)
    return struct


def _array(item: Any, values: Sequence[Any], parts: list[Any]) -> Any:
    if item.kind == "struct":
        native = ffi.new(f"{item.cname}[]", len(values))
        for index, value in enumerate(values):
            native[index] = _struct(item, value, parts).ptr[0]
        return native
    if item.kind == "pointer" and item.cname.replace("const", "").split() == ["char", "*"]:
        strings = [ffi.new("char[]", v.encode()) for v in values]
        parts.extend(strings)
        values = strings
    parts.extend(v for v in values if isinstance(v, Struct))
    plain = [v.ptr if isinstance(v, Struct) else v for v in values]
    return ffi.new(ffi.getctype(item, "[]"), plain)
