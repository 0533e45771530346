"""Loops, scans and maps over sequences: rounds that are run, and rounds that stand in one graph."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, sequence, value

from vknn import Session, VknnError, reference
from vknn.errors import OutOfMemoryError, RunCancelledError, RunTimeoutError, ShapeError
from vknn.formats.onnx import loop_runs
from vknn.graph import DType

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NUMBER, TRUTH = value("i", (), DType.INT64), value("c", (), DType.BOOL)
GOES_ON = node("Identity", "c", "c2")
C2 = value("c2", (), DType.BOOL)


def opened(message: Any, folder: Path, device: Any = "numpy") -> Session:
    return Session(save(message, folder), device=device)


def counted(body: Any, inputs: Any, outputs: Any, tensors: Any = None) -> Any:
    """A model of one Loop of M rounds from x to y and the stacked s."""
    nodes = [node("Loop", "M t x", "y s", body=body)]
    numbers = {"t": np.array(True), **(tensors or {})}
    return model(graph(nodes, [value("M", (), DType.INT64), *inputs], outputs, numbers))


def decaying() -> Any:
    """acc = acc * decay + i, with acc * decay stacked."""
    body = graph(
        [node("Mul", "acc decay", "m"), node("Cast", "i", "f", to=1), node("Add", "m f", "acc2"),
         GOES_ON],
        [NUMBER, TRUTH, value("acc", (5,))],
        [C2, value("acc2", (5,)), value("m", (5,))],
    )  # fmt: skip
    outputs = [value("y", (5,)), value("s", None)]
    return counted(body, [value("x", (5,))], outputs, {"decay": np.float32([0.5])})


def programs(session: Session) -> int:
    """How many programs a session's last run took, those of loops and of their bodies."""

    def below(program: Any) -> int:
        return 1 + sum(map(below, program.subprograms))

    return sum(map(below, session._engine._programs.values()))


def test_a_body_is_planned_once(tmp_path: Path, device: Any) -> None:
    x = np.arange(5, dtype=np.float32)
    counts = []
    with opened(decaying(), tmp_path, device) as session:
        for rounds in (1, 40, 1000):
            found = session.run({"M": np.int64(rounds), "x": x})
            wanted, halves = x, []
            for number in range(rounds):
                halves.append(wanted * np.float32(0.5))
                wanted = halves[-1] + np.float32(number)
            assert np.allclose(found["y"], wanted, rtol=1e-6)
            assert np.allclose(found["s"], np.stack(halves), rtol=1e-6)
            counts.append(programs(session))
        found = session.run({"M": np.int64(0), "x": x})
        assert np.array_equal(found["y"], x)
        assert found["s"].shape == (0, 5) and found["s"].dtype == np.float32
        found = session.run({"M": np.int64(-3), "x": x})
        assert np.array_equal(found["y"], x)
    assert counts == [2, 2, 2]


@pytest.mark.long
def test_ten_thousand_rounds_take_seconds(tmp_path: Path) -> None:
    with opened(decaying(), tmp_path) as session:
        start = time.perf_counter()
        found = session.run({"M": np.int64(10_000), "x": np.zeros(5, np.float32)})
        assert time.perf_counter() - start < 20
    assert found["s"].shape == (10_000, 5)


def test_the_reference_keeps_a_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    build = loop_runs.LoopRun._graph
    monkeypatch.setattr(
        loop_runs.LoopRun, "_graph", lambda self, given: made.append(1) or build(self, given)
    )
    with opened(decaying(), tmp_path) as session:
        feeds = {"M": np.asarray(9, np.int64), "x": np.ones(5, np.float32)}
        found = reference.run(session._engine.graph(feeds), feeds)
    assert len(made) == 1
    assert found["s"].shape == (9, 5)


def test_short_loops_are_part_of_the_graph(tmp_path: Path) -> None:
    message = decaying()
    del message.graph.input[0]
    message.graph.initializer.add(name="M", data_type=7, int64_data=[3])
    with opened(message, tmp_path) as session:
        assert session._engine.graph({"x": np.ones(5, np.float32)}).continuation is None
        found = session.run({"x": np.ones(5, np.float32)})
    assert found["y"].tolist() == [2.625] * 5
    message.graph.initializer[-1].int64_data[0] = 3000
    with opened(message, tmp_path) as session:
        assert session._engine.graph({"x": np.ones(5, np.float32)}).continuation is not None
        assert session.run({"x": np.ones(5, np.float32)})["s"].shape == (3000, 5)


