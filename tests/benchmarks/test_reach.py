"""benchmarks/counting/reach.py and made.py: goals held against kept counts; networks written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.counting import made
from benchmarks.counting.reach import reach_of, reach_table

from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.session import Session


def side(code: float | None, dispatches: int, halved: float, doubled: float) -> dict[str, Any]:
    scaled = {"0.5": halved, "2": doubled}
    return {
        "code_us": code,
        "code_scaled_us": scaled,
        "dispatches": dispatches,
        "waiting": dispatches,
    }


def document(**networks: dict[str, Any]) -> dict[str, Any]:
    return {"null": "navi21", "precision": "fp32", "networks": networks}


def test_a_goal_that_is_reached() -> None:
    ours, theirs = side(100.0, 10, 80.0, 150.0), side(250.0, 40, 200.0, 300.0)
    found = reach_of(document(a={"vknn": ours, "ncnn": theirs}), 5.0)
    assert found.times == {"a": 3.0}  # (250 + 40 x 5) / (100 + 10 x 5)
    assert (found.mean, found.least, found.turned) == (pytest.approx(3.0), 3.0, [])
    assert found.reached
    assert "| a | 3.00 |" in reach_table([found], {"navi21": 5.0})


def test_a_dispatch_behind_no_barrier_costs_less() -> None:
    ours = {**side(100.0, 10, 0, 0), "waiting": 2}
    found = reach_of(document(a={"vknn": ours, "ncnn": side(100.0, 10, 0, 0)}), 10.0)
    assert found.times["a"] == pytest.approx(200 / (100 + 10 * (2 + 8 * 1.5 / 4)))


def test_a_network_without_a_time_reaches_nothing() -> None:
    ours, theirs = side(100.0, 10, 80.0, 150.0), side(None, 40, 200.0, 300.0)
    found = reach_of(document(a={"vknn": ours, "ncnn": theirs}), 5.0)
    assert found.times == {"a": None}
    assert not found.reached


def test_who_is_ahead_hangs_on_latencies() -> None:
    ours, theirs = side(100.0, 0, 80.0, 400.0), side(150.0, 0, 140.0, 300.0)
    slower = {"vknn": side(200.0, 0, 200.0, 200.0), "ncnn": theirs}
    found = reach_of(document(a={"vknn": ours, "ncnn": theirs}, b=slower), 5.0)
    assert found.turned == ["a", "b"]
    assert found.least == 0.75 and not found.reached
    assert "1.50*" in reach_table([found], {"navi21": 5.0})


@pytest.mark.long
@pytest.mark.parametrize(("name", "weights"), [("resnet50", 25.5e6), ("vgg16", 138.4e6)])
def test_made_networks(name: str, weights: float, tmp_path: Path) -> None:
    """They are read, and have as many weights as was published."""
    param = made.written(name, tmp_path)
    counted = 0
    for line in param.read_text().splitlines()[2:]:
        kind, *words = line.split()
        params = dict(word.split("=") for word in words if "=" in word)
        if kind in ("Convolution", "InnerProduct"):
            counted += int(params["6" if kind == "Convolution" else "2"])
    assert counted == pytest.approx(weights, rel=0.005)
    if name == "resnet50":
        write_random_weights(param, tmp_path / "weights.bin")
        with Session(param, tmp_path / "weights.bin", device="numpy") as session:
            assert len(session.outputs) == 1
