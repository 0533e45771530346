"""Counters of a device as a page draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vknn.reports.texts import Texts, number, shortened, whole


def counted(counters: Mapping[str, Any] | None, texts: Texts) -> dict[str, Any] | None:
    """``counters`` of a profile's document: names with units, and rows whose texts are numbers."""
    if not counters:
        return None
    names = [
        [shortened(str(counter[name])) for name in ("name", "unit", "description")]
        for counter in counters["counters"]
    ]
    rows = [
        [
            [texts.number(name) for name in row["layers"]],
            texts.number(row["kernel"]),
            texts.number(row["label"]),
            [None if value is None else number(value) for value in row["values"]],
        ]
        for row in counters["rows"]
    ]
    passes = whole(counters["passes"])
    return {"by": str(counters["by"]), "passes": passes, "names": names, "rows": rows}
