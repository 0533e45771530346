"""The commands on .tflite files: free shapes, loops, state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.nets import adding_up, totals_operator
from tests.tflite_writer import Net

from vknn.cli import main


def looping() -> Net:
    """x -> 2x, doubled until it passes a limit, then NEG."""
    net = Net()
    x, limit = net.tensor("x", (1, 3), shape_signature=[-1, 3]), net.tensor("limit", ())
    doubled, looped = net.tensor("doubled", (1, 3)), net.tensor("looped", (1, 3))
    limit_after, y = net.tensor("limit after", ()), net.tensor("y", (1, 3))
    net.add("ADD", [x, x], [doubled], {})
    net.add("WHILE", [doubled, limit], [looped, limit_after],
            {"cond_subgraph_index": 1, "body_subgraph_index": 2})  # fmt: skip
    net.add("NEG", [looped], [y])
    net.inputs, net.outputs = [x, limit], [y]
    condition, body = net.another(), net.another()
    for part in (condition, body):
        part.inputs = [part.tensor("v", (1, 3)), part.tensor("limit", ())]
    axes = condition.tensor("axes", data=[0, 1], dtype="int32")
    total, less = condition.tensor("total", ()), condition.tensor("less", (), "bool")
    condition.add("SUM", [0, axes], [total], {})
    condition.add("LESS", [total, 1], [less])
    condition.outputs = [less]
    body.outputs = [body.tensor("w", (1, 3)), 1]
    body.add("ADD", [0, 0], [body.outputs[0]], {})
    return net


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "loop.tflite"
    path.write_bytes(looping().file())
    return path


@pytest.fixture
def feeds(tmp_path: Path) -> Path:
    path = tmp_path / "feeds.npz"
    np.savez(path, x=np.float32([[1, 2, 3], [4, 5, 6]]), limit=np.float32(100))
    return path


def run_json(capsys: pytest.CaptureFixture[str], *argv: object) -> Any:
    assert main([str(a) for a in (*argv, "--json")]) == 0
    return json.loads(capsys.readouterr().out)


def test_info(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    found = run_json(capsys, "info", model)
    assert found["inputs"][0]["shape"] == [None, 3]
    assert found["inputs"][0]["hint"] == [1, 3]
    assert found["layers"] == {"ADD": 1}
    assert found["later"] == {"WHILE": 1, "NEG": 1}
    assert main(["info", str(model)]) == 0
    assert "WHILE" in capsys.readouterr().out
    assert main(["info", str(model), "--graph"]) == 0
    assert capsys.readouterr().out.endswith("planned at run time: WHILE, NEG\n")


def test_run(capsys: pytest.CaptureFixture[str], model: Path, feeds: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    run_json(capsys, "run", model, "--input", feeds, "--output", out)
    y = np.load(out)["y"]
    assert y.tolist() == [[-8.0, -16, -24], [-32, -40, -48]]  # 42, 84, 168


@pytest.mark.device
def test_verify_checks_what_is_built_at_run_time(
    capsys: pytest.CaptureFixture[str], model: Path, feeds: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "arrays.npz"
    found = run_json(capsys, "verify", model, "--input", feeds, "--dump", dump)
    assert found["ok"] is True
    # Each graph once: the one before the loop, its condition, its body, what follows.
    assert [row["op"] for row in found["rows"]] == ["Add", "ReduceSum", "Less", "Add", "Neg"]
    assert all(row["isolated"]["ok"] for row in found["rows"])
    assert [o["name"] for o in found["outputs"]] == ["y"]
    arrays = np.load(dump)
    assert {name.split("/")[0] for name in arrays} >= {"2", "3", "4"}


@pytest.mark.device
def test_verify_before_passes(capsys: pytest.CaptureFixture[str], model: Path, feeds: Path) -> None:
    found = run_json(capsys, "verify", model, "--input", feeds, "--before-passes")
    assert len(found["rows"]) == 5


def test_profile_times_every_round(
    capsys: pytest.CaptureFixture[str], model: Path, feeds: Path
) -> None:
    found = run_json(capsys, "profile", model, "--input", feeds, "--runs", 1, "--warmup", 0)
    layers = [layer for command in found["commands"] for layer in command["layers"]]
    assert layers.count("less") == 3
    assert layers.count("w") == 2
    assert layers.count("y") == 1


def test_bench(capsys: pytest.CaptureFixture[str], model: Path, feeds: Path) -> None:
    found = run_json(capsys, "bench", model, "--input", feeds, "--runs", 2, "--warmup", 1)
    assert found["runs"][0]["median"] > 0


@pytest.mark.device
def test_models_with_state(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = tmp_path / "state.tflite"
    model.write_bytes(adding_up(10).file())
    with totals_operator():
        found = run_json(capsys, "verify", model)
        assert found["ok"] is True
        assert [o["name"] for o in found["outputs"]] == ["y"]
        assert run_json(capsys, "profile", model, "--runs", 1)["commands"]
