"""Polygraphy's files: read, compared, damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.crosscheck import polygraphy_files as files
from tests.crosscheck.test_npz_files import npy as npy_bytes
from tests.small_model import write_small_model

from vknn.cli import main
from vknn.crosscheck import against, dump, load_record
from vknn.errors import InputError
from vknn.pictures import UnreadableFileError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("small"))


def test_results_and_inputs(tmp_path: Path) -> None:
    runners = {"trt-runner-N0": [{"y": X}, {"y": X + 1}], "onnxrt-runner-N0": [{"y": X + 2}]}
    path = files.write(tmp_path / "out.json", files.results(runners))
    assert load_record(path, "trt", 1)["y"].tolist() == (X + 1).tolist()
    assert load_record(path, "onnxrt-runner-N0")["y"].tolist() == (X + 2).tolist()
    given = files.write(tmp_path / "in.json", files.inputs([{"x": X}, {"x": X * 2}]))
    assert load_record(given, iteration=1)["x"].tolist() == (X * 2).tolist()
    single = files.write(tmp_path / "0.json", files.inputs([{"x": X.astype(np.int64)}])[0])
    assert load_record(single)["x"].dtype == np.int64
    for options, text in (
        ((path,), "several runners, name one .*'trt-runner-N0', 'onnxrt-runner-N0'"),
        ((path, "runner"), "'runner' is part of several names"),
        ((path, "tf"), "no results of a runner 'tf'; it has 'trt-runner-N0'"),
        ((path, "trt", 2), "2 iterations, from 0 on, and none of 2"),
        ((path, "trt", -1), "none of -1"),
        ((given, "trt"), "holds inputs"),
    ):
        with pytest.raises(InputError, match=text):
            load_record(*options)


def test_a_record_of_older_versions(tmp_path: Path) -> None:
    """Their classes stand elsewhere, which nobody needs."""
    old = {"values": {**files.array(files.npy(X)), "__polygraphy_encoded_ndarray": "type"}}
    run = {"outputs": {"y": old}, "runtime": None, "runner_name": "a"}
    path = files.write(tmp_path / "out.json", {"lst": [["a", [run]]]})
    assert load_record(path)["y"].tolist() == X.tolist()


def changed(key: str, value: Any) -> dict[str, Any]:
    document = files.results({"a": [{"y": X}]})
    document["lst"][0][1][0]["outputs"]["y"] = {"values": {key: value}}
    return document


BOMB = "(1000000000000,)"
#: What is in the file, and why it cannot be read.
DAMAGED: list[tuple[Any, str]] = [
    (changed("array", "k05V"), "magic string"),
    (changed("array", "?"), "no base64"),
    (changed("array", "é" * 9), "no base64"),
    (changed("array", 5), "'y' is no array"),
    (changed("array", None), "'y' is no array"),
    (changed("tensor", "gAI="), "pickled"),
    (changed("array", files.array(npy_bytes(BOMB))["array"]), "is cut off"),
    (changed("array", files.array(npy_bytes("(1,)", "|O", b"x" * 99))["array"]), "never unpickled"),
    (changed("array", files.array(npy_bytes("(-1,)", "<f4", b"abcd"))["array"]), "can be read"),
    (changed("array", files.array(b"PK\x03\x04" + b"x" * 99)["array"]), "can be read"),
    ({"lst": 5}, "has no arrays|is no array"),
    ({"lst": [5]}, "no pairs of a runner"),
    ({"lst": [["a", 5]]}, "no pairs of a runner"),
    ({"lst": [["a", [5]]]}, "neither results"),
    ({"lst": [["a", [{"outputs": 5, "runner_name": "a"}]]]}, "has no arrays"),
    ([], "none of 0"),
    ([5], "neither results"),
    (5, "neither results"),
    ({}, "has no arrays"),
    ({"x": {"y": 5}}, "'x' is no array"),
]


@pytest.mark.parametrize(("document", "why"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files(tmp_path: Path, document: Any, why: str) -> None:
    path = files.write(tmp_path / "bad.json", document)
    with pytest.raises(InputError, match=why) as raised:
        load_record(path)
    assert "bad.json" in str(raised.value) and len(str(raised.value)) < 600


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_file_that_is_cut_off(tmp_path: Path, share: float) -> None:
    text = files.write(tmp_path / "whole.json", files.results({"a": [{"y": X}]})).read_text()
    (tmp_path / "cut.json").write_text(text[: int(share * len(text))])
    with pytest.raises(UnreadableFileError, match="cut.json is no file of Polygraphy's"):
        load_record(tmp_path / "cut.json")


def test_other_bad_files(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00\x80")
    for name in ("deep.json", "bytes.json", "missing.json"):
        with pytest.raises(UnreadableFileError, match=name):
            load_record(tmp_path / name)
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole: nothing of it is on the disk
    with pytest.raises(UnreadableFileError, match="bytes; at most"):
        load_record(tmp_path / "huge.json")


def test_a_record_that_is_wrong_in_one_channel(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = dump(model, device="numpy")
    given = {"data": right.pop("data")}
    wrong = {**right, "dw": right["dw"].copy()}
    wrong["dw"][2] *= np.float32(1.05)
    inputs = files.write(tmp_path / "in.json", files.inputs([{"data": given["data"] * 0}, given]))
    runs = {"right-N0": [wrong, right], "wrong-N0": [right, wrong]}
    record = files.write(tmp_path / "out.json", files.results(runs))
    argv = [
        *("compare", str(model), "--device", "numpy", "--inputs", str(inputs)),
        *("--against", str(record), "--iteration", "1", "--json", "--runner"),
    ]
    assert main([*argv, "right"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert main([*argv, "wrong"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["recorded"], r["alone"]) for r in rows if r["alone"]] == [("dw", "record")]
    again = load_record(inputs, iteration=1)
    report = against(model, record, again, runner="wrong", iteration=1, device="numpy")
    assert "dw" in report.summary() and "the record is alone" in report.summary()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--against", "a.npz", "--runner", "x"), "only Polygraphy's JSON has runners"),
        (("--against", "a.npz", "--iteration", "1"), "--iteration needs a file of Polygraphy's"),
        (("--against", "ncnn", "--runner", "x"), "ncnn has no runners"),
    ],
)
def test_options_of_polygraphy(
    model: Path, options: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(model), "--device", "numpy", *options]) == 2
    assert text in capsys.readouterr().err
