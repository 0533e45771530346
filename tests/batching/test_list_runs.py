"""Session.run_many by stacked runs: which lists, what each input gets, and what is kept of it."""

from __future__ import annotations

import contextlib
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.batching.lists import FEW, Noted, array
from tests.formats.tflite import resource_nets
from tests.helpers import shared_device, skip_without_half
from tests.onnx_writer import graph, model, node, save, value

import vknn
from vknn.batching import GAIN, Stacker, list_runs
from vknn.profiling import trace
from vknn.session import engine_of
from vknn.tool_inputs import complete_feeds

BACKENDS = [pytest.param("auto", marks=pytest.mark.device), "numpy"]
MODELS = ("tflite/hello_world_float.tflite", "coreml/mnistCNN.mlmodel", "onnx/mnist_cntk.onnx")


def check(session: vknn.Session, items: list[Any], answers: list[Any]) -> None:
    """Each item's answer is near to what it gets alone."""
    assert len(answers) == len(items)
    for item, answer in zip(items, answers, strict=True):
        for name, right in session.run(item).items():
            np.testing.assert_allclose(answer[name], right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", BACKENDS)
def test_shapes_by_turns(device: str, path: Path, noted: Noted) -> None:
    """Answers are in order; what is left over of a shape fills a run in part."""
    items: list[Any] = [array(n, 5 + n % 2) for n in range(11)]
    items[3] = {"data": items[3]}
    with vknn.Session(path, device=device) as session:
        for given in (items, tuple(items)):
            answers = session.run_many(given, stacked=4)
            assert sorted(noted.taken()) == [1, 2, 4, 4]
            check(session, items, answers)
        session.run_many(items, stacked=1)
        session.run_many(iter(items), stacked=4)
        assert noted.taken() == []


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_in_every_place(name: str, device: str, shared: Path) -> None:
    """NaN in one of them changes no bit of the others, nor does where they stand."""
    with vknn.Session(shared / "models" / name, device=device) as session:
        items = [complete_feeds(session, seed=n) for n in range(6)]
        answers = session.run_many(items, stacked=4)
        spoiled: list[Any] = [items[5], *items[:5]]
        spoiled[2] = {n: np.nan * a if a.dtype.kind == "f" else ~a for n, a in items[1].items()}
        moved = session.run_many(spoiled, stacked=4)
    for number in (0, 2, 3, 4, 5):  # the spoiled one is number 1, at 2
        one, other = answers[number], moved[(number + 1) % 6]
        assert isinstance(one, dict) and isinstance(other, dict)
        for key, found in one.items():
            if isinstance(found, np.ndarray):
                assert found.tobytes() == other[key].tobytes()
            else:
                assert found == other[key]


@pytest.mark.parametrize("device", BACKENDS)
def test_arrays_that_come_twice(device: str, path: Path) -> None:
    """Results are the caller's own, each of them."""
    item = array(1)
    with vknn.Session(path, device=device) as session:
        answers = session.run_many([item] * 6, stacked=4)
        right = session.run(item)["out"]
        for answer in answers:
            assert isinstance(answer, dict)
            np.testing.assert_allclose(answer["out"], right, rtol=1e-4)
            answer["out"][...] = 0.0


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("device", BACKENDS)
def test_it_is_decided_once_for_each_shape(
    device: str, path: Path, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only by lists that are long enough; what was found holds for later ones."""
    measured = []

    def gain(self: Stacker, feeds: Any, fill: float = 1.0) -> float:
        measured.append(feeds["data"].shape[1])
        return 4.0 if measured[-1] == 5 else GAIN - 0.01

    monkeypatch.setattr(Stacker, "gain", gain)
    short = [array(n, 5 + n % 2) for n in range(2 * FEW - 2)]
    with vknn.Session(path, device=device) as session:
        check(session, short, session.run_many(short))
        assert engine_of(session).beside == [] and measured == [] and noted.taken() == []
        items = [array(n, 5 + n % 2) for n in range(2 * FEW)]
        check(session, items, session.run_many(items))
        assert measured == [5, 6] and noted.taken() == [8, FEW - 8]
        check(session, short, session.run_many(short))
        assert measured == [5, 6] and noted.taken() == [8, FEW - 9]
        session.run_many([array(n, 5) for n in range(8)])
        assert noted.taken() == [8]
        session.run_many([array(n, 5) for n in range(7)])
        session.run_many(items, stacked=1)
        assert noted.taken() == []
    with vknn.Session(path, device=device) as session:
        session.run_many(items)
        assert measured == [5, 6, 5, 6]


@pytest.mark.usefixtures("few")
def test_runs_that_would_be_half_empty(
    path: Path, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little gain is none where the last run is not full."""
    monkeypatch.setattr(Stacker, "gain", lambda *_: 1.5)
    items = [array(n) for n in range(16)]
    with vknn.Session(path, device="numpy") as session:
        for count, expected in ((16, [8, 8]), (9, []), (15, [8, 7]), (8, [8])):
            session.run_many(items[:count])
            assert noted.taken() == expected


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("device", BACKENDS)
def test_measured_in_earnest(device: str, path: Path, noted: Noted) -> None:
    """Whatever is faster here, the answers are right."""
    items = [array(n) for n in range(FEW)]
    with vknn.Session(path, device=device) as session:
        check(session, items, session.run_many(items))
        (stacker,) = engine_of(session).beside
        (gain,) = stacker.gains.values()
        assert gain >= 0.0 and stacker.known == {next(iter(stacker.gains)): True}
        stacked = [8, FEW - 8] if gain * FEW / 16 >= GAIN else []
        assert [n for n in noted.taken() if n > 1] == stacked  # the measurement's own have one each


def test_short_runs_are_not_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that take a second together are not; those that take five are, once."""
    monkeypatch.setattr(list_runs, "FEWEST", 10)
    monkeypatch.setattr(list_runs, "_times", lambda *_: (0.1, 0.1))
    measured = []
    monkeypatch.setattr(list_runs, "_measured", lambda *_: measured.append(1) or 0.0)
    items = [array(0)] * 51
    with vknn.Session(path, device="numpy") as session:
        session.run_many(items[:9])
        assert engine_of(session).beside == []
        session.run_many(items[:10])
        assert measured == [] and engine_of(session).beside[0].gains == {}
        session.run_many(items)
        session.run_many(items)
        assert measured == [1]


def test_a_program_that_takes_long_to_make(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what takes a driver longer to compile than a list may bring back."""
    measured = []
    monkeypatch.setattr(list_runs, "_measured", lambda *_: measured.append(1) or 0.0)
    monkeypatch.setattr(list_runs, "FEWEST", 10)
    items = [array(0)] * 10
    for made, expected in ((1.1, []), (0.9, [1])):
        monkeypatch.setattr(list_runs, "_times", lambda *_, made=made: (1.0, made))
        with vknn.Session(path, device="numpy") as session:
            session.run_many(items)
            assert measured == expected


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("device", BACKENDS)
def test_what_is_never_stacked(
    device: str, tmp_path: Path, path: Path, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stacker, "gain", lambda *_: 4.0)
    items: list[Any] = [array(n) for n in range(FEW)]
    with vknn.Session(path, device=device) as session:
        session.run_many(items, timeout=60.0)
        session.run_many(items, stacked=4, timeout=60.0)
        session.run_many(items, stacked=4, on_device=True)
        session.run_many([*items[:-1], items[0].tolist()], errors="raise")
        check(session, items, session.run_many([item.tolist() for item in items], stacked=4))
        with trace():
            session.run_many(items)
        assert noted.taken() == []
    monkeypatch.setenv("VKNN_TIMEOUT", "60")
    with vknn.Session(path, device=device) as session:
        session.run_many(items)
    monkeypatch.delenv("VKNN_TIMEOUT")
    monkeypatch.setenv("VKNN_DEBUG", "1")
    with vknn.Session(path, device=device) as session:
        session.run_many(items[:FEW])
    monkeypatch.delenv("VKNN_DEBUG")
    assert noted.taken() == []
    from tests.formats.openvino.test_memory import memories

    rows = [np.float32([[number, -number]]) for number in range(FEW)]
    with vknn.Session(memories("rw").save(tmp_path), device=device) as session:
        answers = session.run_many(rows, stacked=4)
        before = np.zeros((1, 2))
        for row, answer in zip(rows, answers, strict=True):
            assert isinstance(answer, dict)
            np.testing.assert_array_equal(answer["y"], np.concatenate([row, before], axis=1))
            before = row
    assert noted.taken() == []


@pytest.mark.parametrize("device", BACKENDS)
def test_signatures(device: str, noted: Noted) -> None:
    """Each has a stacker of its own; names and results are the signature's."""
    x, w = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([1, 2, 3])
    with vknn.Session(resource_nets.two_signatures(), device=device) as session:
        own: list[Any] = session.run_many([{"x:0": x * n, "w:0": w} for n in range(5)], stacked=4)
        items = [{"x": x * n, "w": w} for n in range(5)]
        product: list[Any] = session.run_many(items, stacked=4, signature="multiply")
        values = [np.float32([n, -n]) for n in range(5)]
        other: list[Any] = session.run_many(values, stacked=4, signature="other")
        assert noted.taken() == [4, 1] * 3
        for n in range(5):
            np.testing.assert_array_equal(own[n]["y:0"], x * n * w)
            np.testing.assert_array_equal(product[n]["y"], x * n * w)
            np.testing.assert_array_equal(other[n]["neg"], [-n, n])


@pytest.mark.device
def test_runs_on_a_device_in_16_bits(path: Path, noted: Noted) -> None:
    skip_without_half()
    items = [array(n) for n in range(6)]
    with vknn.Session(path, device=shared_device(), precision="fp16") as session:
        answers: list[Any] = session.run_many(items, stacked=4)
        assert noted.taken() == [4, 2]
        for item, answer in zip(items, answers, strict=True):
            np.testing.assert_allclose(answer["out"], session.run(item)["out"], atol=4e-3)


@pytest.mark.parametrize("device", BACKENDS)
def test_a_trace_sees_stacked_runs(device: str, path: Path) -> None:
    items = [array(n) for n in range(8)]
    with vknn.Session(path, device=device) as session:
        session.run_many(items, stacked=4)
        placement = session.placement
        with trace() as traced:
            check(session, items[:4], session.run_many(items[:4], stacked=4))
        assert traced.runs == 1 + 4  # those of the check are traced, too
        assert session.placement == placement


@pytest.mark.parametrize("device", BACKENDS)
def test_parts_on_the_host(device: str, tmp_path: Path, noted: Noted) -> None:
    nodes = [node("Relu", "x", "a"), node("Det", "a", "b"), node("Exp", "b")]
    net = model(graph(nodes, [value("x", (1, 3, 3))], [value("y", None)]))
    items = [array(n)[:1, :3, :3] for n in range(10)]
    with vknn.Session(save(net, tmp_path), device=device) as session:
        check(session, items, session.run_many(items, stacked=4))
        assert noted.taken() == [4, 4, 2]
        assert session.placement["b/Det"] == "host"
        (program,) = engine_of(session).beside[0]._stacked._programs.values()
        assert len(program.segments) == (1 if device == "numpy" else 3)


NO_NUMBERS = [0, -1, 257, 10**5000, True, 2.0, "2", [2]]


@pytest.mark.parametrize("given", NO_NUMBERS, ids=range(8))
def test_what_is_no_number_of_inputs(given: Any, path: Path) -> None:
    with vknn.Session(path, device="numpy") as session:
        for inputs in ([], iter([])):
            with pytest.raises(vknn.VknnError, match=r"stacked=.*: expected .* from 1 to 256"):
                session.run_many(inputs, stacked=given)
        assert session.run_many([array(1)], stacked=np.int64(2))  # type: ignore[arg-type]


def test_programs_of_one_number_at_a_time(path: Path) -> None:
    """Whoever tries numbers keeps the programs of the last one only."""
    items = [array(n) for n in range(8)]
    with vknn.Session(path, device="numpy") as session:
        for number in (2, 4, 8):
            session.run_many(items, stacked=number)
        held = [len(s._stacked._programs) for s in engine_of(session).beside]
        assert held == [0, 0, 1]


def test_nothing_of_a_closed_session_is_left(path: Path) -> None:
    """Nor of one that is gone, without a collector of garbage."""
    gc.disable()
    try:
        for is_closed in (True, False):
            session = vknn.Session(path, device="numpy")
            session.run_many([array(n) for n in range(8)], stacked=4)
            left = weakref.ref(session.model)
            if is_closed:
                session.close()
                with contextlib.suppress(vknn.VknnError):  # closed
                    session.run_many([array(n) for n in range(8)], stacked=2)
            del session
            assert left() is None
    finally:
        gc.enable()
