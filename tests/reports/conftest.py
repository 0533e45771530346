"""A tab of Chromium that the tests of a module share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.reports import chromium

from vknn.reports import save


@pytest.fixture(scope="module")
def tab() -> Iterator[chromium.Page]:
    """The tab; skips where there is no Chromium (Debian: apt-get install chromium)."""
    if chromium.found() is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with chromium.browser() as page:
        yield page


@pytest.fixture
def opened(tab: chromium.Page, tmp_path: Path) -> Iterator[Callable[[str], chromium.Page]]:
    """Opens the text of a page; at the end nothing was logged, and nothing asked of any network."""
    tab.console.clear()
    tab.requests.clear()

    def show(text: str) -> chromium.Page:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        tab.open(path)
        return tab

    yield show
    tab.value("1")  # takes in what was said so far
    assert tab.console == []
    assert all(url.startswith("file://") for url in tab.requests), tab.requests


@pytest.fixture
def shown(tab: chromium.Page, tmp_path: Path) -> Iterator[Callable[..., chromium.Page]]:
    """Opens a document's page; at the end nothing was logged, and nothing asked of any network."""
    tab.console.clear()
    tab.requests.clear()

    def show(document: dict[str, Any], verify: dict[str, Any] | None = None) -> chromium.Page:
        path = tmp_path / "report.html"
        save(document, path, verify)
        tab.open(path)
        return tab

    yield show
    tab.value("1")  # takes in what was said so far
    assert tab.console == []
    assert tab.requests
    assert all(url.startswith("file://") for url in tab.requests), tab.requests
