"""Profiles that ``vknn-run --profile`` writes, which ``vknn report`` shows."""

from __future__ import annotations

import json
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
    assert main(["report", str(path), "--html", str(tmp_path / "x.html")]) == 2
    assert "take --trace" in capsys.readouterr().err
