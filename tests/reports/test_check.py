"""A cross-check on the page of its profile: layers coloured by error, and what is known of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reports.checks import chained, verification
from tests.reports.chromium import Page
from tests.reports.documents import document
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.profiling import Profile
from vknn.reports.data import report_data

CLASSES = """[...document.querySelectorAll('#check .piece rect')].map(rect =>
    rect.getAttribute('class'))"""

Shown = Callable[..., Page]


def opened(page: Page) -> None:
    page.scroll_to("check", "#check .piece")


def test_the_layer_that_is_wrong_is_red_and_says_where(shown: Shown) -> None:
    made = chained(document(12))
    page = shown(made, verification(made, wrong=3))
    opened(page)
    assert page.value(CLASSES) == ["e1", "e1", "e1", "e3", "e1", "e1"]
    assert "first: layer 3" in page.value("document.getElementById('verdict').textContent")
    page.value("""document.querySelectorAll('#check .piece')[3]
        .dispatchEvent(new MouseEvent('click', {bubbles: true}))""")
    told = page.value("document.getElementById('check-told').textContent")
    assert "⚠ layer 3: Conv on vulkan" in told
    assert "channel 2" in told
    assert "absolute, p9991e-06" in told
    map_ = "[...document.querySelectorAll('#check-told .places rect')]"
    assert page.value(f"{map_}.map(r => r.getAttribute('class'))") == [
        *("e0", "e1", "e2"),
        *("e3", "e3", "e0"),
    ]
    assert page.value("document.querySelectorAll('#check-told .bars').length") == 2
    assert page.value("document.querySelectorAll('#check .edge').length") == 5


def test_a_clean_check_is_silent(shown: Shown) -> None:
    made = chained(document(12))
    page = shown(made, verification(made))
    opened(page)
    assert set(page.value(CLASSES)) == {"e1"}
    assert "⚠" not in page.value("document.getElementById('check').textContent")
    assert "within its tolerance" in page.value("document.getElementById('verdict').textContent")


def test_a_dispatch_shows_the_check_of_its_layer(shown: Shown) -> None:
    made = chained(document(8))
    page = shown(made, verification(made, wrong=1))
    page.value("window.location.hash = 'dispatch=2'")
    page.wait("document.querySelector('#check-told article') !== null")
    assert "⚠ layer 1" in page.value("document.getElementById('check-told').textContent")


def test_layers_on_a_circle_and_many_layers(shown: Shown) -> None:
    made = chained(document(6))
    made["layers"][0]["inputs"] = [{"name": "value 2", "shape": [1], "dtype": "float32"}]
    page = shown(made, verification(made))
    opened(page)
    assert len(page.value(CLASSES)) == 3
    made = chained(document(3001, per_layer=1, runs=1))
    page = shown(made, verification(made, wrong=7))
    page.scroll_to("check", "#check article")
    assert page.value("document.querySelectorAll('#check article').length") == 1
    table = page.texts("#check-table-0 tbody td:first-child")
    assert len(table) == 300 and table[:2] == ["⚠ layer 7", "layer 0"]
    assert "300 of 3,001 rows" in page.text("#check")
    assert page.value("performance.getEntriesByName('vknn-drawn')[0].startTime") < 4000


def test_a_page_without_a_check_has_no_part_for_it(shown: Shown) -> None:
    assert shown(document(4)).value("document.getElementById('check')") is None


def test_names_of_a_check_are_text(shown: Shown) -> None:
    name = "</script><img src=x onerror='window.hacked = 1'>{}"
    made = chained(document(6, layer=name))
    page = shown(made, verification(made, wrong=0))
    opened(page)
    assert page.value("typeof window.hacked") == "undefined"
    assert page.value("document.querySelectorAll('img').length") == 0


def test_joined_layers_share_a_row() -> None:
    made = chained(document(8))
    check = verification(made)
    check["rows"] = [{**check["rows"][0], "layer": "layer 1+layer 2", "output": "else"}]
    found = report_data(made, check)["check"]
    assert found["rows"][0]["layers"] == [1, 2]
    assert found["edges"] == [[0, 1], [1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.pop("rows"), "rows"),
        (lambda c: [r.pop("node") for r in c["rows"]], "not those of one input"),
        (lambda c: [r.update(layer="other", output="other") for r in c["rows"]], "another model"),
        (lambda c: c["rows"][0]["isolated"].update(excess="much"), "could not convert"),
    ],
)
def test_a_check_that_does_not_belong_says_so(change: Any, words: str) -> None:
    made = chained(document(4))
    check = verification(made)
    change(check)
    with pytest.raises(VknnError, match=f"no cross-check: .*{words}") as raised:
        report_data(made, check)
    assert "ValueError" not in str(raised.value)


@pytest.mark.device
def test_profile_and_check_of_a_model_in_one_file(tmp_path: Path) -> None:
    model, shapes = write_small_model(tmp_path), {"data": SHAPE}
    saved, verified, page = (tmp_path / name for name in ("a.vkprof", "v.json", "a.html"))
    vknn.profile(model, runs=1, shapes=shapes, device="vulkan").save(saved)
    verified.write_text(vknn.verify(model, shapes=shapes, device="vulkan").to_json())
    arguments = ["report", str(saved), "--verify", str(verified)]
    assert main([*arguments, "--html", str(page)]) == 0
    check = json.loads(verified.read_text())
    data = report_data(Profile.load(saved).to_document(), check)["check"]
    coloured = {data["layers"][n][0] for row in data["rows"] for n in row["layers"]}
    assert coloured == {"conv1", "dw", "sum", "pool", "fc", "prob"}
    assert "Cross-check" in page.read_text()
    assert main(arguments) == 2
    verified.write_text("[1")
    assert main([*arguments, "--html", str(page)]) == 2
