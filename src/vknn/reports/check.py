"""A cross-check as pages show it: rows of ``vknn verify --json`` and the layers they belong to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vknn.reports.check_tables import answers, lines, operators, outputs, shown
from vknn.reports.texts import figure, shortened

#: Errors by channel, and sides of a map of errors, that a page shows.
MOST_CHANNELS, MOST_SIDE, MOST_BARS = 1024, 64, 256
_FIELDS = ("max_abs", "max_rel", "excess", "worst", "expected", "actual", "problem")


def check_data(
    verify: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    tables: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Rows of a cross-check, tables of them, and the graph of the layers that they colour.

    Args:
        verify: What ``vknn verify --json`` wrote, with or without metrics. Other reports have
            "summary" and "notes", lines of text, "over", the last shade's meaning, and in a row a
            "title" and "sides", comparisons by name, which may have figures of their own in "told".
        layers: Those of a profile's document, or of the report itself.
        tables: In place of those of operators, outputs and answers: "title", "columns", pairs of
            name and kind ("text" or "number"), "rows" of texts, "wrong", one for each, and "of",
            "rows" or "outputs", where its rows are these.
    """
    places = _places(layers)
    rows = [_row(row, places) for row in verify["rows"]]
    made = verify.get("outputs") or ()
    if tables is None:
        found = (outputs(made), answers(verify.get("agreement")), operators(verify["rows"]))
        tables = [table for table in found if table is not None]
    return {
        "model": shortened(str(verify["model"])),
        "device": shortened(str(verify["device"])),
        "ok": bool(verify["ok"]),
        "verdict": shortened(str(verify.get("summary") or _verdict(verify))),
        "over": str(verify.get("over") or "over it"),
        "notes": [shortened(str(line)) for line in verify.get("notes") or lines(verify)],
        "rows": rows,
        "outputs": [_output(output) for output in made],
        "tables": [shown(table) for table in tables],
        "layers": [_layer(layer) for layer in layers],
        "edges": _edges(layers),
    }


def _verdict(verify: Mapping[str, Any]) -> str:
    """What is wrong: the first operator, and the outputs with their figures."""
    if verify["ok"]:
        return "Every comparison is within its tolerance."
    first = verify.get("first_failure")
    wrong = [output for output in verify.get("outputs") or () if not output["ok"]]
    told = [] if first is None else [f"first: {first}"]
    told += [f"output {output['name']}: {_difference(output)}" for output in wrong]
    return f"Not within tolerance{'; ' if told else ''}{'; '.join(told)}."


def _difference(found: Mapping[str, Any]) -> str:
    """How a comparison differs, in words."""
    if found.get("problem"):
        return str(found["problem"])
    actual, expected, at = (figure(found.get(name)) for name in ("actual", "expected", "worst"))
    return (
        f"{actual} instead of {expected} at {at}, {figure(found['excess'])} times what is allowed"
    )


def _output(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output of a plain run, as a row."""
    found = {"ok": bool(output["ok"]), "sides": {"of a plain run": _comparison(output)}}
    return {"title": shortened(f"output {output['name']}"), **found}


def _layer(layer: Mapping[str, Any]) -> list[str]:
    ops = "+".join(map(str, layer["ops"]))
    return [shortened(str(layer["name"])), shortened(f"{layer['type']} ({ops})")]


def _places(layers: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Layers by their names and by the names of what they give."""
    found: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        names = {str(layer["name"]), *(str(tensor["name"]) for tensor in layer["outputs"])}
        for name in names:
            found.setdefault(name, []).append(number)
    return found


def _edges(layers: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Pairs of layers of which the second takes what the first gives, each once."""
    givers = {str(t["name"]): n for n, layer in enumerate(layers) for t in layer["outputs"]}
    pairs = {
        (givers[name], number)
        for number, layer in enumerate(layers)
        for name in (str(tensor["name"]) for tensor in layer["inputs"])
        if name in givers and givers[name] != number
    }
    return sorted(map(list, pairs))


def _row(row: Mapping[str, Any], places: Mapping[str, list[int]]) -> dict[str, Any]:
    """A row; its layers are those of its name, or of the names that are joined in it by "+"."""
    name = str(row["layer"])
    names = [name] if name in places else name.split("+")
    layers = sorted({n for part in names for n in places.get(part, ())})
    sides = row.get("sides") or {s: row[s] for s in ("isolated", "cumulative") if row.get(s)}
    return {
        "layers": layers or places.get(str(row["output"]), []),
        "node": shortened(str(row["node"])),
        "title": shortened(str(row.get("title") or _title(row))),
        "ok": bool(row["ok"]),
        "sides": {str(side): _comparison(found) for side, found in sides.items()},
    }


def _title(row: Mapping[str, Any]) -> str:
    name = f"{row['node']}: {row['op']} on {row['placement']}, {row['output']} {row['type']}"
    return name.rstrip()


def _comparison(found: Mapping[str, Any]) -> dict[str, Any]:
    """A comparison: its numbers as texts, how much of the tolerance it takes, and its pictures."""
    metrics = found.get("metrics") or {}
    told = {name: found.get(name) for name in _FIELDS} | _numbers(metrics)
    told = {**(found.get("told") or {}), **told}
    return {
        "ok": bool(found["ok"]),
        "excess": _excess(found),
        "told": [[name, figure(value)] for name, value in told.items() if value is not None],
        **_pictures(metrics),
    }


def _excess(found: Mapping[str, Any]) -> float:
    """Largest error as a multiple of what is allowed, at most 1e9; so for NaN and infinities."""
    value = float(found["excess"])
    return min(value, 1e9) if math.isfinite(value) else 1e9


def _numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics that are numbers or words, those within others by both names."""
    found: dict[str, Any] = {}
    for name, value in metrics.items():
        if name in ("channels", "places", "histogram"):
            continue
        if isinstance(value, Mapping):
            found |= {f"{name}, {inner}": v for inner, v in value.items()}
        else:
            found[str(name)] = value
    return found


def _pictures(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Errors by channel and by place, and histograms of both sides, where there are some."""
    found: dict[str, Any] = {}
    if channels := metrics.get("channels"):
        found["channels"] = _amounts(channels["values"], MOST_CHANNELS)
    if places := metrics.get("places"):
        found["places"] = [_amounts(row, MOST_SIDE) for row in places["values"][:MOST_SIDE]]
    if bars := metrics.get("histogram"):
        edges = [figure(bars["low"]), figure(bars["high"])]
        sides = [_amounts(bars[side], MOST_BARS) for side in ("expected", "actual")]
        found["histogram"] = [*edges, *sides]
    return found


def _amounts(values: Sequence[Any], most: int) -> list[float]:
    """Amounts of 0 and above, at most 1e9."""
    found = [float(value) for value in values[:most]]
    return [min(max(v, 0.0), 1e9) if not math.isnan(v) else 1e9 for v in found]
