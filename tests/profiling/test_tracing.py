"""Traces of sessions and threads, held against Chrome's trace-event format."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import write_small_model

import vknn
from vknn.engine import Watch
from vknn.errors import VknnError
from vknn.plan import Role
from vknn.profiling import trace, tracing
from vknn.profiling.lifetimes import held_in

FEED = {"data": np.random.default_rng(0).standard_normal((3, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


def check_format(document: Any) -> None:
    """Chrome's "Trace Event Format": fields by phase, and events that nest on their track."""
    assert isinstance(document["traceEvents"], list)
    assert document["displayTimeUnit"] in ("ms", "ns")
    tracks = defaultdict(list)
    names = set()
    arrows: dict[str, list[str]] = defaultdict(list)
    for event in document["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["name"], str)
        assert event["ph"] in ("X", "M", "C", "s", "f")
        if event["ph"] == "C":
            assert event["ts"] >= 0
            assert all(isinstance(value, float) for value in event["args"].values())
            continue
        assert isinstance(event["tid"], int)
        if event["ph"] in ("s", "f"):
            assert event["ts"] >= 0
            arrows[event["id"]].append(event["ph"])
        elif event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            names.add((event["name"], event["pid"], event["tid"]))
        else:
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert all(kinds == ["s", "f"] for kinds in arrows.values())
    for (pid, tid), spans in tracks.items():
        assert ("thread_name", pid, tid) in names
        ends: list[float] = []
        for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while ends and ends[-1] <= begin + 1:  # microseconds
                ends.pop()
            assert not ends or end <= ends[-1] + 1
            ends.append(end)


def named(document: Any, kind: str) -> list[str]:
    return [e["args"]["name"] for e in document["traceEvents"] if e["name"] == kind]


def complete(document: Any, name: str) -> list[dict[str, Any]]:
    return [e for e in document["traceEvents"] if e["ph"] == "X" and e["name"] == name]


def test_sessions_and_threads_have_tracks(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with (
        vknn.Session(model, device="numpy") as a,
        vknn.Session(model, device="numpy") as b,
    ):
        expected = a.run(FEED)["out"]
        with trace(file) as recorded:
            found = a.run(FEED)["out"]
            b.run(FEED)
            worker = threading.Thread(target=lambda: [a.run(FEED) for _ in range(3)], name="worker")
            worker.start()
            worker.join()
        a.run(FEED)
    np.testing.assert_array_equal(found, expected)
    assert recorded.runs == 5
    document = json.loads(file.read_text())
    check_format(document)
    assert len(named(document, "process_name")) == 2
    assert named(document, "thread_name").count("worker") == 1
    assert named(document, "thread_name").count("MainThread") == 2
    assert len(complete(document, "run")) == 5
    assert len(complete(document, "conv1")) == 5


@pytest.mark.device
def test_dispatches_are_on_the_queue_of_their_session(model: Path, tmp_path: Path) -> None:
    with vknn.Session(model, device="vulkan") as session:
        expected = session.run(FEED)["out"]
        with trace() as recorded:
            found = session.run(FEED)["out"]
            kept = session.run(FEED, on_device=True)["out"]
            assert isinstance(kept, vknn.DeviceTensor)
            streamed = list(session.stream([FEED, FEED]))
    document = recorded.to_trace()
    check_format(document)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(streamed[1]["out"], expected)
    assert recorded.runs == 4
    assert len(complete(document, "run")) == 3
    assert len(complete(document, "run (on the device)")) == 1
    assert [e["tid"] for e in complete(document, "conv1")] == [1, 1, 1]
    assert len(complete(document, "upload")) == 3
    arrows = [e for e in document["traceEvents"] if e["ph"] in ("s", "f")]
    submits = complete(document, "submit 0 and wait")
    begins = [e["ts"] for e in arrows if e["ph"] == "s"]
    assert begins == pytest.approx([e["ts"] for e in submits])
    first = complete(document, "data")
    assert [e["ts"] for e in arrows if e["ph"] == "f"] == pytest.approx([e["ts"] for e in first])


@pytest.mark.device
def test_counters_of_memory_and_speed(model: Path, tmp_path: Path) -> None:
    """The same from a profile and from its file: what buffers hold at each command, and GB/s."""
    result = vknn.profile(model, FEED, device="vulkan", runs=1)
    result.save(tmp_path / "a.vkprof")
    for trace_ in (
        result.to_trace(),
        vknn.profiling.Profile.load(tmp_path / "a.vkprof").to_trace(),
    ):
        check_format(trace_)
        values = defaultdict(list)
        for event in trace_["traceEvents"]:
            if event["ph"] == "C":
                values[event["name"]].append(event["args"][event["name"]])
        with vknn.Session(model, device="vulkan") as session:
            session.run(FEED)
            (plan,) = vknn.session.engine_of(session).program(FEED).plans
        held = held_in(plan)
        assert len(held) == len(plan.commands) > 3
        assert (
            0 < held.max() <= sum(n for role, n in plan.arenas.items() if role is not Role.WEIGHT)
        )
        assert values["memory (MB)"] == pytest.approx(held / 1e6, abs=1e-3)
        assert max(values["GB/s"]) > 0


def test_nothing_is_left_behind(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with vknn.Session(model, device="numpy") as session:

        def interrupted() -> None:
            with trace(file):
                session.run(FEED)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            interrupted()
        assert Watch.run is None
        check_format(json.loads(file.read_text()))
        with trace() as outer:
            with pytest.raises(VknnError, match="another trace"), trace():
                pass
            session.run(FEED)
        assert outer.runs == 1
        assert Watch.run is None


def test_a_run_that_fails_is_seen(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise VknnError("planted")

    with vknn.Session(model, device="numpy") as session:
        session.run(FEED)
        monkeypatch.setattr("vknn.reference.run", fails)
        with trace() as recorded, pytest.raises(VknnError, match="planted"):
            session.run(FEED)
    assert len(complete(recorded.to_trace(), "run, which failed")) == 1


def test_long_traces_end(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MAX_EVENTS", 40)
    with vknn.Session(model, device="numpy") as session, trace() as recorded:
        for _ in range(5):
            session.run(FEED)
    assert recorded.runs + recorded.left_out == 5
    assert 0 < recorded.runs < 5
    assert recorded.to_trace()["otherData"]["left_out"] == recorded.left_out
