"""The fuzzer: the same models for the same seed, what it finds and how it says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model

import vknn

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))
from fuzzing import case as cases  # noqa: E402
from fuzzing.corpus import FORMATS, SHARED  # noqa: E402

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the test data in {SHARED}")


def fuzz(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the lines."""
    command = [sys.executable, str(ROOT / "tools" / "fuzz"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@needs_data
@pytest.mark.parametrize("format_", FORMATS)
def test_a_seed_gives_the_same_models(format_: str) -> None:
    made = [[cases.make(3, n, (format_,)) for n in range(20)] for _ in range(2)]
    assert [m.files for m in made[0]] == [m.files for m in made[1]]
    originals = [m.seed.files() for m in made[0]]
    changed = sum(m.files != o for m, o in zip(made[0], originals, strict=True))
    assert changed > 10


@needs_data
@pytest.mark.long
@pytest.mark.device
def test_a_short_run() -> None:
    code, lines = fuzz("--seed", "5", "--cases", "250", "--limit", "100")
    found = lines[-1]["summary"]
    assert (code, found["findings"]) == (0, {}), lines
    assert found["mutated"] == 250
    assert found["opened"] > 60
    assert found["run on both"] > 40


@needs_data
@pytest.mark.long
def test_what_takes_too_long_is_found() -> None:
    code, lines = fuzz("--case", "2", "--limit", "0.0001", "--device", "numpy")
    assert code == 1
    assert [line["kind"] for line in lines[:-1]] == ["time"]
    assert lines[0]["repeat"].startswith("tools/fuzz --seed 0 --case 2")


def test_what_is_no_error_of_vknn_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("beyond the end")

    outcome = cases.Outcome(0, "small")
    seed = cases.Seed("small", dict)
    monkeypatch.setattr(vknn.Session, "run", broken)
    with cases._watched(outcome):
        cases._use(write_small_model(tmp_path), seed, cases.random.Random(0), None, outcome)
    assert outcome.opened
    assert [finding["kind"] for finding in outcome.findings] == ["exception"]
    assert "beyond the end" in outcome.findings[0]["text"]


@pytest.mark.device
def test_disagreements_are_found(tmp_path: Path) -> None:
    outcome = cases.Outcome(0, "small")
    feeds = {"data": np.ones(SHAPE, np.float32)}
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        right = session.run(feeds)
        cases._compare(right, right, session, feeds, outcome)
        assert outcome.both
        assert not outcome.findings
        cases._compare(right, vknn.ShapeError("no"), session, feeds, outcome)
    assert [finding["kind"] for finding in outcome.findings] == ["disagreement"]
