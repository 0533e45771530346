"""Commands of a profile as columns: a list a property, an element a command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.reports.texts import Texts, Values, number, whole

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
        for command in segment["commands"]:
            for name, value in _properties(command, texts).items():
                columns[name].append(value)
            columns["segment"].append(place)
            columns["source"].append(sources.get(command.get("source"), -1))
            columns["constants"].append(constants.number(_constants(command)))
        if segment["commands"]:
            size = len(segment["commands"])
            here = _spans(shown, place, size) + shown["segments"][place]["start"] * 1e6
            _add(columns, {"begin": here[:, 0], "end": here[:, 1]})
            each = [_spans(run, place, size) for run in runs]
            lengths = np.stack([spans[:, 1] - spans[:, 0] for spans in each], axis=1)
            _add(columns, {"median": np.median(lengths, axis=1)})
            _add(columns, {"least": lengths.min(axis=1), "most": lengths.max(axis=1)})
            if count * len(runs) <= MOST_SAMPLES:
                _add(columns, {"samples": lengths})
    return dict(columns)


def _spans(run: Mapping[str, Any], place: int, count: int) -> np.ndarray:
    """Begins and ends of a segment's commands, float64 [count, 2], in us since its start."""
    spans = np.array(run["segments"][place]["spans"], np.float64) * 1e6
    if spans.shape != (count, 2) or not np.isfinite(spans).all():
        raise ValueError(f"segments[{place}]: spans are not {count} pairs of finite numbers")
    return spans


def _add(columns: dict[str, list[Any]], more: Mapping[str, np.ndarray]) -> None:
    for name, values in more.items():
        columns[name] += np.round(values, 3).tolist()


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
    if "source_buffer" in command:
        return [(command["source_buffer"], "read"), (command["target_buffer"], "write")]
    if "buffer" in command:
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
