"""Profiles of a small network, and the arithmetic of spans."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import write_small_model

import vknn
from vknn.errors import VknnError
from vknn.profiling import Profile
from vknn.profiling.records import covered


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def result(model: Path) -> Profile:
    return vknn.profile(model, runs=3, warmup=1, device="vulkan")


@pytest.mark.parametrize(
    ("spans", "length"),
    [
        ([], 0),
        ([(0, 2)], 2),
        ([(0, 2), (2, 3)], 3),
        ([(0, 2), (1, 3)], 3),
        ([(5, 6), (0, 4), (1, 2)], 5),
        ([(1, 1)], 0),
    ],
)
def test_union_of_spans(spans: list[tuple[int, int]], length: int) -> None:
    assert covered(np.array(spans, float).reshape(-1, 2)) == length


@pytest.mark.device
def test_every_dispatch_is_timed(result: Profile) -> None:
    layers = [name for t in result.timings for name in t.entry.layers]
    assert {"conv1", "dw+sum", "pool", "fc", "prob"} <= set(layers)
    assert sum(t.share for t in result.timings) == pytest.approx(1)
    for timing in result.timings:
        assert 0 <= timing.least <= timing.median
    conv = next(t for t in result.timings if "conv1" in t.entry.layers)
    assert conv.entry.flops > 0
    assert conv.gflops == pytest.approx(conv.entry.flops / conv.median / 1e3)
    assert conv.entry.groups is not None


@pytest.mark.device
def test_totals_add_up(result: Profile) -> None:
    total = result.total
    parts = ("upload", "busy", "gaps", "submit", "download", "host")
    assert all(total[p] >= 0 for p in parts)
    assert total["busy"] <= total["timed"]
    assert total["wall"] > 0


@pytest.mark.device
def test_text_json_and_trace(result: Profile, tmp_path: Path) -> None:
    text = str(result)
    assert "GPU busy" in text
    assert "conv1" in text
    document = json.loads(result.to_json())
    assert len(document["commands"]) == len(result.timings)
    result.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in complete} == {1, 2}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in complete)
    (whole,) = (e for e in complete if e["name"] == "run")
    assert all(e["ts"] + e["dur"] <= whole["dur"] * 1.01 + 100 for e in complete)
    assert any(e["name"] == "conv1" and e["pid"] == 1 for e in complete)
    assert len(list(result.table("time", 2).rows)) == 2


def test_on_numpy_each_op_is_timed(model: Path) -> None:
    result = vknn.profile(model, runs=2, warmup=0, device="numpy")
    assert {t.entry.where for t in result.timings} == {"host"}
    assert result.total["host"] > 0
    assert result.total["busy"] == 0
    events = result.to_trace()["traceEvents"]
    assert any(e["name"] == "conv1" and e["pid"] == 2 for e in events)


def test_runs_are_checked(model: Path) -> None:
    with pytest.raises(VknnError, match="at least one run"):
        vknn.profile(model, runs=0, device="numpy")
