"""Two records of tensors: the first that differs, silence where none does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.crosscheck import polygraphy_files
from tests.small_model import write_small_model

from vknn.cli import main
from vknn.crosscheck import compare_records, dump
from vknn.crosscheck.tensors import write_tensors
from vknn.errors import InputError

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    return dump(write_small_model(tmp_path_factory.mktemp("small")), device="numpy")


def test_a_fault_in_one_channel_and_what_follows(record: Arrays) -> None:
    wrong = {name: array.copy() for name, array in record.items()}
    wrong["dw"][2] += np.float32(0.1)
    wrong["sum"][2] += np.float32(0.1)
    found = compare_records(record, wrong)
    assert not found.ok
    assert [row.before for row in found.rows if not row.comparison.ok] == ["dw", "sum"]
    first = next(row for row in found.rows if row.before == "dw")
    assert first.comparison.worst is not None and first.comparison.worst[0] == 2
    assert found.summary().startswith(f"2 of {len(record)} tensors differ, first 'dw'")
    assert "dw" in str(found.table(failures=True).columns[0]._cells)
    assert "conv1" not in str(found.table(failures=True).columns[0]._cells)
    told = json.loads(found.to_json())["rows"]
    assert {row["before"]: row["comparison"]["ok"] for row in told}["dw"] is False


def test_clean_records_are_silent(record: Arrays) -> None:
    near = {name: array * np.float32(1 + 1e-6) for name, array in record.items()}
    halves = {name: array.astype(np.float16) for name, array in record.items()}
    for other in (record, near, halves):
        found = compare_records(record, other)
        assert found.ok and found.summary() == f"all {len(record)} tensors agree"
        assert found.notes() == []
    assert not compare_records(record, near, tolerance=1e-9).ok


def test_other_names_layouts_and_types() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 4, 5)).astype(np.float32)
    before = {"x": x, "y": np.arange(4), "gone": np.zeros((7, 7))}
    after = {"other": x.transpose(0, 2, 3, 1), "y": np.arange(4) + 0.4, "new": np.zeros(9)}
    found = compare_records(before, after)
    assert [(r.before, r.after, r.how, r.layout) for r in found.rows] == [
        ("x", "other", "shape", "channels last"), ("y", "y", "name", ""),
    ]  # fmt: skip
    assert found.rows[0].comparison.ok and found.rows[0].cosine == pytest.approx(1)
    assert found.rows[1].comparison.max_abs == pytest.approx(0.4)  # no integer hides it
    assert found.only_before == ("gone",) and found.only_after == ("new",)
    assert "only before: gone" in str(found) and "only after: new" in str(found)
    assert not compare_records({"x": x}, {"text": np.array(["a"])}).ok
    assert "no tensor" in compare_records({}, {}).summary()


def test_names_of_both_whose_arrays_do_not_fit() -> None:
    x, text = np.ones((2, 3), np.float32), np.array(["a", "b"])
    before = {"x": x, "text": text, "small": np.array([44], np.int8)}
    wrong: list[Arrays] = [
        {"x": x[:, :2]}, {"x": x.astype("S4")}, {"text": np.array(["a", "bc"])},
        {"text": text[:1]}, {"small": np.array([300], np.int16)},
    ]  # fmt: skip
    for change in wrong:
        found = compare_records(before, {**before, **change})
        assert [r.before for r in found.rows if not r.comparison.ok] == list(change), change
        assert not found.notes() and not found.ok
        json.loads(found.to_json())
    found = compare_records(before, {**before, "text": np.array(["a", "b"], "U5")})
    assert found.ok and len(found.rows) == 3


def test_the_command(record: Arrays, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tensors(tmp_path / "a.npz", record)
    write_tensors(tmp_path / "b.npz", {**record, "fc": record["fc"] + np.float32(1)})
    runs: dict[str, Any] = {"trt": [record, {**record, "fc": record["fc"] * 2}], "ort": [record]}
    polygraphy_files.write(tmp_path / "c.json", polygraphy_files.results(runs))
    a, b, c = (str(tmp_path / name) for name in ("a.npz", "b.npz", "c.json"))
    assert main(["compare", a, a]) == 0
    assert f"all {len(record)} tensors agree" in capsys.readouterr().out
    assert main(["compare", a, b, "--failures"]) == 1
    told = capsys.readouterr().out
    assert "first 'fc'" in told and "conv1" not in told
    assert main(["compare", a, c, "--runner", "ort", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert main(["compare", a, c, "--runner", "trt", "--iteration", "1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["before"] == a


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("a.npz", "b.vkprof"), "one of the two is a record"),
        (("a.npz", "b.npz", "--device", "numpy"), "--device needs --against"),
        (("a.npz", "b.npz", "--fail-over", "5%"), "--fail-over is for profiles"),
        (("a.npz", "b.npz", "--iteration", "1"), "--iteration needs a file of Polygraphy's"),
        (("a.npz", "b.npz", "--runner", "x"), "only Polygraphy's JSON has runners"),
        (("a.npz", "b.npz"), "a.npz: no such file"),
        (("a.vkprof", "b.vkprof", "--tolerance", "1"), "--tolerance needs --against"),
        (("net.param", "--against", "a.npz", "--paired"), "--paired is for profiles"),
    ],
)
def test_options_that_do_not_fit(
    options: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *options]) == 2
    assert text in capsys.readouterr().err


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"a\.npz"):
        compare_records(tmp_path / "a.npz", {})
