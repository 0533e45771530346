"""What a cross-check's page says beside its graph: answers, the first NaN, outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_layer import write_faulty_model
from tests.reports.checks import chained, verification
from tests.reports.chromium import Page
from tests.reports.documents import document
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.crosscheck.comparison import ArrayComparison
from vknn.errors import VknnError
from vknn.reports import check_page
from vknn.reports.data import report_data

Opened = Callable[[str], Page]
SWAPPED = {
    "classes": [{"output": "scores", "examples": 8, "top1": 0.75, "top5": 0.975}],
    "boxes": None,
}
BOXES: dict[str, Any] = {
    "expected": 3, "actual": 3, "matched": 2, "mean_iou": 0.91234, "least_iou": 0.875,
    "score_error": 0.0625, "missed": ["dog 0.91 at 1,2,3,4"], "extra": ["cat 0.55 at 5,6,7,8"],
}  # fmt: skip
NAN: dict[str, Any] = {
    "side": "device", "alone": True, "layer": "layer 2", "op": "Conv", "output": "value 2",
    "kind": "NaN", "count": 1, "first": [0, 2, 1, 3],
}  # fmt: skip


def shown(opened: Opened, **more: Any) -> Page:
    made = chained(document(8))
    return opened(check_page({**verification(made), **more}, made["layers"]))


def cells(tab: Page, title: str) -> list[str]:
    """Texts of the table below a title; none without it."""
    found = tab.value(f"""(() => {{
        const head = [...document.querySelectorAll('#check h3')]
            .find(node => node.textContent === '{title}');
        const found = head ? [...head.nextSibling.querySelectorAll('td')] : [];
        return found.map(cell => cell.textContent);
    }})()""")
    assert isinstance(found, list)
    return found


def output(name: str, **more: Any) -> dict[str, Any]:
    plain = {"ok": True, "max_abs": 1e-7, "max_rel": 1e-6, "excess": 0.02, "worst": [0, 4]}
    return {"name": name, **plain, "expected": 0.25, "actual": 0.25, "problem": None, **more}


def test_classes_that_disagree(opened: Opened) -> None:
    tab = shown(opened, agreement=SWAPPED)
    assert cells(tab, "Answers") == ["⚠ scores", "8", "75.00%", "97.50%"]


def test_boxes_that_disagree(opened: Opened) -> None:
    tab = shown(opened, agreement={"classes": [], "boxes": BOXES})
    assert cells(tab, "Boxes") == ["⚠ 3", "3", "2", "0.912", "0.875", "0.0625", "1", "1"]
    assert tab.texts("#check .note") == [
        "Box missed: dog 0.91 at 1,2,3,4", "Box extra: cat 0.55 at 5,6,7,8"
    ]  # fmt: skip


def test_the_first_nan(opened: Opened) -> None:
    tab = shown(opened, first_not_finite=NAN)
    (note,) = tab.texts("#check .note")
    assert note == "First NaN: Conv layer 2 (1 element, first at [0, 2, 1, 3]), by itself."


def test_answers_that_agree_are_silent(opened: Opened) -> None:
    right = {"classes": [{"output": "scores", "examples": 8, "top1": 1.0, "top5": 1.0}]}
    tab = shown(opened, agreement=right, first_not_finite=None, outputs=[output("scores")])
    assert cells(tab, "Answers") == ["scores", "8", "100.00%", "100.00%"]
    boxes = {**BOXES, "matched": 3, "missed": [], "extra": []}
    for page in (tab, shown(opened, agreement={"classes": [], "boxes": boxes})):
        assert page.texts("#check .note, #check .warning") == []
        assert "⚠" not in page.text("#check")


def test_an_output_that_alone_is_wrong_is_named(opened: Opened) -> None:
    """All operators are right by themselves, and the plain run is not."""
    wrong = output("prob", ok=False, max_abs=0.5, excess=5000.0, actual=0.75)
    other = output("boxes", ok=False, problem="came out as float32[3], not float32[4]")
    tab = shown(opened, ok=False, outputs=[output("score"), wrong, other])
    verdict = tab.text("#verdict")
    assert "output prob: 0.75 instead of 0.25 at [0, 4], 5000 times what is allowed" in verdict
    assert "output boxes: came out as float32[3], not float32[4]" in verdict
    assert "score" not in verdict
    rows = cells(tab, "Outputs of a plain run")
    assert rows[:8] == ["score", "1e-07", "1e-06", "0.02", "[0, 4]", "0.25", "0.25", "ok"]
    assert rows[8:16] == ["⚠ prob", "0.5", "1e-06", "5e+03", "[0, 4]", "0.25", "0.75", "FAIL"]
    tab.value("document.querySelectorAll('#check-table-0 tbody tr')[1].click()")
    assert "output prob" in tab.text("#check-told")
    assert "over tolerance" in tab.text("#check-told")


def test_an_output_of_a_report(opened: Opened, tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    report = vknn.verify(path, {"data": np.ones(SHAPE, np.float32)}, device="numpy")
    tab = opened(report.to_html())
    assert "⚠" not in tab.text("#check")
    assert len(cells(tab, "Outputs of a plain run")) == 8
    wrong = ArrayComparison(False, 0.5, 0.5, 1e3, (2,), 0.25, 0.75)
    tab = opened(replace(report, outputs=(("out", wrong),)).to_html())
    assert "output out: 0.75 instead of 0.25 at [2]" in tab.text("#verdict")
    assert tab.value("document.querySelector('#verdict').className") == "warning"


@pytest.mark.device
def test_faults_of_a_device(opened: Opened, tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "nan")
    tab = opened(vknn.verify(model, device="vulkan", metrics=True).to_html())
    (note,) = tab.texts("#check .note")
    assert note.startswith("First NaN: FaultyHalf half (1 element, first at [0, 2, 6]), by itself")
    model = write_faulty_model(tmp_path, "swap", (1, 1, 16))
    data = {"data": np.arange(16.0, dtype=np.float32).reshape(1, 1, 16)}
    tab = opened(vknn.verify(model, data, device="vulkan", metrics=True).to_html())
    assert cells(tab, "Answers")[2] == "0.00%"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"outputs": [{"name": "x"}]}, "ok"),
        ({"agreement": {"boxes": {"expected": 1}}}, "actual"),
        ({"agreement": {"classes": [{"output": "x", "examples": 1, "top1": "much"}]}}, "much|for"),
        ({"first_not_finite": {"side": "device"}}, "alone"),
    ],
)
def test_a_file_with_holes_says_so(more: dict[str, Any], words: str) -> None:
    made = chained(document(4))
    with pytest.raises(VknnError, match=f"no cross-check: .*({words})"):
        report_data(made, {**verification(made), **more})
