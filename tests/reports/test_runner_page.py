"""The page of a profile of vknn-run in Chromium: what it has, and what it says that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.reports.chromium import Page
from tests.reports.documents import document
from tests.reports.test_page import choose, filter_by, number, pieces, rows, select_row

from vknn.profiling.runner_profile import page_document

Shown = Callable[[dict[str, Any]], Page]
PARTS = "[...document.querySelectorAll('main > section')].map(part => part.id)"
LINKS = "[...document.querySelectorAll('nav.parts a')].map(link => link.hash)"


def step(number: int, length: float = 20.0, **more: Any) -> dict[str, Any]:
    """The step behind so many others of 20 us, 5 us after the last."""
    return {
        "label": f"conv{number}", "op": "Conv direct", "kernel": "convolution/conv",
        "groups": [4, 1, 1], "flops": 2_000_000, "bytes": 4000, "begin": 25.0 * number,
        "microseconds": length, **more,
    }  # fmt: skip


def runner_document(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    end = max((s["begin"] + s["microseconds"] for s in steps), default=0.0)
    measured = {
        "device": "Phone", "driver": "v1", "target": "generic", "shapes": "data=1",
        "precision": "fp32", "runs": 7, "microseconds": end, "steps": list(steps), **more,
    }  # fmt: skip
    return page_document(measured, "run.json")


def page_text(page: Page) -> str:
    return page.value("document.body.innerText")


def test_it_has_the_parts_that_it_has_data_for(shown: Shown) -> None:
    page = shown(runner_document(step(0), step(1, 60.0), step(2, begin=90.0)))
    assert page.value(PARTS) == ["totals-of-runs", "table", "where", "timeline", "roofline"]
    assert page.value(LINKS) == ["#table", "#where", "#timeline", "#roofline"]
    assert "no parts for memory and source" in page_text(page)
    assert "A run, mean of 7 runs" in page_text(page)
    totals = page.value(
        "Object.fromEntries([...document.querySelectorAll('[data-total]')]"
        ".map(card => [card.dataset.total, card.textContent]))"
    )
    assert totals == {"extent": "110.0 µs", "busy": "100.0 µs", "gaps": "10.0 µs"}


def test_others_say_nothing_of_it(shown: Shown) -> None:
    page = shown(document(4))
    assert page.value(PARTS)[-2:] == ["memory", "source"]
    assert "vknn-run" not in page_text(page)
    assert "least" in rows(page)[0]


def test_times_are_means(shown: Shown) -> None:
    page = shown(runner_document(step(0), step(1, 60.0)))
    found = rows(page)
    assert [(row["layer"], number(row["median"])) for row in found] == [
        ("conv1", 60.0),
        ("conv0", 20.0),
    ]
    assert "least" not in found[0]
    assert number(found[1]["gflops"]) == pytest.approx(100)
    head = "document.querySelector('#table [data-column=median]').textContent"
    assert page.value(head) == "mean µs ▾"
    select_row(page, 0)
    detail = page.value("document.getElementById('detail').textContent")
    assert "mean" in detail and "least" not in detail and "median" not in detail
    assert page.value("document.querySelectorAll('#detail a').length") == 1


def test_charts_show_it(shown: Shown) -> None:
    page = shown(runner_document(step(0), step(1, 60.0), step(2, begin=585.0)))
    assert any(words.startswith("conv1") and "60.0 %" in words for words in pieces(page, "where"))
    names = pieces(page, "timeline")
    assert [name for name in names if name.startswith("gap")] == [
        "gap of 5.0 µs: no command runs",
        "gap of 500.0 µs: no command runs",
    ]
    assert sum(name.startswith("conv") for name in names) == 3
    assert not [name for name in names if "upload" in name or "submit" in name]
    told = page.value("document.querySelector('#timeline .about').textContent")
    assert "means of the runs" in told
    assert pieces(page, "roofline")


def test_copies_have_neither_groups_nor_buffers(shown: Shown) -> None:
    copied = step(1, kernel="copy", groups=[0, 0, 0], flops=0)
    page = shown(runner_document(step(0), copied))
    assert {row["kernel"]: row["groups"] for row in rows(page)} == {
        "convolution/conv": "4×1×1",
        "copy": "",
    }
    choose(page, "table", "kernel")
    filter_by(page, "copy")
    assert [row["name"] for row in rows(page)] == ["copy"]


def test_one_of_nothing(shown: Shown) -> None:
    page = shown(runner_document(runs=1))
    assert "nothing that is computed" in page_text(page)
    assert "A run, mean of one run" in page_text(page)


def test_it_is_printed(shown: Shown) -> None:
    page = shown(runner_document(*(step(n) for n in range(300))))
    page.value("window.dispatchEvent(new Event('beforeprint'))")
    assert len(rows(page)) == 200
    assert page.value("document.querySelectorAll('#timeline .piece').length") > 300
    page.value("window.dispatchEvent(new Event('afterprint'))")


def test_its_names_are_text(shown: Shown) -> None:
    name = "</script><script>window.hacked = 1</script>"
    page = shown(runner_document(step(0, label=name, op=name), device=name, target=name))
    select_row(page, 0)
    assert page.value("typeof window.hacked") == "undefined"
    assert page.value("document.querySelector('#detail h2').textContent") == name
    assert name in page_text(page)
