"""Checks of a profile's document: its fields have the types and ranges that docs/vkprof.md says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from vknn.profiling.schema import (
    Schema,
    Wrong,
    amount,
    base64_text,
    constant,
    count,
    duration,
    flag,
    hexadecimal,
    interval,
    list_of,
    maybe,
    nothing,
    number,
    object_of,
    one_of,
    table_of,
    text,
    whole,
)


def check(document: dict[str, Any]) -> None:
    """Check of all fields of a document of this version, and of how they refer to each other.

    Raises :class:`Wrong` for the first that does not fit.
    """
    _DOCUMENT(document, "")
    if document.get("counters") is not None:
        _check_counters(document["counters"], "counters")
    for place, segment in enumerate(document["segments"]):
        _check_segment(segment, document["kernels"], f"segments[{place}]")
    counts = [len(segment["commands"]) for segment in document["segments"]]
    for place, run in enumerate(document["runs"]):
        _check_run(run, counts, f"runs[{place}]")


def check_limits(document: Any) -> None:
    """Check of the measured limits of a device; raises :class:`Wrong`."""
    _limits(document, "")


def _check_counters(counters: Any, at: str) -> None:
    _COUNTERS(counters, at)
    values = list_of(nothing, len(counters["counters"]))
    for place, row in enumerate(counters["rows"]):
        values(row["values"], f"{at}.rows[{place}].values")


def _check_segment(segment: dict[str, Any], kernels: Collection[str], at: str) -> None:
    buffers, commands = len(segment["buffers"]), len(segment["commands"])
    for index, command in enumerate(segment["commands"]):
        here = f"{at}.commands[{index}]"
        kind = command["kind"]
        if (kind == "host") != (segment["where"] == "host"):
            raise Wrong(f"{here}.kind: {kind!r} in a segment of {segment['where']!r}")
        _KINDS.get(kind, nothing)(command, here)
        if kind == "dispatch" and command["source"] not in kernels:
            raise Wrong(f"{here}.source: kernels has no such key")
        for place, binding in enumerate(command.get("bindings", ()) if kind == "dispatch" else ()):
            _below(binding["buffer"], buffers, f"{here}.bindings[{place}].buffer")
        for field in _BUFFER_FIELDS.get(kind, ()):
            _below(command[field], buffers, f"{here}.{field}")
    for index, buffer in enumerate(segment["buffers"]):
        for field in ("first", "last"):
            if buffer[field] is not None:
                _below(buffer[field], commands, f"{at}.buffers[{index}].{field}")
    for field in ("submits", "barriers"):
        for index, end in enumerate(segment[field]):
            _below(end, commands + 1, f"{at}.{field}[{index}]")


def _check_run(run: dict[str, Any], counts: list[int], at: str) -> None:
    if len(run["segments"]) != len(counts):
        raise Wrong(f"{at}.segments: {len(run['segments'])} in place of {len(counts)}")
    for index, (segment, commands) in enumerate(zip(run["segments"], counts, strict=True)):
        if len(segment["spans"]) != commands:
            found = len(segment["spans"])
            raise Wrong(f"{at}.segments[{index}].spans: {found} in place of {commands}")


def _below(index: int, count: int, at: str) -> None:
    if index >= count:
        raise Wrong(f"{at}: {index} where there are {count}")


_SHAPE = list_of(maybe(count))
_TENSOR = object_of(shape=_SHAPE, dtype=text)
_NAMED_TENSOR = object_of(name=text, shape=_SHAPE, dtype=text)
_MODEL = object_of(
    name=text, format=text, hash=text, inputs=table_of(_TENSOR), outputs=table_of(_TENSOR)
)
_DEVICE_LIMITS = object_of(
    subgroup_size=count,
    shared_memory=count,
    max_group_invocations=count,
    max_storage_buffer_range=count,
    unified_memory=flag,
    preferred_access=text,
    features=list_of(text),
)
_DEVICE = object_of(
    name=text,
    kind=text,
    driver=text,
    api_version=text,
    uuid=maybe(text),
    vendor_id=count,
    device_id=count,
    timestamp_period=amount,
    limits=_DEVICE_LIMITS,
)
_OPTIONS = object_of(
    precision=text,
    arithmetic=text,
    disabled=list_of(text),
    tuned=flag,
    runs=count,
    warmup=count,
    seed=whole,
)
_PEAKS = object_of(
    device=text,
    driver=text,
    fma=table_of(amount),
    copy=table_of(amount),
    submit=amount,
    dispatch=amount,
    dispatch_barrier=amount,
    group=amount,
)


def _limits(value: Any, at: str) -> None:
    """Limits; what only some devices compute in, and older files lack, may be missing."""
    _PEAKS(value, at)
    for name in ("fp16", "integer_dot"):
        if name in value:
            table_of(amount)(value[name], f"{at}.{name}")


_LAYER = object_of(
    name=text,
    type=text,
    ops=list_of(text),
    inputs=list_of(_NAMED_TENSOR),
    outputs=list_of(_NAMED_TENSOR),
)
_COMMAND = object_of(
    kind=one_of("dispatch", "copy", "fill", "host"),
    kernel=text,
    label=text,
    op=text,
    layers=list_of(text),
    flops=count,
    nbytes=count,
)
_BINDING = object_of(
    buffer=count,
    access=one_of("read", "write", "readwrite"),
    view=one_of("storage", "texel", "image"),
    format=maybe(text),
)
#: What commands of a kind have besides.
_KINDS: Mapping[str, Schema] = {
    "dispatch": object_of(
        groups=list_of(count, 3),
        source=text,
        specialization=list_of(object_of(id=count, name=maybe(text), value=constant)),
        push=hexadecimal,
        bindings=list_of(_BINDING),
    ),
    "copy": object_of(
        source_buffer=count, target_buffer=count, source_offset=count, target_offset=count
    ),
    "fill": object_of(buffer=count, word=count),
}
_BUFFER_FIELDS = {"copy": ("source_buffer", "target_buffer"), "fill": ("buffer",)}
_BUFFER = object_of(
    name=text,
    role=one_of("input", "output", "weight", "activation"),
    offset=count,
    nbytes=count,
    first=maybe(count),
    last=maybe(count),
)
_SEGMENT = object_of(
    where=one_of("vulkan", "host"),
    commands=list_of(_COMMAND),
    buffers=list_of(_BUFFER),
    arenas=table_of(count),
    submits=list_of(count),
    barriers=list_of(count),
)
_KERNEL = object_of(
    kernel=text, variant=table_of(text), own=flag, glsl=maybe(text), spirv=base64_text
)
_SEGMENT_RUN = object_of(
    start=duration,
    seconds=duration,
    upload=maybe(duration),
    download=maybe(duration),
    submits=list_of(interval),
    spans=list_of(interval),
)
_STATIC_ENTRY = object_of(kernel=text, label=text, groups=list_of(count, 3))
_MODELLED = object_of(time=amount, bound=text)
_STATIC_NUMBERS = ("registers", "spills", "scratch", "shared", "code", "instructions", "waves")


def _static_entry(value: Any, at: str) -> None:
    """An entry of a static profile, of which most may be missing."""
    _STATIC_ENTRY(value, at)
    for name in _STATIC_NUMBERS:
        maybe(amount)(value.get(name), f"{at}.{name}")
    maybe(_MODELLED)(value.get("modelled"), f"{at}.modelled")
    list_of(text)(value.get("flags", []), f"{at}.flags")


_COUNTER = object_of(
    name=text,
    category=text,
    description=text,
    unit=text,
    by_command=flag,
    slows=flag,
    index=count,
    storage=count,
)
_COUNTED = object_of(
    where=text,
    kernel=text,
    label=text,
    layers=list_of(text),
    groups=maybe(list_of(count, 3)),
    flops=count,
    nbytes=count,
    values=list_of(maybe(number)),
)
_COUNTERS = object_of(
    by=one_of("commands", "submits"),
    passes=count,
    counters=list_of(_COUNTER, least=1),
    rows=list_of(_COUNTED),
)
_DOCUMENT = object_of(
    created=text,
    model=_MODEL,
    machine=object_of(system=text, processor=text, cores=count, python=text),
    versions=object_of(vknn=text, numpy=text),
    device=maybe(_DEVICE),
    options=_OPTIONS,
    limits=maybe(_limits),
    layers=list_of(_LAYER),
    segments=list_of(_SEGMENT),
    kernels=table_of(_KERNEL),
    runs=list_of(object_of(seconds=duration, segments=list_of(_SEGMENT_RUN)), least=1),
    plain=list_of(duration, least=1),
    static=maybe(object_of(dispatches=list_of(_static_entry))),
)
