"""Tables in Markdown, and their place in a page of the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENGINES = ("vknn", "ncnn")
HEADS = (
    *("dispatches", "barriers", "copies", "submits", "peak MB", "pipelines", "host, us"),
    "by code, us",
)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *rows))


def between_markers(page: Path, marker: str, text: str) -> None:
    """Update of a page between ``<!-- marker: begin -->`` and ``<!-- marker: end -->``. Raises
    ValueError where it lacks them."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    head, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} lacks the lines {begin} and {end}")
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")


def side_tables(documents: Sequence[Mapping[str, Any]]) -> str:
    """Tables of devices: vknn beside ncnn by networks; what is assumed, under the first."""
    parts = []
    for document in documents:
        about = ", ".join(f"{name} {document.get(name, '')}" for name in ENGINES)
        null, device = document["null"], document["device"].strip()
        head = f"**{null}** ({device}), {document['precision']}, {about}:"
        parts += [head, _counts(document), _compilers(document), *_sensitivity(document)]
    lines = [f"- {line}" for line in dict.fromkeys(a for d in documents for a in d["assumptions"])]
    return "\n\n".join([*parts, "\n".join(lines)])


def _counts(document: Mapping[str, Any]) -> str:
    """Each cell: vknn's, then ncnn's."""
    names = (
        "dispatches",
        "barriers",
        "copies",
        "submits",
        "peak_mb",
        "pipelines",
        "host_us",
        "code_us",
    )
    networks = document["networks"]
    cards = list(dict.fromkeys(c for n in networks.values() for c in n["vknn"].get("us", {})))
    heads = ["network", *HEADS, *(f"{card}, us" for card in cards)]
    rows = []
    for name, engines in networks.items():
        sides = [engines.get(engine, {}) for engine in ENGINES]
        cells = [_pair([side.get(column) for side in sides]) for column in names]
        times = [_pair([side.get("us", {}).get(card) for side in sides]) for card in cards]
        rows.append([name, *cells, *times])
    return markdown(heads, [*rows, *_means(networks, cards)])


def _means(networks: Mapping[str, Any], cards: Sequence[str]) -> list[list[str]]:
    """vknn's share of ncnn's time, as a geometric mean over the networks."""
    sides = [[engines.get(e, {}) for e in ENGINES] for engines in networks.values()]
    codes = [[side.get("code_us") for side in pair] for pair in sides]
    cells = [
        _share([[s.get("us", {}).get(card) for s in pair] for pair in sides]) for card in cards
    ]
    if not any([_share(codes), *cells]):
        return []
    return [["vknn's share, geometric mean", *[""] * (len(HEADS) - 1), _share(codes), *cells]]


def _share(pairs: Sequence[Sequence[float | None]]) -> str:
    shares = [ours / theirs for ours, theirs in pairs if ours and theirs]
    return f"{statistics.geometric_mean(shares):.2f}" if shares else ""


def _sensitivity(document: Mapping[str, Any]) -> list[str]:
    """Lines on what scaled latencies change of the times by code; none where there are none."""
    sides = {n: [e.get(engine, {}) for engine in ENGINES] for n, e in document["networks"].items()}
    assumed = {name: [side.get("code_us") for side in pair] for name, pair in sides.items()}
    if not _share(list(assumed.values())):
        return []
    lines = []
    for factor in dict.fromkeys(f for p in sides.values() for s in p for f in _scaled(s)):
        pairs = {name: [_scaled(side).get(factor) for side in pair] for name, pair in sides.items()}
        turned = [
            name
            for name, pair in pairs.items()
            if all([*pair, *assumed[name]]) and _ahead(pair) != _ahead(assumed[name])
        ]
        lines.append(
            f"Latencies times {factor}: vknn's share by code is {_share(list(pairs.values()))} "
            f"in place of {_share(list(assumed.values()))}; who is ahead changes in "
            f"{', '.join(turned) or 'no network'}."
        )
    return ["\n".join(lines)] if lines else []


def _scaled(side: Mapping[str, Any]) -> Mapping[str, float]:
    return side.get("code_scaled_us") or {}


def _ahead(pair: Sequence[float]) -> bool:
    """Whether vknn is ahead."""
    return pair[0] < pair[1]


def _compilers(document: Mapping[str, Any]) -> str:
    """Extremes over all pipelines of the networks, as the driver counts them."""
    rows = []
    for engine in ENGINES:
        sides = [
            n[engine] for n in document["networks"].values() if "spilling" in n.get(engine, {})
        ]
        if not sides:
            continue
        registers = [s["most_registers"] for s in sides if s["most_registers"] is not None]
        code = [s["most_code"] for s in sides if s["most_code"] is not None]
        waves = [s["fewest_waves"] for s in sides if s["fewest_waves"] is not None]
        spilling = sum(s["spilling"] for s in sides)
        extremes = [max(registers, default=""), max(code, default=""), min(waves, default="")]
        rows.append([engine, str(sum(s["pipelines"] for s in sides)), str(spilling)])
        rows[-1] += [f"{value:,}" if value != "" else "" for value in extremes]
    heads = ["engine", "pipelines", "that spill", "most registers", "most code, bytes"]
    return markdown([*heads, "fewest waves"], rows)


def _pair(values: Sequence[Any]) -> str:
    return " / ".join("-" if value is None else f"{value:,}" for value in values)
