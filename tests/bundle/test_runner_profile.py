"""Profiles that ``vknn-run --profile`` writes, which ``vknn report`` shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vknn.cli.main import main

STEP = {
    "label": "conv1", "op": "Conv direct", "kernel": "convolution/conv", "groups": [4, 1, 1],
    "flops": 2000000, "bytes": 4000, "begin": 10.0, "microseconds": 20.0,
}  # fmt: skip
TIMES = {
    "device": "Phone", "driver": "v1", "target": "generic", "shapes": "data=1", "precision": "fp32",
    "runs": 7, "microseconds": 40.0,
    "steps": [STEP, {**STEP, "label": "copied", "kernel": "copy", "groups": [0] * 3, "begin": 30}],
}  # fmt: skip


def test_a_phones_profile_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(TIMES))
    assert main(["report", str(path), "--trace", str(tmp_path / "trace.json")]) == 0
    text = capsys.readouterr().out
    assert "on Phone (v1), mean of 7" in " ".join(text.split()) and "100.0" in text, text
    assert main(["report", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [c["layers"] for c in document["commands"]] == [["conv1"], ["copied"]]
    assert document["commands"][0]["gflops"] == pytest.approx(100)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    [event] = [e for e in events if e.get("name") == "conv1"]
    assert (event["ts"], event["dur"]) == (pytest.approx(10), pytest.approx(20))


@pytest.mark.parametrize(
    "change, text",
    [
        ({"runs": "7"}, "runs: a number"),
        ({"device": None}, "device: a string"),
        ({"steps": [{**STEP, "groups": [1, 1]}]}, r"steps\[0\].groups: a list of 3"),
        ({"steps": [{**STEP, "microseconds": -1}]}, "microseconds"),
        ({"steps": [{}]}, "is missing"),
    ],
)
def test_damaged_profiles_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], text: str
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**TIMES, **change}))
    assert main(["report", str(path)]) == 2
    told = capsys.readouterr().err
    assert "run.json: no profile of vknn-run" in told and text.replace("\\", "") in told
    path.write_text("{")
    assert main(["report", str(path)]) == 2
    assert "no JSON" in capsys.readouterr().err
    path.write_text(json.dumps(TIMES))
    page = tmp_path / "x.html"
    assert main(["report", str(path), "--html", str(page), "--verify", str(path)]) == 2
    assert "take a profile of vknn profile --save" in capsys.readouterr().err
    assert not page.exists()


def test_two_of_them_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "run.json", tmp_path / "a.vkprof"
    path.write_text(json.dumps(TIMES, indent=1))
    for sides in ([path, path], [path, other], [other, path]):
        assert main(["compare", *map(str, sides)]) == 2
        assert "run.json: vknn-run keeps the means of its runs alone" in capsys.readouterr().err
    path.write_text(json.dumps({"lst": []}))  # of Polygraphy's kind
    assert main(["compare", str(path), str(path)]) == 2
    assert "vknn-run" not in capsys.readouterr().err


def test_its_page_is_written(tmp_path: Path) -> None:
    path, page = tmp_path / "run.json", tmp_path / "x.html"
    path.write_text(json.dumps(TIMES))
    assert main(["report", str(path), "--html", str(page)]) == 0
    block = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    data = json.loads(block[1])
    assert (data["title"], data["means"]) == ("run.json", 7)
    assert data["total"] == {"extent": 40.0, "busy": 40.0, "gaps": 0.0}
    assert data["commands"]["median"] == [20.0, 20.0]
    assert ["options", "target generic, shapes data=1, precision fp32, runs 7"] in data["about"]


OUTPUT = {
    "output": "prob", "compared": True, "wrong": 3, "elements": 1000, "max_abs": 0.5,
    "absolute": 1e-6, "relative": 1e-4,
}  # fmt: skip
ANSWER = {
    **{name: TIMES[name] for name in ("device", "driver", "target", "shapes", "precision")},
    "outputs": [
        OUTPUT,
        {"output": "extra", "compared": False},
        {"output": "boxes", "compared": True, "wrong": 6, "elements": 12, "expected": 6},
        {**OUTPUT, "output": "big", "max_abs": "inf"},
    ],
    "ok": False, "error": "VKNN_ERROR_DIFFERS: Phone computes something else",
}  # fmt: skip


def test_an_answer_of_a_test_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(ANSWER))
    assert main(["report", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "answer.json: the example on Phone (v1): generic, data=1, fp32",
        "prob │ 3 │ 1,000 │ 0.5 │ 1e-06 + 0.0001 of the value",
        "extra │ not compared", "boxes │ 6 │ 12 │ 6 elements expected", "inf",
        "Phone computes something else", "--profile run.json, then vknn report run.json",
    ):  # fmt: skip
        assert part in text, part
    assert main(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER
    page = tmp_path / "x.html"
    assert main(["report", str(path), "--html", str(page), "--trace", "t.json"]) == 2
    told = capsys.readouterr().err
    assert "no times for --html, --trace: take one of vknn-run --profile" in " ".join(told.split())
    assert not page.exists()
    path.write_text(json.dumps({**ANSWER, "ok": True, "error": None, "outputs": [OUTPUT]}))
    assert main(["report", str(path)]) == 0
    assert "all outputs are within their tolerances" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, text",
    [
        ({"ok": 1}, "ok: "),
        ({"outputs": [{"output": "x"}]}, "compared is missing"),
        ({"outputs": [{"output": "x", "compared": True}]}, "x.wrong is missing"),
        ({"device": None}, "device: a string"),
    ],
)
def test_damaged_answers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], text: str
) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({**ANSWER, **change}))
    assert main(["report", str(path)]) == 2
    told = capsys.readouterr().err
    assert "answer.json: no answer of vknn-run --test: " in told and text in told
