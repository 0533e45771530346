"""Commands of a profile as columns: a list a property, an element a command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Any

from vknn.reports.texts import Texts, Values, microseconds, number, whole

#: Samples of all commands together, up to which every one is in the page.
MOST_SAMPLES = 400_000


def commands(
    document: Mapping[str, Any], texts: Texts, constants: Values, shown: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Columns of all commands, in the order of the segments; times in microseconds.

    Args:
        document: The profile.
        texts: Takes what columns name by number.
        constants: Takes the specialization constants, which ``constants`` names by number.
        shown: The run whose begins and ends are told.
    """
    columns: dict[str, list[Any]] = defaultdict(list)
    sources = {key: i for i, key in enumerate(document["kernels"])}
    segments, runs = document["segments"], document["runs"]
    count = sum(len(segment["commands"]) for segment in segments)
    for place, segment in enumerate(segments):
        start = shown["segments"][place]["start"]
        for i, command in enumerate(segment["commands"]):
            for name, value in _properties(command, texts).items():
                columns[name].append(value)
            columns["segment"].append(place)
            columns["source"].append(sources.get(command.get("source"), -1))
            columns["constants"].append(constants.number(_constants(command)))
            begin, end = shown["segments"][place]["spans"][i]
            columns["begin"].append(microseconds(start + begin))
            columns["end"].append(microseconds(start + end))
            lengths = [_length(run["segments"][place]["spans"][i]) for run in runs]
            columns["median"].append(round(median(lengths), 3))
            columns["least"].append(min(lengths))
            columns["most"].append(max(lengths))
            if count * len(runs) <= MOST_SAMPLES:
                columns["samples"].append(lengths)
    return dict(columns)


def _properties(command: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """What a command is, without its times."""
    groups = command.get("groups")
    return {
        "kind": texts.number(command["kind"]),
        "kernel": texts.number(command["kernel"]),
        "label": texts.number(command["label"]),
        "op": texts.number(command["op"]),
        "layers": [texts.number(name) for name in command["layers"]],
        "groups": None if groups is None else [whole(n) for n in groups],
        "flops": number(command["flops"]),
        "nbytes": number(command["nbytes"]),
        "bindings": [[whole(b), texts.number(how)] for b, how in _uses(command)],
    }


def _uses(command: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Buffers that a command uses, each with how."""
    if command["kind"] == "copy":
        return [(command["source_buffer"], "read"), (command["target_buffer"], "write")]
    if command["kind"] == "fill":
        return [(command["buffer"], "write")]
    bound = command.get("bindings") or ()
    return [(b["buffer"], f"{b['access']} {b.get('view') or ''}".strip()) for b in bound]


def _constants(command: Mapping[str, Any]) -> list[list[Any]]:
    """Specialization constants: id, name or None, value."""
    found = []
    for constant in command.get("specialization") or ():
        name, value = constant.get("name"), constant["value"]
        told = value if isinstance(value, str) else number(value)
        found.append([whole(constant["id"]), None if name is None else str(name), told])
    return found


def _length(span: Any) -> float:
    begin, end = span
    return microseconds(end - begin)