def growing(rounds: str) -> Any:
    """A tensor that is twice as long after each round."""
    body = graph(
        [node("Concat", "v v", "w", axis=0), node("Shape", "w", "n"), GOES_ON],
        [NUMBER, TRUTH, value("v", ("n",))],
        [C2, value("w", ("m",)), value("n", (1,), DType.INT64)],
    )
    nodes = [node("Loop", f"{rounds} t x", "y s", body=body)]
    outputs = [value("y", None), value("s", None, DType.INT64)]
    inputs = [value("M", (), DType.INT64), value("x", ("k",))]
    return model(graph(nodes, inputs, outputs, {"t": np.array(True), "five": np.int64(5)}))


@pytest.mark.parametrize("rounds", ["M", "five"])
def test_growing_values(rounds: str, tmp_path: Path, device: Any) -> None:
    with opened(growing(rounds), tmp_path, device) as session:
        for size in (1, 3):
            x = np.arange(size, dtype=np.float32)
            found = session.run({"M": np.int64(5), "x": x})
            assert np.array_equal(found["y"], np.tile(x, 32))
            assert found["s"].reshape(-1).tolist() == [size * 2**k for k in range(1, 6)]


@pytest.mark.long
def test_values_that_grow_without_end(tmp_path: Path) -> None:
    with opened(growing("M"), tmp_path) as session, pytest.raises(VknnError, match="limit of|free"):
        session.run({"M": np.int64(60), "x": np.ones(3, np.float32)})


def test_stacked_results_that_take_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_runs, "CHECKED_FROM", 512)
    with Session(save(decaying(), tmp_path), device="numpy", memory_limit=1000) as session:
        with pytest.raises(
            OutOfMemoryError, match="results of 52 rounds are kept: 1040 bytes .*1000"
        ):
            session.run({"M": np.int64(1000), "x": np.ones(5, np.float32)})
        session.run({"M": np.int64(30), "x": np.ones(5, np.float32)})


def test_nested_loops_and_captures(tmp_path: Path, device: Any) -> None:
    inner = graph(
        [node("Add", "w x", "a"), node("Mul", "a scale", "w2"), GOES_ON],
        [NUMBER, TRUTH, value("w", (2, 3))], [C2, value("w2", (2, 3))],
    )  # fmt: skip
    outer = graph(
        [node("Add", "v one", "v1"), node("Loop", "N t v1", "v2", body=inner),
         node("ReduceSum", "v2", "sum", keepdims=0), node("Less", "sum most", "c2")],
        [NUMBER, TRUTH, value("v", (2, 3))], [C2, value("v2", (2, 3)), value("sum", ())],
    )  # fmt: skip
    nodes = [node("Neg", "z", "x"), node("Loop", "- t z", "y s", body=outer)]
    tensors = {"t": np.array(True), "scale": np.float32(0.5), "one": np.float32(1),
               "most": np.float32(-4)}  # fmt: skip
    inputs = [value("z"), value("N", (), DType.INT64)]
    message = model(graph(nodes, inputs, [value("y"), value("s", None)], tensors))
    with opened(message, tmp_path, device) as session:
        for count in (0, 1, 3):
            z = -X
            found = session.run({"z": z, "N": np.int64(count)})
            v, sums = z, []
            for _ in range(1000):
                v = v + np.float32(1)
                for _ in range(count):
                    v = (v - z) * np.float32(0.5)
                sums.append(v.sum())
                if not sums[-1] < -4:
                    break
            assert np.allclose(found["y"], v, rtol=1e-5)
            assert np.allclose(found["s"], sums, rtol=1e-5)


