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
