"""Session.stream and run_many: errors in the places of their items, runs in flight, memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.test_memory import memories
from tests.helpers import shared_device
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.plan import Role
from vknn.runtime.host_io import HostIO
from vknn.streamed_runs import StreamedRuns

BACKENDS = [pytest.param("auto", marks=pytest.mark.device), "numpy"]
#: The second output is the input, the first the device's.
PASSED = "7767517\n3 4\nInput data 0 1 data 0=7\nSplit two 1 2 data a b\nSoftmax prob 1 1 a prob\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_small_model(tmp_path)


def array(seed: int, size: int = SHAPE[1]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((3, size, 8), np.float32)


def bad_items() -> list[Any]:
    """What is no input of the small model, each for a reason of its own."""
    return [
        {},
        None,
        5,
        {"data": array(1), "more": array(1)},
        {"data": np.zeros((3, 7), np.float32)},
        {"data": np.zeros((4, 8, 8), np.float32)},
        {"data": np.full(SHAPE, "text")},
    ]


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("in_flight", [1, 2, 3, 8])
def test_errors_take_the_places_of_their_items(device: str, in_flight: int, path: Path) -> None:
    """Between good ones, one behind another, first and last; other shapes among them."""
    bad = bad_items()
    items: list[Any] = [bad[0], array(0), bad[1], bad[2], bad[3], array(1), array(2), array(3, 5)]
    items += [bad[4], array(4, 5), array(5), array(6), bad[5], array(7), bad[6]]
    with vknn.Session(path, device=device) as session:
        for answers in (list(session.stream(items, in_flight)), session.run_many(items, in_flight)):
            assert len(answers) == len(items)
            for item, answer in zip(items, answers, strict=True):
                if isinstance(item, np.ndarray):
                    np.testing.assert_array_equal(answer["out"], session.run(item)["out"])
                else:
                    with pytest.raises(vknn.VknnError) as caught:
                        session.run(item)
                    assert type(answer) is type(caught.value)
                    assert str(answer) == str(caught.value)
                    assert answer.file == str(path)


@pytest.mark.parametrize("device", BACKENDS)
def test_raised_errors_end_it(device: str, path: Path) -> None:
    taken = []

    def source() -> Iterator[Any]:
        for number in range(9):
            taken.append(number)
            yield {} if number == 2 else array(number)

    with vknn.Session(path, device=device) as session:
        stream = session.stream(source(), 3, errors="raise")
        assert [len(next(stream)) for _ in range(2)] == [1, 1]
        with pytest.raises(vknn.InputError, match="missing input 'data'"):
            next(stream)
        assert taken == [0, 1, 2] and next(stream, None) is None
        with pytest.raises(vknn.InputError, match="missing input 'data'"):
            session.run_many(source(), errors="raise")


@pytest.mark.parametrize("error", [vknn.InputError, vknn.DeviceError, OSError])
def test_errors_of_the_source_end_it(error: type[Exception], path: Path) -> None:
    def source() -> Iterator[Any]:
        yield from (array(0), {}, array(1))
        raise error("no more of them")

    with vknn.Session(path, device="numpy") as session:
        stream = session.stream(source())
        found = [next(stream) for _ in range(3)]
        assert isinstance(found[1], vknn.InputError)
        with pytest.raises(error, match="no more of them"):
            next(stream)
        with pytest.raises(error, match="no more of them"):
            session.run_many(source())


@pytest.mark.parametrize("device", BACKENDS)
def test_a_returned_error_keeps_no_array(device: str, path: Path) -> None:
    kept = []

    def source() -> Iterator[Any]:
        for _ in range(3):
            x = np.zeros((3, 7), np.float32)
            kept.append(weakref.ref(x))
            yield {"data": x}
            del x

    with vknn.Session(path, device=device) as session:
        answers = session.run_many(source())
        assert len(answers) == 3 and [each() for each in kept] == [None] * 3


NO_NUMBERS = [0, -1, 9, 10**5000, -(10**5000), True, 2.0, "2", None, [2]]


@pytest.mark.parametrize("given", NO_NUMBERS, ids=range(10))
def test_what_is_no_number_of_runs(given: Any, path: Path) -> None:
    with vknn.Session(path, device="numpy") as session:
        for many in (lambda: list(session.stream([], given)), lambda: session.run_many([], given)):
            with pytest.raises(vknn.VknnError, match=r"in_flight=.*: expected .* from 1 to 8"):
                many()
        assert session.run_many([array(1)], np.int64(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["ignore", "", None, True, ["return"], np.zeros(2)])
def test_what_is_no_way_with_errors(given: Any, path: Path) -> None:
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.VknnError, match="errors=.*: expected 'return' or 'raise'"),
    ):
        session.run_many([array(1)], errors=given)


@pytest.mark.parametrize("given", [None, 5, "data", b"data", {"data": array(1)}])
def test_one_input_is_not_many(given: Any, path: Path) -> None:
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.InputError, match="run_many takes an iterable of inputs, a dict for"),
    ):
        session.run_many(given)


def consumed(session: vknn.Session, in_flight: int) -> tuple[int, int]:
    """Items that are taken behind the first, which runs by itself, before the second answer, and
    bytes of the device that it takes."""
    taken, before = 0, session.device.memory_allocated  # type: ignore[union-attr]

    def source() -> Iterator[Any]:
        nonlocal taken
        for taken in range(1, 20):
            yield array(taken)

    stream = session.stream(source(), in_flight)
    next(stream)
    assert (taken, session.device.memory_allocated) == (1, before)  # type: ignore[union-attr]
    answer = next(stream)
    held = session.device.memory_allocated - before  # type: ignore[union-attr]
    np.testing.assert_array_equal(answer["out"], session.run(array(2))["out"])  # type: ignore
    stream.close()
    return taken - 1, held


@pytest.mark.device
def test_runs_in_flight(path: Path) -> None:
    with vknn.Session(path, device=shared_device()) as session:
        session.run(array(0))
        assert consumed(session, 1) == (1, 0)
        sets = [consumed(session, count) for count in (2, 3, 8)]
        assert [taken for taken, _ in sets] == [2, 3, 8]
        assert 0 < sets[0][1] < sets[1][1] < sets[2][1]


@pytest.mark.device
def test_shapes_that_change_all_the_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are recorded for one shape twice, not for each change; many of one shape get theirs."""
    begun = []
    begin = StreamedRuns.begin

    def noted(self: StreamedRuns) -> None:
        begun.append(self.program)
        begin(self)

    monkeypatch.setattr(StreamedRuns, "begin", noted)
    with vknn.Session(path, device=shared_device()) as session:
        session.run_many(array(number, 4 + number % 3) for number in range(20))
        assert begun == []
        items = [array(number, 5 + number // 2 % 2) for number in range(20)]
        for item, answer in zip(items, session.run_many(iter(items)), strict=True):
            np.testing.assert_array_equal(answer["out"], session.run(item)["out"])  # type: ignore
        assert len(begun) == 1
        session.run_many(iter([*items, *items[:1] * 40]))
        assert len(begun) == 3


@pytest.mark.parametrize("device", BACKENDS)
def test_shapes_of_a_list_are_grouped(
    device: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shape's program is used once; answers and errors are in the order of the list."""
    changes = []
    change = StreamedRuns.change

    def noted(self: StreamedRuns, program: Any) -> None:
        changes.append(program)
        change(self, program)

    monkeypatch.setattr(StreamedRuns, "change", noted)
    bad = bad_items()
    items: list[Any] = [array(number, 4 + number % 5) for number in range(20)]
    items[7:7] = bad
    with vknn.Session(path, device=device) as session:
        for given in (items, tuple(items)):
            changes.clear()
            answers = session.run_many(given)
            assert len(changes) == 5 and len(answers) == len(items)
            for item, answer in zip(items, answers, strict=True):
                if isinstance(item, np.ndarray):
                    np.testing.assert_array_equal(answer["out"], session.run(item)["out"])
                else:
                    assert isinstance(answer, vknn.InputError)
        changes.clear()
        session.run_many(items[:7], errors="raise")
        assert len(changes) == 7, "the first error in the list is the one that is raised"


@pytest.mark.device
def test_fewer_runs_are_in_flight_where_the_limit_is_near(path: Path) -> None:
    with vknn.Session(path, device=shared_device()) as session:
        arenas = session._engine.program({"data": array(0)}).plans[0].arenas
    ports, needed = arenas[Role.INPUT] + arenas[Role.OUTPUT], sum(arenas.values())
    if not shared_device().limits.unified_memory:
        ports *= 2
    for sets, expected in ((0, 1), (1, 1), (2, 2), (3, 3), (7, 7), (9, 8)):
        limit = needed + sets * ports
        with vknn.Session(path, device=shared_device(), memory_limit=limit) as session:
            session.run(array(0))
            taken, held = consumed(session, 8)
            assert taken == expected and (held > 0) == (expected > 1)


@pytest.mark.parametrize("device", BACKENDS)
def test_one_shape_too_large_for_memory(device: str, path: Path) -> None:
    items = [array(0), array(1, 5000), array(2), array(3, 5), array(4, 5000)]
    with vknn.Session(path, device=device, memory_limit="2MB") as session:
        answers = session.run_many(items)
        for item, answer in zip(items, answers, strict=True):
            if len(item[0]) == 5000:
                assert isinstance(answer, vknn.OutOfMemoryError) and answer.file == str(path)
            else:
                np.testing.assert_array_equal(answer["out"], session.run(item)["out"])  # type: ignore


@pytest.mark.parametrize("device", BACKENDS)
def test_errors_leave_the_state_alone(device: str, tmp_path: Path) -> None:
    """The second half of each output is the input of the last run that was one."""
    rows = [np.float32([[number, -number]]) for number in range(1, 5)]
    items = [rows[0], {"x": rows[0][0]}, rows[1], {}, rows[2], {"y": rows[0]}, rows[3]]
    with vknn.Session(memories("rw").save(tmp_path), device=device) as session:
        answers = [answer for answer in session.run_many(items) if isinstance(answer, dict)]
        before = np.zeros((1, 2))
        for row, answer in zip(rows, answers, strict=True):
            np.testing.assert_array_equal(answer["y"], np.concatenate([row, before], axis=1))
            before = row


@pytest.mark.device
@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_closed_device_ends_it(in_flight: int, path: Path) -> None:
    with vknn.open_device(shared_device().name) as device, vknn.Session(path, device=device) as s:
        stream = s.stream((array(number) for number in range(100)), in_flight)
        next(stream)
        device.close()
        with pytest.raises(vknn.DeviceError, match="closed"):
            list(stream)
        with pytest.raises(vknn.DeviceError, match="closed"):
            s.run_many([array(0)], in_flight)


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_closed_session_ends_it(device: str, in_flight: int, path: Path) -> None:
    with vknn.Session(path, device=device) as session:
        stream = session.stream((array(number) for number in range(100)), in_flight)
        next(stream)
    with pytest.raises(vknn.VknnError, match="closed"):
        list(stream)
    with pytest.raises(vknn.VknnError, match="closed"):
        session.run_many([array(0)], in_flight)


@pytest.mark.device
@pytest.mark.parametrize("failing", range(5))
def test_results_that_cannot_be_read(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs behind one whose results are lost keep their own, inputs passed on among them."""
    path, count = tmp_path / "passed.param", 0
    path.write_text(PASSED)
    path.with_suffix(".bin").write_bytes(b"")
    load = HostIO.load

    def broken(self: HostIO, *args: Any) -> Any:
        nonlocal count
        count += 1
        if count == failing + 1:
            raise MemoryError("no room for results")
        return load(self, *args)

    items = [{"data": np.arange(7, dtype=np.float32) * number} for number in range(5)]
    with vknn.Session(path, device=shared_device()) as session:
        expected = [session.run(item) for item in items]
        assert set(expected[0]) == {"b", "prob"}
        monkeypatch.setattr(HostIO, "load", broken)
        answers: list[Any] = session.run_many(items, 3)
    for number, (answer, want) in enumerate(zip(answers, expected, strict=True)):
        if number == failing:
            assert isinstance(answer, vknn.OutOfMemoryError)
            assert "no room for results" in str(answer) and answer.file == str(path)
        else:
            for name in want:
                np.testing.assert_array_equal(answer[name], want[name])
