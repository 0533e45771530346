"""Data that a page of a profile is drawn from: columns of numbers, texts once each, times in us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from vknn.errors import VknnError
from vknn.reports.check import check_data
from vknn.reports.columns import commands
from vknn.reports.counted import counted
from vknn.reports.matched import matched_entries
from vknn.reports.spans import parts, steps
from vknn.reports.texts import Texts, Values, microseconds, number, shortened, whole

#: Numbers of a static profile that the page shows, as vknn.profiling.StaticEntry describes them.
STATIC = ("registers", "spills", "scratch", "shared", "code", "instructions", "waves")


def report_data(
    document: Mapping[str, Any], verify: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """All that the page's script reads, from what a ``.vkprof`` file holds, and from a cross-check.

    Where the document has ``means``, its times are the means of so many runs of vknn-run, which
    knows no single runs, plain ones, buffers, sources nor what the host did.

    Raises:
        vknn.VknnError: Something is missing or is of another type, or there is no run.
    """
    try:
        if document.get("format") != "vkprof":
            raise VknnError("no profile: its format is not 'vkprof'")
        if not document["runs"]:
            raise VknnError("the profile has no run: nothing to draw")
        data = _data(document)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VknnError(f"no complete profile: {type(error).__name__}: {error}") from error
    try:
        return data | {"check": None if verify is None else _check(verify, document["layers"])}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VknnError(f"no cross-check: {_reason(error)}") from error


def _check(verify: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not all("node" in row for row in verify["rows"]):
        raise ValueError(
            "its rows are not those of one input: vknn verify --html writes pages of other reports"
        )
    found = check_data(verify, layers)
    if layers and found["rows"] and not any(row["layers"] for row in found["rows"]):
        raise ValueError(
            "the cross-check is of another model: none of its layers is in the profile"
        )
    return found


def _reason(error: Exception) -> str:
    """What is wrong, for readers: a key alone says nothing without the error's name."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _data(document: Mapping[str, Any]) -> dict[str, Any]:
    texts, constants, lines, codes = Texts(), Values(), Values(), Values()
    runs, segments = document["runs"], document["segments"]
    shown = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
    return {
        "title": shortened(str(document["model"]["name"])),
        "about": _about(document),
        "arithmetic": str((document.get("options") or {}).get("arithmetic", "fp32")),
        "runs": len(runs),
        "means": None if document.get("means") is None else whole(document["means"]),
        "total": _total(document),
        "commands": commands(document, texts, constants, shown),
        "steps": steps(shown, segments),
        "run": microseconds(shown["seconds"]),
        "segments": [_segment(segment, texts) for segment in segments],
        "sources": [_source(kernel, lines) for kernel in document["kernels"].values()],
        "lines": lines.listed,
        "constants": constants.listed,
        "limits": _limits(document.get("limits")),
        "counters": counted(document.get("counters"), texts),
        "static": _static(document, lines, codes),
        "codes": codes.listed,
        "texts": texts.listed,
    }


def _total(document: Mapping[str, Any]) -> dict[str, float]:
    """Medians over the runs by what the time was spent on, as ``Profile.total`` has them."""
    each = [parts(run, document["segments"]) for run in document["runs"]]
    if document.get("means") is not None:
        [only] = each
        known = {"extent": only["timed"], "busy": only["busy"], "gaps": only["gaps"]}
        return {name: microseconds(value) for name, value in known.items()}
    plain = {"wall": median(document["plain"])} if document["plain"] else {}
    seconds = plain | {name: median(one[name] for one in each) for name in each[0]}
    return {name: microseconds(value) for name, value in seconds.items()}


def _about(document: Mapping[str, Any]) -> list[list[str]]:
    """Where the profile comes from: names and texts."""
    model, device = document["model"], document.get("device")
    inputs = (model.get("inputs") or {}).items()
    found = {
        "model": f"{model['name']} ({model.get('format') or 'format not known'})",
        "inputs": ", ".join(f"{name} {_type(type_)}" for name, type_ in list(inputs)[:20]),
        "device": device["name"] if device else "NumPy",
        "driver": (device or {}).get("driver") or "",
        "machine": _pairs(document.get("machine")),
        "versions": _pairs(document.get("versions")),
        "options": _pairs(document.get("options")),
        "recorded": document.get("created") or "",
        "hash": model.get("hash") or "",
    }
    return [[name, shortened(str(text))] for name, text in found.items() if text]


def _type(tensor: Mapping[str, Any]) -> str:
    return f"{'x'.join(map(str, tensor['shape']))} {tensor['dtype']}"


def _pairs(values: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in (values or {}).items())


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _segment(segment: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Where a segment runs and its buffers: name, role, offset, bytes, first, last command."""
    buffers = [
        [
            texts.number(b["name"]),
            texts.number(b["role"]),
            None if b["offset"] is None else whole(b["offset"]),
            whole(b["nbytes"]),
            *(None if b[name] is None else whole(b[name]) for name in ("first", "last")),
        ]
        for b in segment.get("buffers") or ()
    ]
    return {"where": str(segment["where"]), "buffers": buffers}


def _source(kernel: Mapping[str, Any], lines: Values) -> dict[str, Any]:
    """A kernel with its GLSL as numbers of lines: variants share most of theirs."""
    variant = " ".join(f"{name}={value}" for name, value in (kernel.get("variant") or {}).items())
    return {
        "kernel": shortened(str(kernel["kernel"])),
        "variant": shortened(variant),
        "lines": _lines(kernel.get("glsl"), lines),
    }


def _lines(text: Any, lines: Values) -> list[int]:
    return [lines.number(line) for line in str(text or "").split("\n")]


def _limits(limits: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Measured speeds by kind and form: GFLOP/s of arithmetic, GB/s of copies."""
    if not limits:
        return None
    found: dict[str, Any] = {"device": shortened(str(limits.get("device") or ""))}
    for kind, forms in limits.items():
        if isinstance(forms, Mapping):
            found[kind] = {shortened(str(f)): number(v) for f, v in forms.items()}
    return found


def _static(document: Mapping[str, Any], lines: Values, codes: Values) -> dict[str, Any] | None:
    """A static profile by command."""
    static = document.get("static")
    if not static:
        return None
    matched = [
        None if entry is None else _static_entry(entry, lines, codes)
        for entry in matched_entries(static, document["segments"])
    ]
    return {"assumptions": str(static.get("assumptions") or ""), "entries": matched}


def _static_entry(entry: Mapping[str, Any], lines: Values, codes: Values) -> dict[str, Any]:
    modelled = entry.get("modelled") or {}
    numbers = {name: entry.get(name) for name in STATIC} | {"modelled": modelled.get("time")}
    kept: dict[str, Any] = {n: number(v) for n, v in numbers.items() if v is not None}
    told = {shortened(str(n)): number(v) for n, v in (entry.get("statistics") or {}).items()}
    texts = (entry.get("texts") or {}).items()
    isa = {shortened(str(form)): codes.number(_lines(text, lines)) for form, text in texts}
    flags = [shortened(str(flag)) for flag in entry.get("flags") or ()]
    more = {"statistics": told, "flags": flags, "isa": isa, "bound": modelled.get("bound")}
    return kept | {name: value for name, value in more.items() if value}
