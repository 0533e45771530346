"""How soon a page is drawn, and that a long table scrolls."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reports.chromium import Page
from tests.reports.documents import document

from vknn.reports import save

DRAWN = "performance.getEntriesByName('vknn-drawn')[0].startTime"


def test_a_few_hundred_dispatches_are_drawn_at_once(tab: Page, tmp_path: Path) -> None:
    """As many as vision_transformer has, and more."""
    path = tmp_path / "report.html"
    save(document(400, runs=10, static=True), path)
    assert path.stat().st_size < 1 << 20
    tab.open(path)
    assert tab.value(DRAWN) < 1500


@pytest.mark.slow
def test_twenty_thousand_dispatches(tab: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    save(document(20_000, runs=5, static=True), path)
    tab.open(path)
    assert tab.value(DRAWN) < 5000
    tab.value("document.querySelector('.scroller').scrollTop = 1e9")
    tab.wait("document.querySelector('[data-row=\"19999\"]') !== null")
    assert tab.value("document.querySelectorAll('#table tbody tr').length") < 100
    for part in ("where", "timeline", "roofline", "memory"):
        begin = tab.value("performance.now()")
        tab.scroll_to(part, f"#{part} .piece")
        assert tab.value("performance.now()") - begin < 5000, part
        assert tab.value(f"document.querySelectorAll('#{part} .piece').length") < 10_000