def test_a_branch_inside_of_a_loop(tmp_path: Path, device: Any) -> None:
    ends = [value("h", (), DType.INT64)]
    half = graph([node("Div", "v two", "h")], outputs=ends)
    more = graph([node("Mul", "v three", "h3"), node("Add", "h3 one", "h")], outputs=ends)
    body = graph(
        [node("Mod", "v two", "odd"), node("Equal", "odd zero", "even"),
         node("If", "even", "v2", then_branch=half, else_branch=more),
         node("Equal", "v2 one", "done"), node("Not", "done", "c2")],
        [NUMBER, TRUTH, value("v", (), DType.INT64)],
        [C2, value("v2", (), DType.INT64), value("v2", (), DType.INT64)],
    )  # fmt: skip
    tensors = {"t": np.array(True), "two": np.int64(2), "three": np.int64(3),
               "one": np.int64(1), "zero": np.int64(0)}  # fmt: skip
    nodes = [node("Loop", "- t x", "y s", body=body)]
    outputs = [value("y", (), DType.INT64), value("s", None, DType.INT64)]
    message = model(graph(nodes, [value("x", (), DType.INT64)], outputs, tensors))
    with opened(message, tmp_path, device) as session:
        found = session.run({"x": np.asarray(27, np.int64)})
    assert found["y"] == 1
    assert len(found["s"]) == 111 and found["s"].max() == 9232


def test_data_that_a_round_of_a_short_loop_waits_for(tmp_path: Path, device: Any) -> None:
    """The loop is run from the round on that waits, and what follows finds its results."""
    body = graph(
        [node("NonZero", "v", "places"), node("Shape", "places", "sp"),
         node("Gather", "sp last", "count"), node("Cast", "count", "cf", to=1),
         node("Sub", "v cf", "w"), GOES_ON],
        [NUMBER, TRUTH, value("v", (4,))],
        [C2, value("w", (4,)), value("count", (1,), DType.INT64)],
    )  # fmt: skip
    nodes = [node("Loop", "M t x", "u s", body=body), node("Add", "u x", "y")]
    tensors = {"t": np.array(True), "M": np.int64(3), "last": np.int64([1])}
    message = model(graph(nodes, [value("x", (4,))],
                          [value("y", (4,)), value("s", None, DType.INT64)], tensors))  # fmt: skip
    with opened(message, tmp_path, device) as session:
        x = np.float32([0, 4, 7, 11])
        found = session.run({"x": x})
    w, counts = x, []
    for _ in range(3):
        counts.append([int(np.count_nonzero(w))])
        w = w - counts[-1][0]
    assert found["s"].tolist() == counts
    assert np.array_equal(found["y"], w + x)


def test_sequences_that_are_carried(tmp_path: Path, device: Any) -> None:
    """One that grows at its end leaves the body's graph as it is; others are planned by length."""
    body = graph(
        [node("Mul", "v v", "w"), node("SequenceInsert", "list w", "list2"),
         node("SequenceInsert", "front w zero", "front2"), GOES_ON],
        [NUMBER, TRUTH, value("v", (3,)), sequence("list"), sequence("front")],
        [C2, value("w", (3,)), sequence("list2"), sequence("front2")],
    )  # fmt: skip
    nodes = [
        node("SequenceEmpty", "", "e"), node("SequenceConstruct", "x", "f"),
        node("Loop", "M t x e f", "v s f2", body=body),
        node("ConcatFromSequence", "s", "y", axis=0, new_axis=1),
        node("SequenceAt", "f2 zero", "first"), node("SequenceLength", "f2", "n"),
    ]  # fmt: skip
    inputs = [value("M", (), DType.INT64), value("x", (3,))]
    outputs = [sequence("s"), value("y", None), value("first", None), value("n", (), DType.INT64)]
    tensors = {"t": np.array(True), "zero": np.int64(0)}
    with opened(model(graph(nodes, inputs, outputs, tensors)), tmp_path, device) as session:
        x = np.float32([1, -1, 0.5])
        for rounds in (4, 1):
            found = session.run({"M": np.int64(rounds), "x": x})
            wanted = [x ** (2 ** (k + 1)) for k in range(rounds)]
            assert np.allclose(found["y"], wanted)
            assert isinstance(found["s"], list) and len(found["s"]) == rounds
            assert np.allclose(found["first"], wanted[-1])
            assert found["n"] == rounds + 1


def test_a_sequence_of_thousands_of_elements(tmp_path: Path) -> None:
    body = graph(
        [node("Cast", "i", "f", to=1), node("SequenceInsert", "list f", "list2"), GOES_ON],
        [NUMBER, TRUTH, sequence("list")], [C2, sequence("list2")],
    )  # fmt: skip
    nodes = [
        node("SequenceEmpty", "", "e"), node("Loop", "M t e", "s", body=body),
        node("ConcatFromSequence", "s", "y", axis=0, new_axis=1),
    ]  # fmt: skip
    message = model(graph(nodes, [value("M", (), DType.INT64)], [value("y", None)],
                          {"t": np.array(True)}))  # fmt: skip
    with opened(message, tmp_path) as session:
        found = session.run({"M": np.int64(2000)})["y"]
        assert np.array_equal(found, np.arange(2000, dtype=np.float32))
        assert programs(session) == 3  # the first, the body, and what follows


