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
from vknn.crosscheck import allowances
from vknn.graph import Op
from vknn.ops.attention import RotaryEmbedding
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.elementwise import Fused, FusedStep, Log, Relu
from vknn.ops.normalization import LayerNormalization, MeanVarianceNormalization, NormalizeL2
from vknn.ops.recurrent.rnn import GRU, LSTM
from vknn.ops.reduction import ReduceSum

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))
from fuzzing import campaign  # noqa: E402
from fuzzing import case as cases  # noqa: E402
from fuzzing.comparing import Elements, hold_against  # noqa: E402
from fuzzing.corpus import FORMATS, SHARED  # noqa: E402
from fuzzing.outcome import Outcome  # noqa: E402
from fuzzing.overflow import overflowed  # noqa: E402
from fuzzing.reuse import read_once  # noqa: E402
from fuzzing.settings import Settings  # noqa: E402

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the test data in {SHARED}")


def fuzz(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the lines."""
    command = [sys.executable, str(ROOT / "tools" / "fuzz"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@needs_data
@pytest.mark.parametrize("row", [1, 4])
@pytest.mark.parametrize("format_", FORMATS)
def test_a_seed_gives_the_same_models(format_: str, row: int) -> None:
    settings = Settings(3, (format_,), in_a_row=row)
    made = [[cases.make(n, settings) for n in range(20)] for _ in range(2)]
    assert [m.files for m in made[0]] == [m.files for m in made[1]]
    originals = [m.seed.files() for m in made[0]]
    changed = sum(m.files != o for m, o in zip(made[0], originals, strict=True))
    assert changed > 10
    if row > 1:
        names = [m.name for m in made[0]]
        assert names == [names[n - n % row] for n in range(20)]
        assert len(set(names)) > 2


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
def test_opening_alone() -> None:
    code, lines = fuzz("--seed", "6", "--cases", "800", "--open-only", "--limit", "100")
    found = lines[-1]["summary"]
    assert (code, found["findings"]) == (0, {}), lines
    assert found["opened"] + found["refused"] == found["mutated"] == 800
    assert min(found["opened"], found["refused"]) > 200
    assert found["run on both"] == 0


@needs_data
@pytest.mark.long
def test_a_process_a_case() -> None:
    arguments = ["--seed", "5", "--cases", "7", "--device", "numpy", "--limit", "100"]
    shared, own = fuzz(*arguments), fuzz(*arguments, "--per-process", "1")
    counts = [lines[-1]["summary"]["formats"] for _, lines in (shared, own)]
    assert counts[0] == counts[1]


@needs_data
@pytest.mark.long
def test_what_takes_too_long_is_found() -> None:
    code, lines = fuzz("--case", "2", "--limit", "0.0001", "--device", "numpy")
    assert code == 1
    assert [line["kind"] for line in lines[:-1]] == ["time"]
    assert lines[0]["repeat"].startswith("tools/fuzz --seed 0 --case 2")


class FakeWorker:
    """A child that a case ends, but not where it is alone."""

    made = 0
    device = "none"
    asked = 0

    def __init__(self, _: Settings) -> None:
        FakeWorker.made += 1
        self.first = FakeWorker.made == 1

    def ask(self, numbers: tuple[int, ...]) -> Any:
        for number in numbers:
            outcome = Outcome(number, "small", "ncnn", opened=True)
            if self.first and number == 3:
                outcome.add("time", "more than 10 s")
            yield vars(outcome)
            if outcome.findings:
                return

    def stop(self) -> None:
        pass

    def end(self) -> dict[str, int]:
        return {}


def test_a_hang_that_is_not_repeated_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "Worker", FakeWorker)
    series = campaign.Campaign(Settings())
    outcomes = list(series.outcomes(range(6)))
    assert [outcome["case"] for outcome in outcomes] == list(range(6))
    assert [finding["kind"] for finding in outcomes[3]["findings"]] == ["time, not repeated"]
    assert series.summary.findings == {"time, not repeated": 1}
    assert series.summary.total("opened") == 6
    assert FakeWorker.made == 3  # the first, the one of case 3, the one behind it


def test_a_mutator_without_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(cases, "make", endless)
    monkeypatch.setattr(cases, "MAKING", 0.05)
    outcome = cases.described(7, Settings())
    assert [finding["kind"] for finding in outcome.findings] == ["no mutation"]


def test_what_is_no_error_of_vknn_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("beyond the end")

    outcome = Outcome(0, "small", "ncnn")
    seed = cases.Seed("small", dict)
    monkeypatch.setattr(vknn.Session, "run", broken)
    with cases._watched(outcome):
        cases._use(write_small_model(tmp_path), seed, cases.random.Random(0), None, outcome)
    assert outcome.opened
    assert [finding["kind"] for finding in outcome.findings] == ["exception"]
    assert "beyond the end" in outcome.findings[0]["text"]


def test_errors_without_the_name_of_the_file_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless(*_: object, **__: object) -> None:
        raise vknn.ModelFormatError("something is wrong")

    outcome = Outcome(0, "small", "ncnn")
    path = write_small_model(tmp_path)
    monkeypatch.setattr(vknn.Session, "__init__", nameless)
    cases._use(path, cases.Seed("small", dict), None, None, outcome)
    assert outcome.refused
    assert [finding["kind"] for finding in outcome.findings] == ["nameless"]


@pytest.mark.device
def test_disagreements_are_found(tmp_path: Path) -> None:
    outcome = Outcome(0, "small", "ncnn")
    feeds = {"data": np.ones(SHAPE, np.float32)}
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        right = session.run(feeds)
        hold_against(right, right, session, feeds, outcome)
        assert outcome.both
        assert not outcome.findings
        hold_against(right, vknn.ShapeError("no"), session, feeds, outcome)
    assert [finding["kind"] for finding in outcome.findings] == ["disagreement"]


@pytest.mark.device
def test_both_sessions_of_a_file_read_it_once(tmp_path: Path) -> None:
    path, feeds = write_small_model(tmp_path), {"data": np.ones(SHAPE, np.float32)}
    device = vknn.open_device("auto")
    try:
        with read_once(), vknn.Session(path, device="numpy") as first:
            right = first.run(feeds)
            with vknn.Session(path, device=device) as second:
                found = second.run(feeds)
                assert second.model is first.model
                assert second.device is device
        with vknn.Session(path, device=device) as third:
            assert third.model is not first.model
            again = third.run(feeds)
    finally:
        device.close()
    for name in right:
        np.testing.assert_allclose(found[name], right[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found[name], again[name])


@pytest.mark.host
def test_sums_that_overflow_on_the_way_are_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where magnitudes add up to more than float32 holds."""
    monkeypatch.setattr(Elements, "__init__", lambda self: None)
    op = Fused(Conv((1, 1), (0, 0, 0, 0), (1, 1)), (FusedStep(Relu()),))
    check, x = Elements(), np.ones((1, 2, 1, 3), np.float32)
    x[0, :, 0, 1] = 3e38
    inputs = [x, np.float32([1, -1]).reshape(1, 2, 1, 1)]
    check.made, check.goals = [(op, inputs, 0)], [op.reference(*inputs)[0]]
    check.bounds = list(allowances(op, inputs, tuple(check.goals)))
    found = check.goals[0].copy()
    check.found, found[0, 0, 0, 1] = [found], np.inf
    assert check.without_overflow(0).ok
    found[0, 0, 0, 2] = 0.5
    assert not check.without_overflow(0).ok


def excused(op: Op, inputs: list[Any], found: np.ndarray, index: int = 0) -> list[bool]:
    """Of each element, whether overflow explains that a device found ``found``."""
    made = [None if x is None else np.asarray(x, np.float32) for x in inputs]
    with np.errstate(all="ignore"):
        goal = op.reference(*made)[index]
    found = np.broadcast_to(np.float32(found), goal.shape)
    return np.broadcast_to(overflowed(op, made, index, goal, found), goal.shape).ravel().tolist()


@pytest.mark.host
@pytest.mark.parametrize(
    "op",
    [NormalizeL2((1,)), MeanVarianceNormalization((1,), epsilon=-0.5), LayerNormalization()],
    ids=lambda op: type(op).__name__,
)
def test_zeros_of_squares_that_overflow_are_excused(op: Op) -> None:
    """Also where zeros themselves would give 0 / 0, and only where a number is that large."""
    assert excused(op, [[[3e38, 1.0, -2.0]]], 0.0) == [True] * 3
    assert excused(op, [[[3e38, 1.0, -2.0]]], 0.5) == [False] * 3
    assert excused(op, [[[3.0, 1.0, -2.0]]], 0.0) == [False] * 3


@pytest.mark.host
def test_normal_gates_whose_squares_overflow_are_excused() -> None:
    """Those of the row of the batch alone, and where the gates are normalised."""
    w, r, norm = np.full((1, 4, 2), 0.5), np.zeros((1, 4, 1)), np.ones((1, 4))
    inputs = [[[[3e38, 0.0], [1.0, 2.0]]], w, r, *[None] * 6, norm]
    assert [excused(LSTM(), inputs, 0.25, index) for index in range(3)] == [[True, False]] * 3
    assert excused(LSTM(), inputs[:3], 0.25) == [False, False]


@pytest.mark.host
def test_gates_and_sums_that_overflow_are_excused() -> None:
    """Those of the row of the batch alone; and sums of large numbers of both signs."""
    w, r = np.full((1, 3, 2), 2e38), np.zeros((1, 3, 1))
    inputs = [[[[1.0, -1.0], [0.5, -0.5]]], w, r]
    assert [excused(GRU(), inputs, 0.25, index) for index in range(2)] == [[True, False]] * 2
    rows = [[[[3e38, 3e38, 3e38, -3e38], [1.0, 2.0, 3.0, 4.0]]]]  # infinity by NumPy, and 10
    for found in (0.25, np.nan):
        assert excused(ReduceSum((2,)), rows, found)[0]
    assert not excused(ReduceSum((2,)), rows, 0.25)[1]


@pytest.mark.host
def test_products_of_turns_and_of_samples_that_overflow_are_excused() -> None:
    """A rotation's differences of products, and what a deformable convolution adds up."""
    x, table = [[[3e38, 3e38], [1.0, 2.0]]], [[2.0], [2.0]]
    found = excused(RotaryEmbedding(), [x, table, table], 0.25)
    assert found == [True, True, False, False]
    pixels = [[[[3e38, 1.0]], [[3e38, 1.0]]]]
    weights, offset = [[[[1.0]], [[-1.0]]]], np.zeros((1, 2, 1, 2))
    deform = DeformConv((1, 1), (0,) * 4, (1, 1))
    assert excused(deform, [pixels, weights, offset], 0.25) == [True, False]


@pytest.mark.host
def test_subnormal_numbers_may_be_zeros() -> None:
    assert excused(Log(), [[1e-42, 1e-42, 1.0]], -np.inf) == [True, True, False]
    assert excused(Log(), [[1e-42, 1e-42, 1.0]], -90.0) == [False] * 3


@pytest.mark.device
def test_every_element_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overflow, which is excused, does not hide a smaller error beside it."""
    feeds = {"data": np.ones(SHAPE, np.float32)}
    feeds["data"][0, 0] = 1e19  # its square has no float32
    isolated = Elements._isolated
    errors = {0: np.float32("inf")}

    def spoiled(self: Elements, node: Any, known: Any) -> Any:
        alone, side = isolated(self, node, known)
        for place, value in errors.items():
            alone[0].flat[place] = value
        return alone, side

    monkeypatch.setattr(Elements, "_isolated", spoiled)
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        right = session.run(feeds)
        other = {name: array + 1 for name, array in right.items()}
        outcome = Outcome(0, "small", "ncnn")
        hold_against(right, other, session, feeds, outcome)
        assert not outcome.findings
        assert outcome.excuses == ["excused: out of float32's range"]
        errors[1] = np.float32(0.123)
        hold_against(right, other, session, feeds, outcome)
    assert {finding["kind"] for finding in outcome.findings} == {"difference"}
