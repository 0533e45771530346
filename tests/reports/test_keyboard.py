"""Pages of comparisons and cross-checks by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable

from tests.reports.checks import chained, verification
from tests.reports.chromium import Page
from tests.reports.comparisons import comparison, row
from tests.reports.documents import document

from vknn.reports import check_page, comparison_page

Opened = Callable[[str], Page]

#: Whether the first element lies within the second, and that within the window.
WITHIN = """((inner, outer) => {
    const [a, b] = [inner, outer].map(s => document.querySelector(s).getBoundingClientRect());
    return a.top >= b.top - 1 && a.bottom <= b.bottom + 1 && a.top >= 0 && a.bottom <= innerHeight;
})"""


def press(tab: Page, *keys: str) -> None:
    for key in keys:
        tab.key(key)


def test_a_comparison(opened: Opened) -> None:
    rows = [row(f"layer {i}", 1e-4, 1e-4 + i * 1e-6, "same") for i in range(1, 60)]
    rows[1] = row("layer 2", 1e-4, 9e-4, "slower")
    tab = opened(comparison_page(comparison(*rows).document()))
    tab.scroll_to("waterfall", "#waterfall .piece")
    tab.value("window.scrollTo(0, 0)")
    tab.reach("#waterfall svg.chart")
    press(tab, "Home", "ArrowDown")
    assert tab.text("#waterfall .status").startswith("layer 2: slower, +800.0 µs")
    press(tab, "Enter")
    assert tab.text("#layers-table tr.chosen td") == "layer 2"
    assert tab.text("#row-told").startswith("layer 2: slower")
    assert "kernels: a/b, then a/c" in tab.text("#row-told")
    tab.reach("#layers .scroller")
    press(tab, "End", "Enter")
    assert tab.text("#layers-table tr.chosen td") == "layer 59"
    assert tab.value(f"{WITHIN}('#layers-table tr.active', '#layers .scroller')")
    chosen = "document.querySelector('#waterfall .piece.chosen').getAttribute('aria-label')"
    assert tab.value(chosen).startswith("layer 59: same")
    press(tab, "Home", "ArrowDown", "PageDown", "ArrowUp", " ")
    assert tab.text("#row-told").startswith("layer 16: same")
    assert tab.texts("#layers-table tr.chosen td:first-child") == ["layer 16"]


def test_columns_of_a_comparison(opened: Opened) -> None:
    rows = [row("small", 1e-4, 1.1e-4, "same"), row("large", 1e-4, 5e-4, "slower")]
    tab = opened(comparison_page(comparison(*rows).document()))
    tab.reach("#layers-table th:nth-child(6) button")
    press(tab, "Enter")
    assert tab.texts("#layers-table tbody td:first-child") == ["large", "small"]
    press(tab, "Enter")
    assert tab.texts("#layers-table tbody td:first-child") == ["small", "large"]
    tab.reach("#layers .scroller")
    press(tab, "Enter")
    assert tab.text("#row-told").startswith("small: same")


def test_the_graph_of_a_cross_check(opened: Opened) -> None:
    """The layer that the keys have come to stays in sight, and so do the words about it."""
    made = chained(document(120))
    tab = opened(check_page(verification(made, wrong=58), made["layers"]))
    tab.wait("document.querySelector('#check .piece') !== null")
    tab.reach("#check svg.chart")
    press(tab, "End", "ArrowUp")
    assert tab.text("#check .graph .status").startswith("layer 58, Layer (Conv)")
    assert tab.value(f"{WITHIN}('#check .piece.active', '#check .graph')")
    assert tab.value(f"{WITHIN}('#check .graph .status', '#check .graph')")
    press(tab, "Enter")
    assert tab.text("#check-told").startswith("⚠ layer 58: Conv on vulkan")
    press(tab, "Home", "ArrowDown", " ")
    assert tab.text("#check-told").startswith("layer 1: Conv")
    assert tab.value(f"{WITHIN}('#check .piece.active', '#check .graph')")


def test_the_tables_of_a_cross_check(opened: Opened) -> None:
    made = chained(document(120))
    tab = opened(check_page(verification(made, wrong=41), made["layers"]))
    table = "#check-table-0"
    tab.reach(f".scroller:has({table})")
    press(tab, "End", "Enter")
    assert tab.text("#check-told").startswith("layer 59: Conv")
    assert tab.value(f"{WITHIN}('{table} tr.active', '.scroller:has({table})')")
    tab.reach(f"{table} th:nth-child(4) button")
    press(tab, "Enter")
    assert tab.text(f"{table} tbody td") == "⚠ layer 41"  # the largest error first
    tab.reach(f".scroller:has({table})")
    press(tab, "Enter")
    assert tab.text("#check-told").startswith("⚠ layer 41: Conv")
    assert tab.texts(f"{table} tr.chosen td:first-child") == ["⚠ layer 41"]
