"""benchmarks/pages.py: a page that is too large or too slow is told, another is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pages import Goals, Measured, measured
from tests.reports.chromium import Page
from tests.reports.documents import document

from vknn.reports import save

GOALS = Goals(5_000_000, 1500.0)


def page(nbytes: int, in_sight: float, whole: float) -> Measured:
    return Measured("net", 100, nbytes, in_sight, whole, ())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (page(5_000_000, 100, 200), ["net: 5.00 MB"]),
        (
            page(1, 1500, 1600),
            ["net: 1500 ms until drawn in sight", "net: 1600 ms until drawn as a whole"],
        ),
        (page(1, 100, 1501), ["net: 1501 ms until drawn as a whole"]),
        (page(4_999_999, 1499, 1499), []),
    ],
)
def test_goals(made: Measured, words: list[str]) -> None:
    assert made.missed(GOALS) == words
    assert page(1 << 30, 1, 2).missed(Goals(None, 5000)) == []


def test_a_page_is_measured(tab: Page, tmp_path: Path) -> None:
    tab.console.clear()
    save(document(30), tmp_path / "page.html")
    found = measured("made up", tmp_path / "page.html", tab, 2)
    assert found.dispatches == 30
    assert found.nbytes == (tmp_path / "page.html").stat().st_size
    assert len(found.each) == 2
    assert 0 < found.in_sight < found.whole
    assert tab.value("document.querySelectorAll('#memory .piece').length") > 30  # below the fold
