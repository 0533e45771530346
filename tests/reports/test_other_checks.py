"""Pages of many inputs, searches, advice and comparisons with other engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import precision_models
from tests.faulty_layer import SHAPE, write_faulty_model
from tests.reports.checks import chained
from tests.reports.chromium import Page
from tests.reports.documents import document
from tests.small_model import SHAPE as SMALL
from tests.small_model import write_small_model

from vknn.cli.main import main
from vknn.crosscheck import advise, against, compare_records, dump, search, verify_over
from vknn.crosscheck.tensors import write_tensors
from vknn.errors import VknnError
from vknn.reports.data import report_data

Opened = Callable[[str], Page]
Arrays = dict[str, np.ndarray]


def red(tab: Page) -> list[str]:
    """Names of the layers that are drawn as over their tolerance."""
    tab.scroll_to("check", "#check .piece")
    found = tab.value("""[...document.querySelectorAll('#check .piece')]
        .filter(piece => piece.querySelector('rect.e3'))
        .map(piece => piece.getAttribute('aria-label').split(',')[0])""")
    assert isinstance(found, list)
    return found


def silent(tab: Page) -> bool:
    marked = tab.value("document.querySelectorAll('#check .warning').length")
    return red(tab) == [] and marked == 0 and "⚠" not in tab.text("#check")


def inputs(large: bool) -> list[Arrays]:
    random = np.random.default_rng(5)
    made = [{"data": random.standard_normal(SHAPE).astype(np.float32)} for _ in range(4)]
    if large:
        made[2]["data"][1, 2, 3] = 150.0
    return made


def wrong(record: Arrays) -> Arrays:
    """The record with a fault in a channel of "dw"."""
    found = {name: array.copy() for name, array in record.items()}
    found["dw"][2] += np.float32(0.1)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def record(model: Path) -> Arrays:
    return dump(model, device="numpy")


@pytest.mark.device
@pytest.mark.parametrize("large", [True, False])
def test_many_inputs(opened: Opened, tmp_path: Path, large: bool) -> None:
    """The input whose number the faulty layer gets wrong is named, and the layer is red."""
    path = write_faulty_model(tmp_path, "large")
    tab = opened(verify_over(path, inputs(large), device="vulkan").to_html())
    if not large:
        assert silent(tab)
        assert "agree for 4 inputs" in tab.text("#verdict")
        return
    assert "half" in red(tab)
    assert "for 1 of 4 inputs; the worst is 2" in tab.text("#verdict")
    row = tab.texts("#check-table-0 tr:has(.warning):not(tr:has(.warning) ~ tr) td")
    assert row[:4] == ["⚠ half", "FaultyHalf", "vulkan", "1/4"]
    assert row[6] == "2"
    tab.value("document.querySelector('#check-table-0 tr:has(.warning)').click()")
    assert "worst input2" in tab.text("#check-told")


@pytest.mark.device
@pytest.mark.parametrize("fault", ["large", "none"])
def test_a_search(opened: Opened, tmp_path: Path, fault: str) -> None:
    """The page has the seed and the step that found the fault."""
    report = search(write_faulty_model(tmp_path, fault), steps=60, seed=3, device="vulkan")
    tab = opened(report.to_html())
    assert report.trace is not None
    assert any("search: seed 3, 60 steps" in note for note in tab.texts("#check .note"))
    climbed = tab.texts("#check-table-2 tbody tr td:first-child")
    assert climbed == [str(step) for step, _ in report.trace.climbed]
    if fault == "none":
        assert silent(tab)
        return
    assert "half" in red(tab)
    assert "the worst is step" in tab.text("#verdict")


@pytest.mark.parametrize("wide", [True, False])
def test_advice(opened: Opened, tmp_path: Path, wide: bool) -> None:
    """The layer that has to stay in fp32 is red, and the tensor beyond fp16 is in the table."""
    make = precision_models.large_weights if wide else precision_models.clean
    report = advise(make(tmp_path), device="numpy")
    tab = opened(report.to_html())
    if not wide:
        assert silent(tab)
        assert "none has to stay in fp32" in tab.text("#verdict")
        return
    assert red(tab) == ["middle"] == list(report.kept or ())
    assert "1 of 3 layers have to stay in fp32" in tab.text("#verdict")
    assert tab.texts("#check-table-0 tbody tr:first-child td")[-1] == "fp32"
    assert "(weight)" in tab.text("#check-table-1 tbody")
    tab.value("document.querySelector('#check-table-0 tbody tr').click()")
    assert tab.text("#check-told").startswith("⚠ middle: MatMul, in fp32")
    assert "the output's errorinf" in tab.text("#check-told")


@pytest.mark.parametrize("fault", [True, False])
def test_against_a_record(opened: Opened, model: Path, record: Arrays, fault: bool) -> None:
    report = against(model, wrong(record) if fault else record, device="numpy")
    tab = opened(report.to_html())
    if not fault:
        assert silent(tab)
        assert tab.text("#verdict") == report.summary()
        return
    assert red(tab) == ["dw"]
    assert "'dw' (dw): the record is alone" in tab.text("#verdict")
    heads = tab.texts("#check-table-0 th")
    assert heads[5:9] == ["record/NumPy", "device/NumPy", "device/record", "alone"]
    assert tab.texts("#check-table-0 tr:has(.warning) td:last-child") == ["record"]
    tab.value("document.querySelector('#check-table-0 tr:has(.warning)').click()")
    assert "record and NumPy: over tolerance" in tab.text("#check-told")


@pytest.mark.parametrize("fault", [True, False])
def test_two_records(opened: Opened, record: Arrays, fault: bool) -> None:
    """Without a model there is no graph."""
    tab = opened(compare_records(record, wrong(record) if fault else record).to_html())
    assert tab.value("document.querySelector('#check .graph')") is None
    assert tab.texts("#check-table-0 tr:has(.warning) td:first-child") == ["⚠ dw"] * fault
    assert ("⚠" in tab.text("#check")) == fault


def test_names_are_text(opened: Opened, record: Arrays) -> None:
    name = "</script><img src=x onerror='window.hacked = 1'>[/red]:x:"
    hostile = {name: record["dw"], **record}
    tab = opened(compare_records(hostile, {**wrong(record), name: record["dw"] + 1}).to_html())
    assert tab.value("typeof window.hacked") == "undefined"
    assert f"⚠ {name}" in tab.texts("#check-table-0 td:first-child")


def test_json_of_many_inputs_is_for_no_profile(model: Path, tmp_path: Path) -> None:
    records = [{"data": np.full(SMALL, n, np.float32)} for n in range(2)]
    report = verify_over(model, records, device="numpy")
    with pytest.raises(VknnError, match="not those of one input: vknn verify --html writes"):
        report_data(chained(document(4)), json.loads(report.to_json()))
    report.save_html(tmp_path / "page.html")
    assert "Operators over 2 inputs" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_commands(model: Path, record: Arrays, tmp_path: Path) -> None:
    """Each writes its page beside what it prints."""
    np.save(tmp_path / "many.npy", np.ones((2, *SMALL), np.float32))
    write_tensors(tmp_path / "a.npz", record)
    write_tensors(tmp_path / "b.npz", wrong(record))
    many, a, b, html = (str(tmp_path / n) for n in ("many.npy", "a.npz", "b.npz", "page.html"))
    verify = ["verify", str(model), "--device", "numpy"]
    for code, argv, words in (
        (None, [*verify, "--input", many], "Operators over 2 inputs"),
        (None, [*verify, "--search-steps", "2"], "What the search climbed"),
        (0, [*verify, "--advise", "--precision", "fp16"], "What layers add to the error in fp16"),
        (1, ["compare", str(model), "--against", b, "--device", "numpy"], "the record is alone"),
        (1, ["compare", a, b], "1 of 9 tensors differ"),
    ):
        found = main([*argv, "--html", html])
        assert code is None or found == code
        assert words in Path(html).read_text(encoding="utf-8")
        Path(html).unlink()
