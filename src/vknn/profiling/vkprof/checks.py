"""Checks of a profile's document: each field has the type and the range that docs/vkprof.md says.

A shape is what a value has to look like: a function of the value and of the place where it stands,
which raises :class:`Wrong`. Fields that are not named may be anything.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

Shape = Callable[[Any, str], None]
#: No time is longer, so that sums and ratios of times are numbers.
MOST_SECONDS = 1e9


class Wrong(Exception):
    """A value that is not as the format says; the text names its place."""


def check(document: dict[str, Any]) -> None:
    """Check of all fields of a document of this version, and of how they refer to each other.

    Raises :class:`Wrong` for the first that does not fit.
    """
    _DOCUMENT(document, "")
    for number, segment in enumerate(document["segments"]):
        _check_segment(segment, document["kernels"], f"segments[{number}]")
    counts = [len(segment["commands"]) for segment in document["segments"]]
    for number, run in enumerate(document["runs"]):
        _check_run(run, counts, f"runs[{number}]")


def check_limits(document: Any) -> None:
    """Check of the measured limits of a device; raises :class:`Wrong`."""
    _limits(document, "")


def check_runner(document: Any) -> None:
    """Check of what ``vknn-run --profile`` writes; raises :class:`Wrong`."""
    _RUNNER(document, "")


def _check_segment(segment: dict[str, Any], kernels: Collection[str], at: str) -> None:
    buffers, commands = len(segment["buffers"]), len(segment["commands"])
    for number, command in enumerate(segment["commands"]):
        here = f"{at}.commands[{number}]"
        kind = command["kind"]
        if (kind == "host") != (segment["where"] == "host"):
            raise Wrong(f"{here}.kind: {kind!r} in a segment of {segment['where']!r}")
        _KINDS.get(kind, _nothing)(command, here)
        if kind == "dispatch" and command["source"] not in kernels:
            raise Wrong(f"{here}.source: kernels has no such key")
        for place, binding in enumerate(command.get("bindings", ()) if kind == "dispatch" else ()):
            _below(binding["buffer"], buffers, f"{here}.bindings[{place}].buffer")
        for field in _BUFFER_FIELDS.get(kind, ()):
            _below(command[field], buffers, f"{here}.{field}")
    for number, buffer in enumerate(segment["buffers"]):
        for field in ("first", "last"):
            if buffer[field] is not None:
                _below(buffer[field], commands, f"{at}.buffers[{number}].{field}")
    for field in ("submits", "barriers"):
        for number, end in enumerate(segment[field]):
            _below(end, commands + 1, f"{at}.{field}[{number}]")


def _check_run(run: dict[str, Any], counts: list[int], at: str) -> None:
    if len(run["segments"]) != len(counts):
        raise Wrong(f"{at}.segments: {len(run['segments'])} in place of {len(counts)}")
    for number, (segment, count) in enumerate(zip(run["segments"], counts, strict=True)):
        if len(segment["spans"]) != count:
            found = len(segment["spans"])
            raise Wrong(f"{at}.segments[{number}].spans: {found} in place of {count}")


def _below(index: int, count: int, at: str) -> None:
    if index >= count:
        raise Wrong(f"{at}: {index} where there are {count}")


def _wrong(value: Any, at: str, wanted: str) -> Wrong:
    return Wrong(f"{at or 'document'}: {wanted} in place of {repr(value)[:60]}")


def _nothing(value: Any, at: str) -> None:
    """Anything at all."""


def _text(value: Any, at: str) -> None:
    if not isinstance(value, str):
        raise _wrong(value, at, "a string")


def _flag(value: Any, at: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, at, "true or false")


def _count(value: Any, at: str) -> None:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise _wrong(value, at, "a number without a fraction, 0 or more,")


def _whole(value: Any, at: str) -> None:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise _wrong(value, at, "a number without a fraction")


def _amount(value: Any, at: str) -> None:
    if type(value) not in (int, float) or not 0 <= value <= 1e300 or not math.isfinite(value):
        raise _wrong(value, at, "a number, 0 or more,")


def _seconds(value: Any, at: str) -> None:
    _amount(value, at)
    if value > MOST_SECONDS:
        raise _wrong(value, at, "a time")


def _constant(value: Any, at: str) -> None:
    number = type(value) in (int, float, bool) and math.isfinite(value)
    if not number and value not in ("inf", "-inf", "nan"):
        raise _wrong(value, at, "a number")


def _interval(value: Any, at: str) -> None:
    numbers = isinstance(value, list) and len(value) == 2
    if not numbers or not all(type(v) in (int, float) and abs(v) <= MOST_SECONDS for v in value):
        raise _wrong(value, at, "a begin and an end")
    if value[1] < value[0]:
        raise _wrong(value, at, "an end behind the begin")


def _hexadecimal(value: Any, at: str) -> None:
    if not isinstance(value, str) or not re.fullmatch("(?:[0-9a-f]{2})*", value):
        raise _wrong(value, at, "hexadecimal digits")


def _base64(value: Any, at: str) -> None:
    _text(value, at)
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        raise _wrong(value, at, "base64") from None


def _one_of(*allowed: str) -> Shape:
    def shape(value: Any, at: str) -> None:
        if value not in allowed:
            raise _wrong(value, at, f"one of {', '.join(allowed)}")

    return shape


def _maybe(inner: Shape) -> Shape:
    def shape(value: Any, at: str) -> None:
        if value is not None:
            inner(value, at)

    return shape


def _list(inner: Shape, length: int | None = None, least: int = 0) -> Shape:
    def shape(value: Any, at: str) -> None:
        if not isinstance(value, list):
            raise _wrong(value, at, "a list")
        if len(value) < least or (length is not None and len(value) != length):
            raise _wrong(value, at, f"a list of {length or f'at least {least}'}")
        for number, item in enumerate(value):
            inner(item, f"{at}[{number}]")

    return shape


def _table(inner: Shape) -> Shape:
    def shape(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, at, "an object")
        for name, item in value.items():
            inner(item, f"{at}.{name[:60]}")

    return shape


def _object(**fields: Shape) -> Shape:
    def shape(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, at, "an object")
        front = f"{at}." if at else ""
        for name, inner in fields.items():
            if name not in value:
                raise Wrong(f"{front}{name} is missing")
            inner(value[name], front + name)

    return shape


_SHAPE = _list(_maybe(_count))
_TENSOR = _object(shape=_SHAPE, dtype=_text)
_NAMED_TENSOR = _object(name=_text, shape=_SHAPE, dtype=_text)
_MODEL = _object(
    name=_text, format=_text, hash=_text, inputs=_table(_TENSOR), outputs=_table(_TENSOR)
)
_DEVICE_LIMITS = _object(
    subgroup_size=_count,
    shared_memory=_count,
    max_group_invocations=_count,
    max_storage_buffer_range=_count,
    unified_memory=_flag,
    preferred_access=_text,
    features=_list(_text),
)
_DEVICE = _object(
    name=_text,
    kind=_text,
    driver=_text,
    api_version=_text,
    uuid=_maybe(_text),
    vendor_id=_count,
    device_id=_count,
    timestamp_period=_amount,
    limits=_DEVICE_LIMITS,
)
_OPTIONS = _object(
    precision=_text,
    arithmetic=_text,
    disabled=_list(_text),
    tuned=_flag,
    runs=_count,
    warmup=_count,
    seed=_whole,
)
_PEAKS = _object(
    device=_text,
    driver=_text,
    fma=_table(_amount),
    copy=_table(_amount),
    submit=_amount,
    dispatch=_amount,
    dispatch_barrier=_amount,
    group=_amount,
)


def _limits(value: Any, at: str) -> None:
    """Limits; what only some devices compute in, and older files lack, may be missing."""
    _PEAKS(value, at)
    for name in ("fp16", "integer_dot"):
        if name in value:
            _table(_amount)(value[name], f"{at}.{name}")


_LAYER = _object(
    name=_text,
    type=_text,
    ops=_list(_text),
    inputs=_list(_NAMED_TENSOR),
    outputs=_list(_NAMED_TENSOR),
)
_COMMAND = _object(
    kind=_one_of("dispatch", "copy", "fill", "host"),
    kernel=_text,
    label=_text,
    op=_text,
    layers=_list(_text),
    flops=_count,
    nbytes=_count,
)
_BINDING = _object(
    buffer=_count,
    access=_one_of("read", "write", "readwrite"),
    view=_one_of("storage", "texel", "image"),
    format=_maybe(_text),
)
#: What commands of a kind have besides.
_KINDS: Mapping[str, Shape] = {
    "dispatch": _object(
        groups=_list(_count, 3),
        source=_text,
        specialization=_list(_object(id=_count, name=_maybe(_text), value=_constant)),
        push=_hexadecimal,
        bindings=_list(_BINDING),
    ),
    "copy": _object(
        source_buffer=_count, target_buffer=_count, source_offset=_count, target_offset=_count
    ),
    "fill": _object(buffer=_count, word=_count),
}
_BUFFER_FIELDS = {"copy": ("source_buffer", "target_buffer"), "fill": ("buffer",)}
_BUFFER = _object(
    name=_text,
    role=_one_of("input", "output", "weight", "activation"),
    offset=_count,
    nbytes=_count,
    first=_maybe(_count),
    last=_maybe(_count),
)
_SEGMENT = _object(
    where=_one_of("vulkan", "host"),
    commands=_list(_COMMAND),
    buffers=_list(_BUFFER),
    arenas=_table(_count),
    submits=_list(_count),
    barriers=_list(_count),
)
_KERNEL = _object(kernel=_text, variant=_table(_text), own=_flag, glsl=_maybe(_text), spirv=_base64)
_SEGMENT_RUN = _object(
    start=_seconds,
    seconds=_seconds,
    upload=_maybe(_seconds),
    download=_maybe(_seconds),
    submits=_list(_interval),
    spans=_list(_interval),
)
_STATIC_ENTRY = _object(kernel=_text, label=_text, groups=_list(_count, 3))
_MODELLED = _object(time=_amount, bound=_text)
_STATIC_NUMBERS = ("registers", "spills", "scratch", "shared", "code", "instructions", "waves")


def _static_entry(value: Any, at: str) -> None:
    """An entry of a static profile, of which most may be missing."""
    _STATIC_ENTRY(value, at)
    for name in _STATIC_NUMBERS:
        _maybe(_amount)(value.get(name), f"{at}.{name}")
    _maybe(_MODELLED)(value.get("modelled"), f"{at}.modelled")
    _list(_text)(value.get("flags", []), f"{at}.flags")


_DOCUMENT = _object(
    created=_text,
    model=_MODEL,
    machine=_object(system=_text, processor=_text, cores=_count, python=_text),
    versions=_object(vknn=_text, numpy=_text),
    device=_maybe(_DEVICE),
    options=_OPTIONS,
    limits=_maybe(_limits),
    layers=_list(_LAYER),
    segments=_list(_SEGMENT),
    kernels=_table(_KERNEL),
    runs=_list(_object(seconds=_seconds, segments=_list(_SEGMENT_RUN)), least=1),
    plain=_list(_seconds, least=1),
    static=_maybe(_object(dispatches=_list(_static_entry))),
)
#: Of vknn-run: times in microseconds.
_RUNNER = _object(
    device=_text,
    driver=_text,
    target=_text,
    shapes=_text,
    precision=_text,
    runs=_count,
    microseconds=_seconds,
    steps=_list(
        _object(
            label=_text,
            op=_text,
            kernel=_text,
            groups=_list(_count, 3),
            flops=_count,
            bytes=_count,
            begin=_seconds,
            microseconds=_seconds,
        )
    ),
)
