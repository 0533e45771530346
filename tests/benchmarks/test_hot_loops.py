"""benchmarks/counting/hot_loops.py: shares of kept rows, weighted by their times."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.counting.hot_loops import hot_loops, hot_table
from benchmarks.counting.sides import COLUMNS


def row(
    kernel: str, us: float | None, share: float | None, times: int = 1, **more: Any
) -> list[Any]:
    values = {"kernel": kernel, "kind": "product", "us": us, "share": share, "bound": "issue"}
    values |= {"times": times, **more}
    return [values.get(name) for name in COLUMNS]


def document(*rows: list[Any]) -> dict[str, Any]:
    ours = {"code_us": 160.0, "rows": list(rows)}
    sides = {"vknn": ours, "ncnn": {"code_us": 900.0, "rows": [row("n", 900.0, 0.1)]}}
    networks = {"a": sides, "b": {"vknn": {"error": "no"}}}
    return {"null": "navi21", "precision": "fp16", "networks": networks}


ROWS = (
    row("conv", 10.0, 0.9, times=3),
    row("conv", 10.0, 0.7, times=2),
    row("conv", 5.0, 0.8, bound="memory"),
    row("depthwise", 45.0, 0.3, kind="depthwise", bound="latency"),
    row("softmax", 60.0, 0.1, kind="map"),
    row("unknown", None, None),
)


def test_shares_are_weighted_by_time() -> None:
    found = hot_loops(document(*ROWS))
    assert found is not None
    assert (found.time, found.whole) == (100.0, 160.0)
    assert found.share == pytest.approx(0.3 * 0.9 + 0.2 * 0.7 + 0.05 * 0.8 + 0.45 * 0.3)
    assert found.part(good=True) == pytest.approx(0.3)
    assert found.part(good=False, by_issue=True) == pytest.approx(0.2)
    assert found.part(good=False, by_issue=False) == pytest.approx(0.5)
    assert {name: len(loops) for name, loops in found.low().items()} == {"depthwise": 1, "conv": 2}


def test_the_table_names_what_is_below() -> None:
    found = hot_loops(document(*ROWS))
    assert found is not None
    other = hot_loops(document(row("conv", 10.0, 0.9)))
    assert other is not None
    lines = hot_table([found, other]).splitlines()
    assert lines[2] == "| time of products (of all) | 100 us (62%) | 10 us (6%) |"
    assert lines[-2:] == [
        "| depthwise | 0.30: 45 us (45%) | - |",
        "| conv | 0.70 to 0.80: 25 us (25%) | - |",
    ]


def test_rows_from_before_shares_were_kept() -> None:
    assert hot_loops(document(row("conv", 10.0, 0.9)[:-2])) is None
    assert hot_loops(document(row("conv", 10.0, None))) is None  # of no AMD GPU
