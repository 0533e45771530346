"""The commands on models with signatures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets

from vknn.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(nets.two_signatures())
    return path


@pytest.fixture
def stateful(tmp_path: Path) -> Path:
    path = tmp_path / "shared.tflite"
    path.write_bytes(nets.sharing())
    return path


def run_json(capsys: pytest.CaptureFixture[str], *argv: object) -> Any:
    assert main([str(a) for a in (*argv, "--json")]) == 0
    return json.loads(capsys.readouterr().out)


def test_info_lists_them(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    found = run_json(capsys, "info", model)
    assert [s["name"] for s in found["inputs"]] == ["x:0", "w:0"]
    assert list(found["signatures"]) == ["multiply", "other"]
    assert [s["name"] for s in found["signatures"]["multiply"]["inputs"]] == ["w", "x"]
    assert found["signatures"]["other"]["inputs"][0]["shape"] == [None]
    assert [s["name"] for s in found["signatures"]["other"]["outputs"]] == ["neg", "exp"]
    assert main(["info", str(model)]) == 0
    text = capsys.readouterr().out
    assert "signature multiply: inputs" in text
    assert "signature other: outputs" in text


def test_info_looks_at_one(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    found = run_json(capsys, "info", model, "--signature", "other")
    assert found["layers"] == {"EXP": 1, "NEG": 1}
    assert [s["name"] for s in found["inputs"]] == ["v"]


def test_info_of_what_reads_variables_of_others(
    capsys: pytest.CaptureFixture[str], stateful: Path
) -> None:
    found = run_json(capsys, "info", stateful, "--signature", "get")
    assert [s["name"] for s in found["inputs"]] == ["scale"]
    assert "layers" not in found
    assert main(["info", str(stateful), "--signature", "get", "--graph"]) != 0
    assert "'kv' has no value yet" in capsys.readouterr().err


def test_run_takes_one(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    feeds, out = tmp_path / "feeds.npz", tmp_path / "out.npz"
    np.savez(feeds, v=np.float32([0, 2]))
    command = ["run", model, "--signature", "other", "--input", feeds, "--output", out]
    run_json(capsys, *command, "--device", "numpy")
    arrays = np.load(out)
    assert list(arrays) == ["neg", "exp"]
    assert arrays["neg"].tolist() == [0, -2]


def test_one_that_is_not_there(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    assert main(["run", str(model), "--signature", "decode", "--device", "numpy"]) == 2
    text = capsys.readouterr().err
    assert f"{model}: the model has no signature 'decode'" in text
    assert "'multiply', 'other'" in text


@pytest.mark.device
def test_verify_and_profile_take_one(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    found = run_json(capsys, "verify", model, "--signature", "other")
    assert found["ok"] is True
    assert sorted(row["op"] for row in found["rows"]) == ["Exp", "Neg"]
    found = run_json(capsys, "profile", model, "--signature", "other", "--runs", 1)
    layers = {layer for command in found["commands"] for layer in command["layers"]}
    assert layers == {"b", "c"}
    once = ("--runs", 1, "--warmup", 0)
    found = run_json(capsys, "bench", model, "--signature", "other", *once)
    assert [len(series["all"]) for series in found["runs"]] == [1]
    assert main(["bench", str(model), "--signature", "decode"]) == 2
    assert "the model has no signature 'decode'" in capsys.readouterr().err
