"""Benchmarks of a small network."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import write_small_model

from vknn.errors import VknnError
from vknn.graph import GraphBuilder, TensorType
from vknn.ops.detection.yolo import YoloDetection
from vknn.ops.elementwise import Relu
from vknn.profiling import Series, bench
from vknn.profiling.bench import difference


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


def test_series() -> None:
    series = Series("x", (3.0, 1.0, 2.0, 10.0))
    assert (series.least, series.median, series.most) == (1.0, 2.5, 10.0)


@pytest.mark.device
def test_times_cold_start_and_memory(model: Path) -> None:
    result = bench(model, runs=2, warmup=1, device="vulkan")
    assert len(result.ours.seconds) == 2
    assert list(result.cold) == ["device", "load", "graph", "plan", "pipelines", "first run"]
    assert all(t >= 0 for t in result.cold.values())
    assert result.memory is not None
    assert result.memory > 0
    document = json.loads(result.to_json())
    assert document["ratio"] is None
    assert "cold start" in str(result)


def test_on_numpy(model: Path) -> None:
    result = bench(model, runs=1, warmup=0, device="numpy")
    assert result.memory is None
    assert result.cold["load"] > 0
    assert result.device == "NumPy"


@pytest.mark.device
@pytest.mark.skipif(importlib.util.find_spec("ncnn") is None, reason="needs the ncnn wheel")
def test_a_peer_runs_in_turn_and_agrees(model: Path) -> None:
    result = bench(model, runs=2, warmup=1, device="vulkan", peer="ncnn")
    assert result.peer is not None
    assert result.peer.name.startswith("ncnn ")
    assert len(result.peer.seconds) == 2
    assert result.difference is not None
    assert result.difference < 1e-4
    assert result.ratio == result.ours.median / result.peer.median
    assert "times the time of ncnn" in str(result)


def test_detections_that_are_equally_sure_may_change_places() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType((1, 6, 4, 4)))
    op = YoloDetection(1, 1, 0.5, 0.5, (1.0, 1.0), (0,), (1.0,))
    graph = b.finish({"rows": b.add(op, x), "relu": b.add(Relu(), x)})
    table = np.linspace(0, 1, 24, dtype=np.float32).reshape(4, 6)
    table[:, 1] = [0.9, 0.800001, 0.8, 0.7]
    swapped = table[[0, 2, 1, 3]]
    assert difference(graph, {"rows": swapped}, {"rows": table}) == 0
    assert difference(graph, {"rows": swapped + 0.01}, {"rows": table}) == pytest.approx(
        0.01, rel=1e-4
    )
    assert difference(graph, {"rows": table[[1, 0, 2, 3]]}, {"rows": table}) > 0.1
    assert difference(graph, {"rows": table[:3]}, {"rows": table}) == float("inf")
    assert difference(graph, {"relu": swapped}, {"relu": table}) > 0.1


@pytest.mark.device
def test_what_cannot_be(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VknnError, match="at least one run"):
        bench(model, runs=0, device="numpy")
    with pytest.raises(VknnError, match="no peer is called 'x'"):
        bench(model, peer="x")
    with pytest.raises(VknnError, match="runs on NumPy"):
        bench(model, runs=1, device="numpy", peer="ncnn")
    monkeypatch.setitem(sys.modules, "ncnn", None)
    with pytest.raises(VknnError, match="pip install ncnn"):
        bench(model, runs=1, device="vulkan", peer="ncnn")
