"""A layer of one's own that takes a tenth longer on the device is named; its twin is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.profiling.test_planted_layer import GLSL

import vknn
from vknn.profiling import Profile, ProfileComparison, compare

#: The layer's rounds are in the model's file, so that two models share the layer, not its time.
ROUNDS = 200
SHAPE = (8, 64, 64)
PAIRS, TURNS = 12, 10


def compute(arrays: Any, weights: Any, options: Any) -> np.ndarray:
    v = arrays[0]
    for _ in range(options["rounds"]):
        v = np.sin(v) + np.float32(0.5)
    return v


@pytest.fixture(autouse=True)
def planted() -> Iterator[None]:
    shader = GLSL.replace("int count;", "int count, rounds;").replace("ROUNDS", "p.rounds")
    vknn.register_layer(
        "ncnn",
        "Planted",
        shape=lambda shapes, options: shapes[0],
        compute=compute,
        parameters={"rounds": (0, 1)},
        shader=vknn.Shader(
            shader, push=lambda i, o, options: [int(np.prod(o[0])), options["rounds"]]
        ),
    )
    yield
    vknn.unregister_layer("ncnn", "Planted")


def model(folder: Path, name: str, rounds: int) -> Path:
    path = folder / f"{name}.param"
    lines = ["Input i 0 1 data", f"Planted long 1 1 data a 0={rounds}", "ReLU short 1 1 a y"]
    path.write_text("7767517\n3 3\n" + "\n".join(lines) + "\n")
    path.with_suffix(".bin").write_bytes(b"")
    return path


def in_turn(folder: Path, rounds: int) -> ProfileComparison:
    """Pairs of sessions whose runs take turns, of which the second has so many rounds."""
    paths = model(folder, "before", ROUNDS), model(folder, "after", rounds)
    feed = {"data": np.ones(SHAPE, np.float32)}
    sides: tuple[list[Profile], ...] = ([], [])
    for pair in range(PAIRS):
        with ExitStack() as stack:
            sessions = [stack.enter_context(vknn.Session(p, device="vulkan")) for p in paths]
            made: tuple[list[Profile], ...] = ([], [])
            for turn in range(TURNS + 1):
                # Who comes first changes, as the second may find the machine warm.
                for side in (0, 1) if (pair + turn) % 2 else (1, 0):
                    found = vknn.profile(sessions[side], feed, runs=1, warmup=0)
                    if turn:  # the first compiles
                        made[side].append(found)
        for side, found_of in zip(sides, made, strict=True):
            side.append(joined(found_of))
    return compare(*sides, in_turn=True)


def joined(profiles: list[Profile]) -> Profile:
    """Runs of one session as one profile."""
    first = profiles[0]
    runs, plain = [p.runs[0] for p in profiles], [p.plain[0] for p in profiles]
    return Profile(first.model, first.device, runs, plain, first.about)


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize("slower", [True, False])
def test_a_tenth(slower: bool, tmp_path: Path) -> None:
    found = in_turn(tmp_path, ROUNDS * 11 // 10 if slower else ROUNDS)
    row = next(r for r in found.rows if "long" in r.layers)
    assert row.ratio is not None
    assert (row in found.slowdowns(0.05)) == slower
    if slower:
        assert row.word == "slower"
        assert row.ratio == pytest.approx(1.1, abs=0.1)
        assert max(found.rows, key=lambda r: r.difference or 0.0) is row
