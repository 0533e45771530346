"""Pictures of each page: it is drawn, in the colours of what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.reports.checks import chained, verification
from tests.reports.chromium import Page
from tests.reports.comparisons import comparison, row
from tests.reports.documents import document

from vknn.reports import check_page, comparison_page, page

Colour = tuple[int, int, int]
Opened = Callable[[str], Page]

#: Colours that a page has more of than a blank one: letters and lines have soft edges.
FEW = 50


def drawn(tab: Page, path: Path) -> dict[Colour, int]:
    """Pixels by colour of a picture of what is in sight; fails where that is blank."""
    tab.picture(path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        ratio = tab.value("window.devicePixelRatio")
        sides = tab.value("[window.innerWidth, window.innerHeight]")
        assert image.size == tuple(round(side * ratio) for side in sides)
        found = image.convert("RGB").getcolors(image.width * image.height)
    colours = {colour: count for count, colour in found}
    assert len(colours) > FEW, "the picture is blank"
    assert max(colours.values()) < 0.95 * sum(colours.values()), "the picture is nearly blank"
    return colours


def fill(tab: Page, name: str) -> Colour:
    """Colour of a class of shapes."""
    shape = f"document.querySelector({json.dumps(f'rect.{name}')})"
    red, green, blue = map(int, re.findall(r"\d+", tab.value(f"getComputedStyle({shape}).fill")))
    return red, green, blue


def test_a_blank_page_has_no_picture(opened: Opened, tmp_path: Path) -> None:
    mark = "<script>performance.mark('vknn-drawn')</script>"
    for blank in (mark, f"<p>a word</p>{mark}"):
        tab = opened(f"<!DOCTYPE html><title>blank</title>{blank}")
        with pytest.raises(AssertionError, match="blank"):
            drawn(tab, tmp_path / "blank.png")


def test_a_profile(opened: Opened, tmp_path: Path) -> None:
    tab = opened(page(document(40)))
    drawn(tab, tmp_path / "top.png")
    tab.scroll_to("where", "#where .leaf rect.c0")
    colours = drawn(tab, tmp_path / "where.png")
    for operator in ("c0", "c1", "c2", "c3"):
        assert colours.get(fill(tab, operator), 0) > 5000, operator


@pytest.mark.parametrize("word", ["slower", "same"])
def test_a_comparison(opened: Opened, tmp_path: Path, word: str) -> None:
    made = comparison(row("conv1", 4e-4, 4e-4, "same"), row("conv2", 2e-4, 5e-4, word), word=word)
    tab = opened(comparison_page(made.document()))
    tab.scroll_to("waterfall", "#waterfall .piece")
    reds = drawn(tab, tmp_path / "comparison.png").get(fill(tab, "e3"), 0)
    # The legend has it, too, a square of twelve by twelve.
    assert reds > 1000 if word == "slower" else 0 < reds < 200


@pytest.mark.parametrize("wrong", [3, None])
def test_a_cross_check(opened: Opened, tmp_path: Path, wrong: int | None) -> None:
    made = chained(document(12))
    tab = opened(check_page(verification(made, wrong), made["layers"]))
    tab.scroll_to("check", "#check .piece")
    reds = drawn(tab, tmp_path / "check.png").get(fill(tab, "e3"), 0)
    assert reds > 1000 if wrong is not None else 0 < reds < 200
