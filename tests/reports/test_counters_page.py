"""Counters of the device on the page, held against the document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.profiling.test_counters_file import COUNTER, ROW, counters
from tests.reports.chromium import Page
from tests.reports.documents import document

Shown = Callable[[dict[str, Any]], Page]
CELLS = """[...document.querySelectorAll('#counters tr')].map(row =>
    [...row.cells].map(cell => cell.textContent))"""


def counted(rows: int, **more: Any) -> dict[str, Any]:
    """A document of four dispatches with so many rows of counters."""
    each = [{**ROW, "label": f"row {n}", "values": [n, n / 8]} for n in range(rows)]
    return document(4) | {"counters": counters(rows=each, **more)}


def cells(page: Page) -> list[list[str]]:
    page.scroll_to("counters", "#counters tbody")
    return page.value(CELLS)


def test_rows_are_those_of_the_document(shown: Shown) -> None:
    page = shown(counted(4))
    assert page.value("!!document.querySelector('nav.parts a[href=\"#counters\"]')")
    head, *found = cells(page)
    assert head == ["layer", "kernel", "what", "L2 hits (%)", "waves"]
    assert found[3] == ["conv1", "convolution/conv", "row 3", "3", "0.375"]
    assert len(found) == 4
    page.value("document.querySelectorAll('#counters tbody tr')[2].click()")
    assert page.value("document.querySelector('#detail dd').textContent") == "2"


def test_submits_are_no_dispatches(shown: Shown) -> None:
    """A value that is no number is an empty cell; a name is a text whatever it holds."""
    hostile = {**COUNTER, "name": "</script><b>x", "unit": ""}
    made = counted(4, by="submits", counters=[hostile, COUNTER])
    made["counters"]["rows"][0]["values"] = [None, 2]
    page = shown(made)
    head, first, *_ = cells(page)
    assert head[3] == "</script><b>x" and first[3:] == ["", "2"]
    page.value("document.querySelectorAll('#counters tbody tr')[2].click()")
    assert page.value("document.querySelector('#detail dd')") is None


def test_many_rows_are_cut_off(shown: Shown) -> None:
    page = shown(counted(1200))
    assert len(cells(page)) == 1001
    text = page.value("document.querySelector('#counters').textContent")
    assert "The first 1000 of 1,200 rows" in text


def test_without_counters_there_is_no_part(shown: Shown) -> None:
    page = shown(document(4))
    assert not page.value("!!document.querySelector('#counters, nav.parts a[href=\"#counters\"]')")
