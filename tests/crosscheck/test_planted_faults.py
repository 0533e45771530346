"""Metrics, many inputs and search on a layer that is wrong on purpose, and on one that is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_layer import NAN_AT, SHAPE, write_faulty_model

import vknn
from vknn.crosscheck import DataReport, InputRecord, MetricError, VerifyRow, search, verify_over
from vknn.crosscheck.npz_files import load_npz
from vknn.errors import InputError

pytestmark = pytest.mark.device


def wrong_row(report: vknn.crosscheck.VerifyReport) -> VerifyRow:
    row = report.first_failure
    assert row is not None and row.isolated is not None and row.isolated.metrics is not None
    assert row.op == "FaultyHalf"
    return row


def test_a_wrong_channel_is_named(tmp_path: Path) -> None:
    row = wrong_row(vknn.verify(write_faulty_model(tmp_path, "channel"), metrics=True))
    metrics = row.isolated.metrics  # type: ignore[union-attr]
    assert metrics.where == "channel 3"
    assert [i for i, v in enumerate(metrics.channels.values) if v > 1] == [3]
    assert metrics.over == SHAPE[1] * SHAPE[2]
    assert metrics.snr_db == pytest.approx(10 * np.log10(6e4), abs=1)


def test_a_wrong_seam_is_named(tmp_path: Path) -> None:
    report = vknn.verify(write_faulty_model(tmp_path, "seam"), metrics=True)
    metrics = wrong_row(report).isolated.metrics  # type: ignore[union-attr]
    assert metrics.where == "column 7, 15, 23, 31 (every 8)"
    assert {c for row in metrics.places.values for c, v in enumerate(row) if v > 1} == {
        7, 15, 23, 31,
    }  # fmt: skip
    assert "column 7, 15, 23, 31 (every 8)" in str(report)


def test_the_first_nan_is_named(tmp_path: Path) -> None:
    report = vknn.verify(write_faulty_model(tmp_path, "nan"), metrics=True)
    source = report.first_not_finite
    assert source is not None
    assert (source.op, source.side, source.kind, source.count) == ("FaultyHalf", "device", "NaN", 1)
    assert source.alone and source.first == NAN_AT
    assert "first NaN: FaultyHalf 'half' (1 element, first at [0, 2, 6]), by itself" in str(report)
    assert json.loads(report.to_json())["first_not_finite"]["op"] == "FaultyHalf"


def test_nan_of_the_models_own(tmp_path: Path) -> None:
    x = np.full(SHAPE, np.nan, np.float32)
    report = vknn.verify(write_faulty_model(tmp_path, "none"), {"data": x}, metrics=True)
    source = report.first_not_finite
    assert source is not None and (source.side, source.first) == ("both", None)
    assert "the model itself makes it" in str(source)


def test_a_right_layer_is_silent(tmp_path: Path) -> None:
    report = vknn.verify(write_faulty_model(tmp_path, "none"), metrics=True)
    assert report.ok and report.first_not_finite is None
    for row in report.rows:
        assert row.shown is not None and row.shown.metrics is not None
        assert (row.shown.metrics.over, row.shown.metrics.where) == (0, "")


def test_without_metrics_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("metrics cost time only where they are asked for")

    monkeypatch.setattr("vknn.crosscheck.check.measure", refused)
    report = vknn.verify(write_faulty_model(tmp_path, "channel"))
    document = json.loads(report.to_json())
    assert "metrics" not in document["rows"][0]["isolated"]
    assert "agreement" not in document
    assert not report.has_metrics


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "channel")

    def bias(actual: np.ndarray, expected: np.ndarray) -> float:
        return float((actual - expected).sum())

    report = vknn.verify(model, metric=bias)
    assert wrong_row(report).isolated.metrics.own["bias"] != 0  # type: ignore[union-attr]
    assert "bias" in str(report.metrics_table().columns[10].header)
    with pytest.raises(MetricError, match="metric 'wrong' failed"):
        vknn.verify(model, metric={"wrong": lambda a, b: 1 / 0})


def test_swapped_scores_disagree(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "swap", (1, 1, 16))
    report = vknn.verify(model, {"data": np.arange(16.0, dtype=np.float32).reshape(1, 1, 16)},
                         metrics=True)  # fmt: skip
    assert report.agreement is not None
    (classes,) = report.agreement.classes
    assert classes.top1 == 0
    assert "top-1 agreement 0.00%" in "".join(report.notes())


def inputs(count: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(5)
    return [{"data": random.standard_normal(SHAPE).astype(np.float32)} for _ in range(count)]


def test_the_worst_input_is_kept(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "large")
    records = inputs(4)
    records[2]["data"][1, 2, 3] = 150.0
    report = verify_over(model, records, metrics=True)
    assert not report.ok and report.records == 4
    row = report.first_failure
    assert row is not None and row.isolated is not None
    assert (row.op, row.failed, row.records, row.isolated.record) == ("FaultyHalf", 1, 4, "2")
    assert "the worst is 2" in report.summary()
    np.testing.assert_array_equal(report.inputs["2"]["data"], records[2]["data"])
    files = report.keep_worst(tmp_path / "worst")
    again = vknn.verify(model, load_npz(files["2"]))
    assert again.first_failure is not None and again.first_failure.op == "FaultyHalf"
    index = json.loads((tmp_path / "worst" / "worst.json").read_text())
    assert {"FaultyHalf"} <= {
        w.get("op") for e in index if e["record"] == "2" for w in e["worst_of"]
    }
    assert "where" in str(report.metrics_table().columns[-1].header)


def test_right_inputs_are_silent_and_broken_ones_are_named(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "none")
    records: list[Any] = [
        *inputs(2),
        InputRecord("torn.jpg", error=InputError("torn.jpg cannot be read")),
        InputRecord("odd", {"data": np.zeros((2, 2), np.float32)}),
        InputRecord("unknown", {"x": np.zeros(3, np.float32)}),
    ]
    report = verify_over(model, records)
    assert report.ok and report.records == 2
    assert [name for name, _ in report.broken] == ["torn.jpg", "odd", "unknown"]
    assert report.notes()[0] == "torn.jpg cannot be read"
    assert report.notes()[-1] == "3 inputs could not be compared"
    assert report.inputs == {}  # nothing differs by anything
    document = json.loads(report.to_json())
    assert document["broken"][1]["record"] == "odd"


def test_the_limit_and_no_inputs_at_all(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "none")

    def endless() -> Any:
        while True:
            yield inputs(1)[0]

    assert verify_over(model, endless(), limit=3).records == 3
    report = verify_over(model, [])
    assert (report.checked, report.summary()) == (0, "no input could be compared")


def test_inputs_of_other_shapes(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "channel")
    wide = {"data": np.ones((6, 16, 40), np.float32)}
    report = verify_over(model, [inputs(1)[0], wide, inputs(1)[0]])
    row = report.first_failure
    assert row is not None and (row.records, row.failed) == (3, 3)


def searched(model: Path, **options: Any) -> DataReport:
    return search(model, steps=60, **options)


def test_the_search_finds_what_random_inputs_do_not(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "large")
    assert vknn.verify(model).ok
    report = searched(model)
    row = report.first_failure
    assert row is not None and row.op == "FaultyHalf" and row.isolated is not None
    worst = report.inputs[row.isolated.record]["data"]
    assert np.abs(worst).max() > 100
    assert report.trace is not None
    assert (report.trace.seed, report.trace.steps) == (0, 60)
    assert "seed 0, 60 steps" in report.notes()[-1]
    assert not vknn.verify(model, report.inputs[row.isolated.record]).ok


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_search_finds_it_with_other_seeds(tmp_path: Path, seed: int) -> None:
    assert not searched(write_faulty_model(tmp_path, "large"), seed=seed).ok


def test_a_right_layer_survives_the_search(tmp_path: Path) -> None:
    report = searched(write_faulty_model(tmp_path, "none"))
    assert report.ok and report.records + report.trace.out_of_range == 60  # type: ignore[union-attr]


def test_a_search_can_be_repeated(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "large")
    first, second, other = (searched(model, seed=seed) for seed in (4, 4, 5))
    assert first.trace is not None and second.trace is not None and other.trace is not None
    assert first.trace.climbed == second.trace.climbed != other.trace.climbed
    assert list(first.inputs) == list(second.inputs)
    for name, feeds in first.inputs.items():
        np.testing.assert_array_equal(feeds["data"], second.inputs[name]["data"])


def test_a_search_begins_with_the_inputs_given(tmp_path: Path) -> None:
    start = {"data": np.full(SHAPE, 99.0, np.float32)}
    report = search(write_faulty_model(tmp_path, "none"), [start], steps=1)
    assert report.records == 1
    torn = InputRecord("torn", error=InputError("torn"))
    report = search(write_faulty_model(tmp_path, "none"), [torn], steps=2)
    assert (report.records, report.broken) == (2, (("torn", "torn"),))


def test_a_search_keeps_its_time(tmp_path: Path) -> None:
    report = search(write_faulty_model(tmp_path, "none"), seconds=0.5)
    assert report.trace is not None and 0.5 <= report.trace.seconds < 20


def test_a_search_without_an_end(tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "none")
    with pytest.raises(InputError, match="needs a time or a number of steps"):
        search(model)
    for budget in ({"seconds": 0}, {"seconds": float("nan")}, {"steps": 0}):
        with pytest.raises(InputError, match="must be above 0"):
            search(model, **budget)  # type: ignore[arg-type]
