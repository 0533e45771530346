"""Networks that make much of small errors, and networks in float16, agree; wrong inputs do not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, value

import vknn
from vknn.crosscheck.check import GraphCheck
from vknn.graph import DType, Graph

pytestmark = pytest.mark.device

TERMS = 4001


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


@pytest.fixture
def enlarging(tmp_path: Path) -> Path:
    """Sums of 1000 and more of which what is left is below 1."""
    tensors = {"w": array(TERMS, 7), "perm": array(7, 7)}
    tensors["w"][:, 1:] = tensors["w"][:, :1] + 1e-6 * tensors["w"][:, 1:]
    nodes = [
        node("MatMul", "x w", "sums"),
        node("ReduceMean", "sums", "mean", keepdims=1),
        node("Sub", "sums mean", "rest"),
        node("MatMul", "rest perm", "y"),
    ]
    body = graph(nodes, [value("x", (1, TERMS))], [value("y", (1, 7))], tensors)
    return save(model(body), tmp_path)


def test_errors_that_a_network_enlarges_are_no_fault(enlarging: Path) -> None:
    """Which a tolerance of one's own does not excuse."""
    feeds = {"x": array(1, TERMS)}
    report = vknn.verify(enlarging, feeds, device="vulkan")
    assert report.ok, str(report)
    last = report.rows[-1].cumulative
    assert last is not None and last.max_rel > 1e-4
    assert not vknn.verify(enlarging, feeds, device="vulkan", cumulative_tolerance=1e-4).ok


def test_inputs_that_are_wrong_are_not_excused(
    enlarging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = GraphCheck._cumulative

    def wrong(self: GraphCheck, graph: Graph, feeds: Mapping[str, np.ndarray]) -> Any:
        after, placement = true(self, graph, feeds)
        for number, found in enumerate(after.values()):
            found += 0.01 * number * np.abs(found).max()
        return after, placement

    monkeypatch.setattr(GraphCheck, "_cumulative", wrong)
    report = vknn.verify(enlarging, {"x": array(1, TERMS)}, device="vulkan")
    assert not report.ok
    assert all(row.isolated is not None and row.isolated.ok for row in report.rows)


def test_a_network_in_float16(tmp_path: Path) -> None:
    weights = {f"w{i}": array(31, 31).astype(np.float16) - np.float16(0.5) for i in range(6)}
    names = ["x", *(f"h{i}" for i in range(5)), "y"]
    nodes = [node("MatMul", f"{names[i]} w{i}", f"m{i}") for i in range(6)]
    ends = [node("Tanh", f"m{i}", names[i + 1]) for i in range(6)]
    half = DType.FLOAT16
    body = graph(
        [n for pair in zip(nodes, ends, strict=True) for n in pair],
        [value("x", (5, 31), half)], [value("y", (5, 31), half)], weights,
    )  # fmt: skip
    report = vknn.verify(
        save(model(body), tmp_path), {"x": array(5, 31).astype(np.float16)}, device="vulkan"
    )
    assert report.ok, str(report)
    assert report.rows[0].isolated is not None and report.rows[0].isolated.max_abs < 2e-2
