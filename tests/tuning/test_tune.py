"""A network is tuned on the device; what goes wrong on the way is struck off."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests import onnx_writer as writer
from tests.helpers import shared_device
from tests.tuning.misbehaving import Misbehaving

import vknn
from vknn import environment
from vknn.cli import main
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.graph import DType, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, format_plan
from vknn.runtime.tuning_database import TuningEntry, database_file, load, store
from vknn.tuning import TuneReport, tune
from vknn.tuning.jobs import find_jobs
from vknn.tuning.trial import MARGIN, Result
from vknn.tuning.tune import tune_jobs

pytestmark = pytest.mark.device

NET = """7767517
2 2
Input       data  0 1 data 0=6 1=6 2=3
Convolution conv  1 1 data out 0=5 1=3 4=1 5=1 6=135 9=1
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.param"
    path.write_text(NET)
    write_random_weights(path, path.with_suffix(".bin"))
    return path


def database() -> Path:
    return database_file(environment.read().cache_path(), shared_device().snapshot)


def picture() -> dict[str, np.ndarray]:
    return {"data": np.random.default_rng(3).standard_normal((3, 6, 6)).astype(np.float32)}


def labels(session: vknn.Session) -> list[str]:
    return [d.label for plan in session._engine.program(picture()).plans for d in plan.dispatches]


def test_a_network_is_tuned_and_sessions_use_it(net: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    report = tune(net, runs=1, progress=lambda *step: steps.append(step))
    (row,) = report.rows
    assert row.layers == ("conv",)
    assert not row.failures
    assert row.winner is not None
    assert row.times[row.winner] <= MARGIN * min(row.times.values())
    assert steps == [(0, 1, "conv"), (1, 1, "done")]
    (entry,) = load(database()).values()
    assert (entry.candidate, dict(entry.tried)) == (row.winner, dict(row.times))
    assert json.loads(report.to_json())["rows"][0]["winner"] == row.winner
    assert "conv" in str(report)
    with vknn.Session(net) as session:
        assert f"Conv {row.winner}" in labels(session)


def test_branches_are_tuned(tmp_path: Path) -> None:
    """Which of them runs is known when the condition is: they are compiled then."""
    weights = np.random.default_rng(4).standard_normal((5, 3, 3, 3)).astype(np.float32)
    ends = [writer.value("y", None)]
    then = writer.graph([writer.node("Conv", "x w", "y")], outputs=ends, tensors={"w": weights})
    other = writer.graph([writer.node("Relu", "x", "y")], outputs=ends)
    branch = writer.node("If", "c", "z", then_branch=then, else_branch=other)
    taken = [writer.value("x", (1, 3, 6, 6)), writer.value("c", (), DType.BOOL)]
    body = writer.graph([branch], taken, [writer.value("z", None)])
    path = writer.save(writer.model(body), tmp_path)
    report = tune(path, {"c": np.array(True)}, runs=1)
    assert [row.op for row in report.rows] == ["Conv"]


def test_a_session_takes_what_the_database_says(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with vknn.Session(net) as session:
        (job,) = find_jobs(
            session._engine.program(picture()).graph.nodes,
            shared_device().limits,
            session._engine.target.options,
        )
        expected = session.run(picture())["out"]
        usual = labels(session)
        usual_plan = format_plan(session._engine.program(picture()).plans[0])
    (contest,) = job.contests
    last = contest.names[-1]
    assert f"Conv {last}" not in usual
    store(database(), {job.choice_key(contest): TuningEntry(last, 1.0, {last: 1.0})})
    with vknn.Session(net) as session:
        assert f"Conv {last}" in labels(session)
        assert format_plan(session._engine.program(picture()).plans[0]) != usual_plan
        np.testing.assert_allclose(session.run(picture())["out"], expected, rtol=1e-4, atol=1e-5)
    with vknn.Session(net, tuned=False) as session:
        assert labels(session) == usual
    monkeypatch.setenv("VKNN_DISABLE", "tuning")
    with vknn.Session(net) as session:
        assert labels(session) == usual


def misbehave(broken: bool = False) -> TuneReport:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((1, 64)))
    graph = builder.finish({"y": builder.add(Misbehaving(broken), x)})
    jobs = find_jobs(graph.nodes, shared_device().limits, LoweringOptions())
    return tune_jobs(jobs, shared_device(), "misbehaving", runs=2, timeout=6.0)


def test_what_misbehaves_is_struck_off() -> None:
    report = misbehave()
    (row,) = report.rows
    assert row.times.keys() == {"often", "once"}
    assert row.winner == "once"
    assert row.previous == "crashes"
    assert "SIGKILL" in row.failures["crashes"]
    assert "no answer within 6 s" in row.failures["hangs"]
    assert "no such kernel" in row.failures["raises"]
    assert "wrong results" in row.failures["wrong"]
    (entry,) = load(database()).values()
    assert entry.tried["crashes"] == "failed"


def test_what_cannot_be_checked_is_not_chosen() -> None:
    (row,) = misbehave(broken=True).rows
    assert row.winner is None
    assert len(row.failures) == 6
    assert set(row.failures.values()) == {"the reference: ArithmeticError: no reference"}
    assert load(database()) == {}


def test_of_equals_the_lowest_estimate_wins() -> None:
    assert Result(("a", "b"), {"b": 100.0, "a": 102.0}).winner == "a"
    assert Result(("a", "b"), {"b": 100.0, "a": 104.0}).winner == "b"
    assert Result(("a", "b"), {"b": 0.0}).winner == "b"
    assert Result(("a", "b"), {}, {"a": "died", "b": "died"}).winner is None


def test_the_command_line(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(net), "--runs", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["winner"] in row["times"]
    assert [e.candidate for e in load(database()).values()] == [row["winner"]]


def test_without_a_device_there_is_nothing_to_tune(net: Path) -> None:
    with pytest.raises(vknn.DeviceError, match="NumPy"):
        tune(net, device="numpy")
    with pytest.raises(vknn.VknnError, match="runs=0"):
        tune(net, runs=0)
