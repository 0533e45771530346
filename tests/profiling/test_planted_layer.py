"""A layer of one's own that is made slower: its source is in the file, its row is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vknn
from vknn.profiling import Profile, compare, read_document

GLSL = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
OUTPUT1F(1, y);
layout(push_constant) uniform P { int count; } p;
void main() {
    int i = linear_lane();
    if (i >= p.count) return;
    float v = LOAD1(x, i);
    for (int round = 0; round < ROUNDS; ++round) v = sin(v) + 0.5;
    STORE1(y, i, v);
}
"""
SHAPE = (8, 64, 64)
FEED = {"data": np.ones(SHAPE, np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.param"
    lines = ["Input i 0 1 data", "Planted first 1 1 data a", "ReLU second 1 1 a y"]
    path.write_text("7767517\n3 3\n" + "\n".join(lines) + "\n")
    path.with_suffix(".bin").write_bytes(b"")
    return path


@pytest.fixture(autouse=True)
def unregistered() -> Iterator[None]:
    yield
    vknn.unregister_layer("ncnn", "Planted")


def profiled(model: Path, rounds: int) -> Profile:
    def compute(arrays: Any, weights: Any, options: Any) -> np.ndarray:
        v = arrays[0]
        for _ in range(rounds):
            v = np.sin(v) + np.float32(0.5)
        return v

    vknn.register_layer(
        "ncnn",
        "Planted",
        shape=lambda shapes, options: shapes[0],
        compute=compute,
        shader=vknn.Shader(
            GLSL.replace("ROUNDS", str(rounds)), push=lambda i, o, options: [int(np.prod(o[0]))]
        ),
        replace=True,
    )
    return vknn.profile(model, FEED, runs=12, device="vulkan")


@pytest.mark.device
def test_the_layer_made_slower_is_named(model: Path, tmp_path: Path) -> None:
    before, after = profiled(model, 2), profiled(model, 200)
    found = compare(before, after)
    row = next(r for r in found.rows if "first" in r.layers)
    assert row.word == "slower"
    assert row.ratio is not None
    assert row.ratio > 2
    assert row in found.slowdowns(0.05)
    after.save(tmp_path / "a.vkprof")
    kernels = read_document(tmp_path / "a.vkprof")["kernels"].values()
    (own,) = (k for k in kernels if k["own"])
    assert "round < 200" in own["glsl"]
    assert "vec4" in own["glsl"]  # the includes are written in