def endless(condition: Any) -> Any:
    body = graph(
        [node("Add", "v v", "w"), condition], [NUMBER, TRUTH, value("v", ())], [C2, value("w", ())]
    )
    nodes = [node("Loop", "M t x", "y", body=body)]
    tensors = {"t": np.array(True)}
    return model(
        graph(nodes, [value("M", (), DType.INT64), value("x", ())], [value("y", ())], tensors)
    )


def test_loops_without_end(tmp_path: Path, device: Any) -> None:
    always = endless(node("Identity", "t", "c2"))
    always.graph.node[0].input[0] = ""
    with (
        opened(always, tmp_path, device) as session,
        pytest.raises(ShapeError, match="cannot end: its condition is always true"),
    ):
        session.run({"M": np.int64(1), "x": np.float32(1)})


def test_limits_of_runs_hold_inside_of_loops(tmp_path: Path, device: Any) -> None:
    message = endless(node("Identity", "c", "c2"))
    most = np.asarray(9_000_000, np.int64)
    with opened(message, tmp_path, device) as session:
        session.run({"M": np.int64(3), "x": np.float32(1)})
        start = time.perf_counter()
        with pytest.raises(RunTimeoutError):
            session.run({"M": most, "x": np.float32(1)}, timeout=0.3)
        threading.Timer(0.3, session.cancel).start()
        with pytest.raises(RunCancelledError):
            session.run({"M": most, "x": np.float32(1)})
        assert time.perf_counter() - start < 20
        assert session.run({"M": np.int64(3), "x": np.float32(1)})["y"] == 8


@pytest.mark.parametrize(
    ("nodes", "outputs", "text"),
    [
        ([node("Concat", "v v", "c2", axis=0)], [value("c2"), value("v")], "condition"),
        ([node("Cast", "i", "c2", to=1)], [value("c2"), value("v")], "condition float32"),
        (
            [GOES_ON, node("Concat", "v v", "w", axis=0)],
            [C2, value("w"), value("w")],
            "stacks|differ",
        ),
    ],
)
def test_bodies_that_do_not_fit(nodes: Any, outputs: Any, text: str, tmp_path: Path) -> None:
    body = graph(nodes, [NUMBER, TRUTH, value("v", None)], outputs)
    wanted = "y s" if len(outputs) > 2 else "y"
    for limit in ("M", "three"):
        loop = node("Loop", f"{limit} t x", wanted, body=body)
        tensors = {"t": np.array(True), "three": np.int64(3)}
        message = model(graph([loop], [value("M", (), DType.INT64), value("x")],
                              [value(n, None) for n in wanted.split()], tensors))  # fmt: skip
        with (
            opened(message, tmp_path) as session,
            pytest.raises(ShapeError, match=text),
        ):
            session.run({"M": np.int64(3), "x": X})


def test_random_draws_of_rounds(tmp_path: Path, device: Any) -> None:
    """Rounds draw other numbers each, and with a seed the same ones in each session."""
    draw = node("RandomUniform", "", "r", shape=[3], seed=7.0)
    body = graph([draw, node("Add", "v r", "w"), GOES_ON], [NUMBER, TRUTH, value("v", (3,))],
                 [C2, value("w", (3,)), value("r", (3,))])  # fmt: skip
    nodes = [node("Loop", "M t x", "y s", body=body), node("RandomUniform", "", "z", shape=[3])]
    inputs = [value("M", (), DType.INT64), value("x", (3,))]
    outputs = [value("y", None), value("s", None), value("z", None)]
    message = model(graph(nodes, inputs, outputs, {"t": np.array(True)}))
    feeds, found = {"M": np.int64(4), "x": np.zeros(3, np.float32)}, []
    for _ in range(2):
        with opened(message, tmp_path, device) as session:
            found += [session.run(feeds)["s"] for _ in range(2)]
    assert len(np.unique(found[0])) == 12
    assert not np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])
