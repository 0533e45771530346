"""Limits of a device from a JSON file, written by ``vknn devices --json`` or by hand, or as given.

What no Vulkan device can have is refused: plans are made for it, and would run nowhere.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vknn.errors import VknnError, naming
from vknn.json_file import read_json
from vknn.plan import ComputeUnits, CooperativeMatrix, DeviceLimits, MeasuredSpeeds

#: Features that plans may ask for, and two that say something of profiles.
FEATURES = frozenset(
    ("int64", "fp16_storage", "fp16_arithmetic", "int8_arithmetic", "integer_dot", "float_dot",
     "integer_dot_fast", "integer_dot_mixed", "cooperative_matrix", "subgroup_shuffle",
     "subgroup_arithmetic", "pipeline_statistics", "timestamps")
)  # fmt: skip
_KINDS = ("discrete", "integrated", "virtual", "cpu", "other")
_ACCESS = ("storage", "texel", "image")
_COMPONENTS = ("float16", "float32", "float64", "int8", "int32", "uint8")
_LEAST = DeviceLimits()
_MOST = (1 << 32) - 1
#: Numbers that must be there -> the least and the most that Vulkan allows a device.
_NUMBERS = {
    "max_storage_buffer_range": (_LEAST.max_storage_buffer_range, _MOST),
    "max_texel_buffer_elements": (_LEAST.max_texel_buffer_elements, _MOST),
    "storage_alignment": (1, _LEAST.storage_alignment),
    "texel_alignment": (1, _LEAST.texel_alignment),
    "max_push_constants": (_LEAST.max_push_constants, 1 << 20),
    "max_storage_buffers": (_LEAST.max_storage_buffers, _MOST),
    "max_group_invocations": (_LEAST.max_group_invocations, 1 << 20),
    "shared_memory": (_LEAST.shared_memory, 1 << 30),
    "subgroup_size": (1, 128),
}
_POWERS = ("storage_alignment", "texel_alignment", "subgroup_size")
_TRIPLES = {
    "max_group_count": (_LEAST.max_group_count, _MOST),
    "max_group_size": (_LEAST.max_group_size, 1 << 20),
}
#: Keys of `vknn devices --json` that are no limits.
_OTHERS = frozenset(
    ("device", "default", "usable", "rejection", "api_version", "driver", "memory", "uuid", "pci",
     "names")
)  # fmt: skip


def read_limits(path: Path) -> DeviceLimits:
    """The limits in a JSON file: of one device, or of the default one of a list.

    Raises VknnError, naming the file and the number, for what is missing, unknown or impossible.
    """
    document = read_json(path)
    with naming(str(path)):
        return _limits(_device(document), path.stem)


def checked_limits(limits: DeviceLimits) -> DeviceLimits:
    """Limits that were made in Python, by the rules of files. Raises VknnError."""
    row = dataclasses.asdict(limits)
    row |= {"features": sorted(map(str, limits.features)), "measured_speeds": row.pop("speeds")}
    plain = json.loads(json.dumps(row, default=str))  # with lists in place of tuples
    with naming("limits of a target"):
        return _limits(plain, limits.name)


def _device(document: Any) -> Mapping[str, Any]:
    if isinstance(document, list):
        rows = [d for d in document if isinstance(d, Mapping)]
        usable = [d for d in rows if d.get("usable", True) is True]
        chosen = [d for d in usable if d.get("default") is True] or usable
        if not chosen:
            told = (f"{d.get('name')!r:.80}: {d.get('rejection')!r:.200}" for d in rows[:4])
            raise VknnError(
                "there is no usable device in the list; to plan for one that vknn does not use "
                "here, keep its object alone in the file, without the list around it "
                f"({'; '.join(told) or 'it has none'})"
            )
        document = chosen[0]
    if not isinstance(document, Mapping):
        raise VknnError("expected an object with the limits of a device, or a list of such")
    return document


def _limits(row: Mapping[str, Any], stem: str) -> DeviceLimits:
    optional: dict[str, Callable[[str, Any], Any]] = {
        "name": _text, "kind": _one_of(_KINDS), "vendor_id": _between(0, _MOST),
        "features": _features, "unified_memory": _flag, "preferred_access": _one_of(_ACCESS),
        "max_loop_rounds": _between(1, 1 << 31), "cooperative": _matrices,
        "compute_units": _numbers(ComputeUnits), "measured_speeds": _numbers(MeasuredSpeeds),
    }  # fmt: skip
    unknown = sorted(row.keys() - _NUMBERS.keys() - _TRIPLES.keys() - optional.keys() - _OTHERS)
    if unknown:
        known = ", ".join([*_NUMBERS, *_TRIPLES, *optional])
        raise VknnError(f"there is no limit {unknown[0]!r:.80}; there are {known}")
    missing = [name for name in (*_NUMBERS, *_TRIPLES) if name not in row]
    if missing:
        raise VknnError(
            f"{', '.join(missing)} missing: a target needs all of them (`vknn devices --json` on "
            "the device writes them)"
        )
    found: dict[str, Any] = {n: _number(n, row[n], *_NUMBERS[n]) for n in _NUMBERS}
    for name in _POWERS:
        if found[name] & (found[name] - 1):
            raise VknnError(f"{name} is {found[name]}, which is no power of two")
    found |= {name: _triple(name, row[name], *_TRIPLES[name]) for name in _TRIPLES}
    found |= {n: check(n, row[n]) for n, check in optional.items() if row.get(n) is not None}
    if "measured_speeds" in found:
        found["speeds"] = found.pop("measured_speeds")
    sizes = found["max_group_size"]
    if found["max_group_invocations"] > sizes[0] * sizes[1] * sizes[2]:
        raise VknnError("max_group_invocations is more than the three sizes of max_group_size give")
    found.setdefault("name", stem)
    found.setdefault("unified_memory", found.get("kind") in ("cpu", "integrated"))
    if not found.get("cooperative"):
        found["features"] = found.get("features", frozenset()) - {"cooperative_matrix"}
    return DeviceLimits(**found)


def _number(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int:
        raise VknnError(f"{name} is {value!r:.80}, not a whole number")
    if not least <= value <= most:
        raise VknnError(f"{name} is {value}, which no Vulkan device has: {least} to {most}")
    return value


def _triple(name: str, value: Any, least: tuple[int, int, int], most: int) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 3:
        raise VknnError(f"{name} is {value!r:.80}, not three whole numbers")
    return tuple(_number(name, v, low, most) for v, low in zip(value, least, strict=True))


def _between(least: int, most: int) -> Callable[[str, Any], int]:
    return lambda name, value: _number(name, value, least, most)


def _one_of(known: tuple[str, ...]) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in known:
            raise VknnError(f"{name} is {value!r:.80}, none of {', '.join(known)}")
        return str(value)

    return check


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 256 or not value.isprintable():
        raise VknnError(f"{name} is {value!r:.80}, not a short text")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise VknnError(f"{name} is {value!r:.80}, neither true nor false")
    return value


def _features(name: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise VknnError(f"{name} is {value!r:.80}, not a list of names")
    unknown = sorted(set(value) - FEATURES)
    if unknown:
        raise VknnError(f"there is no feature {unknown[0]!r:.80}; known: {sorted(FEATURES)}")
    return frozenset(value)


def _matrices(name: str, value: Any) -> tuple[CooperativeMatrix, ...]:
    if not isinstance(value, list) or len(value) > 4096:
        raise VknnError(f"{name} is {value!r:.80}, not a list of matrices")
    return tuple(_matrix(name, entry) for entry in value)


def _matrix(name: str, entry: Any) -> CooperativeMatrix:
    fields = {f.name for f in dataclasses.fields(CooperativeMatrix)}
    if not isinstance(entry, Mapping) or entry.keys() != fields:
        raise VknnError(f"{name}: {entry!r:.80} does not have {', '.join(sorted(fields))}")
    m, n, k = (_number(f"{name}: {axis}", entry[axis], 1, 1024) for axis in ("m", "n", "k"))
    kinds = [_one_of(_COMPONENTS)(f"{name}: {key}", entry[key]) for key in ("factors", "sums")]
    return CooperativeMatrix(m, n, k, *kinds)


def _numbers(kind: type) -> Callable[[str, Any], Any]:
    """Check of a flat object of positive numbers."""

    def check(name: str, value: Any) -> Any:
        fields = [f.name for f in dataclasses.fields(kind)]
        if not isinstance(value, Mapping) or value.keys() != set(fields):
            raise VknnError(f"{name} is {value!r:.80}, not an object with {', '.join(fields)}")
        for key in fields:
            number = value[key]
            if type(number) not in (int, float) or not 1e-15 <= number <= 1e15:
                raise VknnError(
                    f"{name}: {key} is {number!r:.80}, not a number above 0 that a device may have"
                )
        return kind(**value)

    return check
