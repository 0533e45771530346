"""The page of a comparison, read back in Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.profiling.profile_documents import processes
from tests.reports import chromium
from tests.reports.comparisons import comparison, row

from vknn.cli.main import main
from vknn.profiling import Profile
from vknn.profiling.comparison.result import ProfileComparison

HOSTILE = "</script><script>alert(1)</script>\N{GRINNING FACE}\"'&" + "x" * 10_000
Shown = Callable[[ProfileComparison], chromium.Page]


@pytest.fixture
def shown(tab: chromium.Page, tmp_path: Path) -> Iterator[Shown]:
    """Opens a comparison's page; at the end nothing was logged, nor asked of any network."""
    tab.console.clear()
    tab.requests.clear()

    def show(found: ProfileComparison) -> chromium.Page:
        found.save_html(tmp_path / "comparison.html")
        tab.open(tmp_path / "comparison.html")
        tab.scroll_to("waterfall", "#waterfall .piece")
        return tab

    yield show
    tab.value("1")  # takes in what was said so far
    assert tab.console == []
    assert all(url.startswith("file://") for url in tab.requests), tab.requests


def texts(page: chromium.Page, selector: str) -> list[str]:
    found = page.value(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(n => n.textContent)"
    )
    assert isinstance(found, list)
    return found


def shades(page: chromium.Page) -> list[str]:
    found = page.value(
        "[...document.querySelectorAll('#waterfall .piece rect:nth-of-type(2)')]"
        ".map(rect => rect.getAttribute('class'))"
    )
    assert isinstance(found, list)
    return found


def test_what_made_the_difference(shown: Shown) -> None:
    """The planted slow layer is red, the fast one green, and the steps lead from sum to sum."""
    page = shown(
        comparison(
            row("conv1", 4e-4, 4.1e-4, "cannot tell"),
            row("conv2", 2e-4, 5e-4, "slower"),
            row("pool", 3e-4, 1e-4, "faster"),
            row("gone", 1e-4, None, "only before"),
        )
    )
    assert shades(page) == ["whole", "c8", "e3", "e0", "c8", "whole"]
    assert texts(page, "#waterfall .piece .tick") == [
        "1.00 ms", "+10.0 µs", "+300.0 µs", "−200.0 µs", "−100.0 µs", "1.01 ms"
    ]  # fmt: skip
    ends = page.value(
        "[...document.querySelectorAll('#waterfall .piece rect:nth-of-type(2)')].map(r => {"
        "const x = Number(r.getAttribute('x')); return [x, x + Number(r.getAttribute('width'))]; })"
    )
    assert ends[2][0] == pytest.approx(ends[1][1], abs=0.1)  # a step begins where one ended
    assert texts(page, "[data-whole=word]") == ["slower"]
    assert texts(page, "[data-whole=ratio]") == ["1.200"]
    assert texts(page, "#parts td") == [
        "wall", "1.00 ms", "1.20 ms", "+200.0 µs", "busy", "900.0 µs", "1.10 ms", "+200.0 µs"
    ]  # fmt: skip


def test_rows_are_those_of_the_json_and_sort(shown: Shown) -> None:
    made = comparison(
        *(row(f"layer {i}", 1e-4 * (i + 1), 1e-4 * (7 - i), "same") for i in range(7))
    )
    page = shown(made)
    first = "#layers-table tbody tr td:first-child"
    assert texts(page, first) == [f"layer {i}" for i in range(7)]
    numbers = texts(page, "#layers-table tbody tr td:nth-child(6)")
    for text, known in zip(numbers, json.loads(made.to_json())["rows"], strict=True):
        assert float(text) == pytest.approx(known["difference"] * 1e6, abs=0.05)
    page.value("document.querySelectorAll('#layers-table thead button')[5].click()")
    assert texts(page, first) == [f"layer {i}" for i in range(7)]  # the largest first
    page.value("document.querySelectorAll('#layers-table thead button')[5].click()")
    assert texts(page, first) == [f"layer {i}" for i in reversed(range(7))]
    assert page.value(
        "document.querySelectorAll('#layers-table th')[5].getAttribute('aria-sort')"
    ) == "ascending"  # fmt: skip


def test_a_clean_comparison_is_silent(shown: Shown) -> None:
    page = shown(comparison(row("conv1", 1e-4, 1.01e-4, "same"), word="same"))
    assert set(shades(page)) == {"whole", "c8"}
    assert page.value("document.querySelectorAll('td.warning, p.warning').length") == 0
    assert texts(page, "h1") == ["same: a comparison of profiles"]


def test_many_layers_are_joined(shown: Shown) -> None:
    page = shown(comparison(*(row(f"l{i}", 1e-5, 1e-5 + i * 1e-7, "same") for i in range(1, 100))))
    assert len(shades(page)) == 1 + 20 + 1 + 1
    assert "79 others" in texts(page, "#waterfall .piece text")
    assert len(texts(page, "#layers-table tbody tr")) == 99


def test_names_are_text(shown: Shown) -> None:
    page = shown(comparison(row(HOSTILE, 1e-4, 2e-4, "slower")))
    assert page.value("document.querySelectorAll('script').length") == 2
    (name,) = texts(page, "#layers-table tbody td:first-child")
    assert HOSTILE.startswith(name.removesuffix("…"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page of two files holds the comparison that --json prints."""
    for number, name in enumerate(("a", "b")):
        (document,) = processes(1, number)
        Profile.from_document(document).save(tmp_path / f"{name}.vkprof")
    argv = ["compare", str(tmp_path / "a.vkprof"), str(tmp_path / "b.vkprof"), "--json"]
    assert main([*argv, "--html", str(tmp_path / "c.html")]) == 0
    printed = json.loads(capsys.readouterr().out)
    text = (tmp_path / "c.html").read_text()
    begin = text.index('id="data">') + len('id="data">')
    assert json.loads(text[begin : text.index("</script>", begin)]) == printed
