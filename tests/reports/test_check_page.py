"""The page of a cross-check alone, read back in Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.faulty_layer import write_faulty_model
from tests.reports import chromium
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli.main import main
from vknn.crosscheck import VerifyReport

Shown = Callable[[VerifyReport], chromium.Page]
SHADES = """[...document.querySelectorAll('#check .piece')].map(piece =>
    [piece.getAttribute('aria-label'), piece.querySelector('rect').getAttribute('class')])"""


@pytest.fixture
def shown(tab: chromium.Page, tmp_path: Path) -> Iterator[Shown]:
    """Opens a report's page; at the end nothing was logged, nor asked of any network."""
    tab.console.clear()
    tab.requests.clear()

    def show(report: VerifyReport) -> chromium.Page:
        report.save_html(tmp_path / "check.html")
        tab.open(tmp_path / "check.html")
        tab.wait("document.querySelector('#check .piece') !== null")
        return tab

    yield show
    tab.value("1")  # takes in what was said so far
    assert tab.console == []
    assert all(url.startswith("file://") for url in tab.requests), tab.requests


@pytest.mark.device
def test_the_layer_that_is_wrong(shown: Shown, tmp_path: Path) -> None:
    """It alone is red, and a click shows in which channel."""
    model = write_faulty_model(tmp_path, "channel")
    report = vknn.verify(model, device="vulkan", metrics=True)
    assert not report.ok
    page = shown(report)
    found = dict(page.value(SHADES))
    wrong = [name for name, shade in found.items() if shade == "e3"]
    first = report.first_failure
    assert first is not None
    assert any(name.startswith(f"{first.layer},") for name in wrong)
    number = list(found).index(next(n for n in wrong if n.startswith(f"{first.layer},")))
    page.value(f"""document.querySelectorAll('#check .piece')[{number}]
        .dispatchEvent(new MouseEvent('click', {{bubbles: true}}))""")
    assert "channel 3" in page.value("document.getElementById('check-told').textContent")


def test_the_address_names_a_layer(tab: chromium.Page, tmp_path: Path) -> None:
    report = vknn.verify(write_small_model(tmp_path), device="numpy")
    report.save_html(tmp_path / "check.html")
    tab.open(tmp_path / "check.html", "#layer=1")
    told = tab.value("document.getElementById('check-told').textContent")
    assert report.layers[1]["name"] in told


def test_a_clean_check_is_silent(shown: Shown, tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    report = vknn.verify(model, {"data": np.ones(SHAPE, np.float32)}, device="numpy")
    page = shown(report)
    assert "e3" not in {shade for _, shade in page.value(SHADES)}
    assert page.value("document.querySelectorAll('.warning').length") == 0
    names = [label.split(",")[0] for label, _ in page.value(SHADES)]
    assert {"conv1", "dw", "fc", "prob"} <= set(names)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_small_model(tmp_path)
    argv = ["verify", str(model), "--device", "numpy", "--json"]
    main([*argv, "--html", str(tmp_path / "check.html")])
    rows = json.loads(capsys.readouterr().out)["rows"]
    text = (tmp_path / "check.html").read_text()
    begin = text.index('id="data">') + len('id="data">')
    data = json.loads(text[begin : text.index("</script>", begin)])
    assert [row["node"] for row in data["check"]["rows"]] == [row["node"] for row in rows]
