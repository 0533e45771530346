"""Scans, and maps over sequences, of few rounds and of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, sequence, value

from vknn import Session
from vknn.graph import DType


def test_long_scans(tmp_path: Path, device: Any) -> None:
    body = graph(
        [node("Add", "h a", "h1"), node("Mul", "h1 b", "h2"), node("Identity", "h2", "o")],
        [value("h", (3,)), value("a", (3,)), value("b", (3,))],
        [value("h2", (3,)), value("o", (3,))],
    )  # fmt: skip
    scan = node("Scan", "h0 a b", "h o", body=body, num_scan_inputs=2, scan_input_axes=[0, 1],
                scan_input_directions=[0, 1], scan_output_axes=[-1],
                scan_output_directions=[1])  # fmt: skip
    inputs = [value("h0", (3,)), value("a", ("n", 3)), value("b", (3, "n"))]
    message = model(graph([scan], inputs, [value("h", (3,)), value("o", None)]))
    chance = np.random.default_rng(3)
    with Session(save(message, tmp_path), device=device) as session:
        for length in (3, 700):
            a = chance.standard_normal((length, 3)).astype(np.float32)
            b = chance.uniform(-0.9, 0.9, (3, length)).astype(np.float32)
            h = np.float32([1, 2, 3])
            found = session.run({"h0": h, "a": a, "b": b})
            all_ = []
            for step in range(length):
                h = (h + a[step]) * b[:, length - 1 - step]
                all_.append(h)
            assert np.allclose(found["h"], h, rtol=1e-5, atol=1e-6)
            assert np.allclose(found["o"], np.stack(all_[::-1], -1), rtol=1e-5, atol=1e-6)


def test_maps_over_long_sequences(tmp_path: Path, device: Any) -> None:
    body = graph(
        [node("Mul", "a k", "b"), node("Shape", "a", "n")],
        [value("a", (None,)), value("k", ())], [value("b", None), value("n", None, DType.INT64)],
    )  # fmt: skip
    nodes = [node("SequenceMap", "q k", "r n", body=body), node("SequenceLength", "n", "count")]
    message = model(graph(nodes, [sequence("q"), value("k", ())],
                          [sequence("r"), value("count", (), DType.INT64)]))  # fmt: skip
    with Session(save(message, tmp_path), device=device) as session:
        for length in (2, 400, 0):
            parts = [np.arange(1 + number % 3, dtype=np.float32) for number in range(length)]
            found = session.run({"q": parts, "k": np.float32(3)})
            assert found["count"] == length
            for part, made in zip(parts, found["r"], strict=True):
                assert np.array_equal(made, part * 3)


@pytest.mark.parametrize("lengths", [None, [4, 0, 2], [0, 0, 0]])
def test_scans_of_batches(lengths: Any, tmp_path: Path, device: Any) -> None:
    """Scan of opset 8: a batch of sequences, each with a length of its own."""
    body = graph(
        [node("Add", "h a", "h2"), node("Mul", "h2 b", "o")],
        [value("h", (2,)), value("a", (2,)), value("b", (2,))],
        [value("h2", (2,)), value("o", (2,))],
    )
    scan = node("Scan", f"{'n' if lengths else '-'} h a b", "y s", body=body, num_scan_inputs=2,
                directions=[0, 1])  # fmt: skip
    inputs = [value("h", (3, 2)), value("a", (3, 4, 2)), value("b", (3, 4, 2))]
    tensors = {"n": np.int64(lengths)} if lengths else {}
    message = model(graph([scan], inputs, [value("y", None), value("s", None)], tensors), 8)
    chance = np.random.default_rng(7)
    feeds = {v.name: chance.standard_normal([d.dim_value for d in v.type.tensor_type.shape.dim])
             .astype(np.float32) for v in inputs}  # fmt: skip
    with Session(save(message, tmp_path), device=device) as session:
        found = session.run(feeds)
    for entry, rounds in enumerate(lengths or [4, 4, 4]):
        h, wanted = feeds["h"][entry], np.zeros((4, 2), np.float32)
        for step in range(rounds):
            h = h + feeds["a"][entry, step]
            wanted[step] = h * feeds["b"][entry, 3 - step]
        assert np.allclose(found["y"][entry], h, rtol=1e-5)
        assert np.allclose(found["s"][entry], wanted, rtol=1e-5)
