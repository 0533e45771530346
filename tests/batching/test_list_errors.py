"""Stacked runs of Session.run_many: errors, memory, and the ends of sessions and devices."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.batching.lists import FEW, Noted, array
from tests.helpers import shared_device
from tests.tflite_writer import Net
from tests.training import models
from tests.training.examples import points

import vknn
from vknn.batching import Stacker, list_runs
from vknn.item_stream import grouped
from vknn.session import engine_of

BACKENDS = [pytest.param("auto", marks=pytest.mark.device), "numpy"]


@pytest.fixture
def faster(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of FEW are long enough, and stacked runs are four times as fast."""
    monkeypatch.setattr(Stacker, "gain", lambda self, feeds, fill=1.0: 4.0 * self.takes([feeds]))


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Sets what happens when the second pack of a stacked stream is asked for."""
    todo: list[Callable[[], object]] = []
    stream = Stacker.stream

    def watched(self: Stacker, packs: Any, in_flight: int = 2) -> Generator[Any, None, None]:
        def each() -> Iterator[Any]:
            for number, pack in enumerate(packs):
                if number == 1 and todo:
                    todo.pop()()
                yield pack

        yield from stream(self, each(), in_flight)

    monkeypatch.setattr(Stacker, "stream", watched)
    return todo.append


def of_integers(folder: Path) -> Path:
    """Writes a model of x of four int4, -8 to 7, whose values are looked at; y: the same."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 4), "int4")], [net.tensor("y", (1, 4))]
    net.add("CAST", [0], [1], {})
    path = folder / "integers.tflite"
    path.write_bytes(net.file())
    return path


def check(session: vknn.Session, items: list[Any], answers: list[Any]) -> None:
    """Each item has what it gets alone, or its error."""
    assert len(answers) == len(items)
    for item, answer in zip(items, answers, strict=True):
        if isinstance(answer, dict):
            for name, value in session.run(item).items():
                np.testing.assert_allclose(answer[name], value, rtol=1e-4, atol=1e-6)
            continue
        with pytest.raises(vknn.VknnError) as caught:
            session.run(item)
        assert type(answer) is type(caught.value) and str(answer) == str(caught.value)
        assert answer.file == caught.value.file and answer.__traceback__ is None


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_errors_of_values_stay_with_their_items(
    device: str, in_flight: int, tmp_path: Path, noted: Noted
) -> None:
    """A run that fails by one of its inputs is followed by one for each."""
    items: list[Any] = [np.int8([[n - 8, 0, 1, 7]]) for n in range(14)]
    for number in (0, 5, 13):
        items[number] = items[number] + np.int8(100)
    items[7:7] = [np.int8([1]), {"z": items[1]}, {}, None]
    with vknn.Session(of_integers(tmp_path), device=device) as session:
        check(session, items, session.run_many(items, in_flight, stacked=4))
        assert noted.taken() == [4, 4, 4, 2]
        assert session.run_many(items[1:5], stacked=4, errors="raise")
        assert noted.taken() == [4]
        own = [item for item in items if isinstance(item, np.ndarray) and item.shape == (1, 4)]
        with pytest.raises(vknn.InputError) as caught:
            session.run_many(own[1:], stacked=4, errors="raise")
        assert str(caught.value) == str(session.run_many(own[5:6])[0])
        assert noted.taken() == [4, 4]


@pytest.mark.parametrize("stacked", [1, 2])
def test_a_raised_error_keeps_nothing(stacked: int, tmp_path: Path) -> None:
    """Once it is gone the session is, without a collector of garbage."""
    items = [np.int8([[n, 0, 1, 100 * (n == 3)]]) for n in range(5)]
    gc.disable()
    try:
        session = vknn.Session(of_integers(tmp_path), device="numpy")
        left = weakref.ref(session.model)
        with contextlib.suppress(vknn.InputError):
            session.run_many(items, stacked=stacked, errors="raise")
            pytest.fail("no error")
        del session
        assert left() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("device", BACKENDS)
def test_first_inputs_that_tell_nothing(device: str, tmp_path: Path, noted: Noted) -> None:
    """The first that can be computed decides; where many cannot, a later list does."""
    items = [np.int8([[n % 8, 0, 1, 7]]) for n in range(FEW)]
    with vknn.Session(of_integers(tmp_path), device=device) as session:
        bad = [item + np.int8(100) for item in items]
        check(session, bad, session.run_many(bad))
        assert engine_of(session).beside[0].gains == {} and noted.taken() == []
        mixed = [*bad[:2], *items[2:]]
        check(session, mixed, session.run_many(mixed))
        assert noted.taken() == [8, FEW - 8]


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("device", BACKENDS)
def test_stacked_runs_that_fail(
    device: str, path: Path, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is for the stacking, the rest of the list and later ones are run singly."""
    stream = Stacker.stream

    def failing(self: Stacker, packs: Any, in_flight: int = 2) -> Generator[Any, None, None]:
        for number, found in enumerate(stream(self, packs, in_flight)):
            yield vknn.OutOfMemoryError("full") if number == 1 else found

    items = [array(n) for n in range(40)]
    with vknn.Session(path, device=device) as session:
        with monkeypatch.context() as patch:
            patch.setattr(Stacker, "stream", failing)
            check(session, items, session.run_many(items))
        assert len(noted.taken()) < 5
        check(session, items, session.run_many(items))
        check(session, items, session.run_many(items, stacked=8))
        assert noted.taken() == []


@pytest.mark.parametrize("device", BACKENDS)
def test_no_memory_for_several(device: str, path: Path, noted: Noted) -> None:
    """What one run of one fits, and one of many does not, is run singly."""
    items = [array(n, 200) for n in range(6)]
    limit = "1500kB"
    with vknn.Session(path, device=device, memory_limit=limit) as session:
        session.run(items[0])
        with pytest.raises(vknn.OutOfMemoryError):
            session.run(array(0, 200 * 64))
        check(session, items, session.run_many(items, stacked=64))
        assert noted.taken() == []
    with vknn.Session(path, device=device) as session:
        session.run_many(items, stacked=64)
        assert noted.taken() == [6]


@pytest.mark.parametrize("device", BACKENDS)
def test_a_closed_session(device: str, path: Path, during: Any) -> None:
    items = [array(n) for n in range(20)]
    session = vknn.Session(path, device=device)
    during(session.close)
    for stacked in (4, 4, None):
        with pytest.raises(vknn.VknnError, match="closed"):
            session.run_many(items, stacked=stacked)
    session.close()


@pytest.mark.device
def test_a_closed_device(path: Path, during: Any) -> None:
    items = [array(n) for n in range(20)]
    with vknn.open_device(shared_device().name) as device, vknn.Session(path, device=device) as s:
        during(device.close)
        for _ in range(2):
            with pytest.raises(vknn.DeviceError, match="closed"):
                s.run_many(items, stacked=4)


@pytest.mark.parametrize("error", [vknn.DeviceLostError, vknn.ValidationError])
@pytest.mark.parametrize("method", ["takes", "stream"])
def test_errors_that_end_it(
    error: type[Exception], method: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are raised wherever they come: while it is found out, or behind it."""

    def failing(*_: Any) -> Any:
        raise error("vkWaitForFences")

    monkeypatch.setattr(Stacker, method if method == "stream" else "run", failing)
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(error, match="vkWaitForFences"),
    ):
        session.run_many([array(n) for n in range(8)], stacked=4)


@pytest.mark.parametrize("device", BACKENDS)
def test_cancel(device: str, path: Path, during: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a run, between two, and while it is found out; afterwards all is as before."""
    items = [array(n) for n in range(20)]
    with vknn.Session(path, device=device) as session:
        during(session.cancel)
        with pytest.raises(vknn.RunCancelledError):
            session.run_many(items, stacked=4)
        check(session, items, session.run_many(items, stacked=4))
    takes, same = Stacker.takes, Stacker._is_right
    with vknn.Session(path, device=device) as session:

        def told(self: Stacker, feeds: Any) -> bool:
            found = takes(self, feeds)
            session.cancel()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Stacker, "takes", told)
            with pytest.raises(vknn.RunCancelledError):
                session.run_many(items, stacked=4)

        def cut(self: Stacker, *_: Any) -> bool:
            raise vknn.RunCancelledError("the run was cancelled")

        with monkeypatch.context() as patch:
            patch.setattr(Stacker, "_is_right", cut)
            with pytest.raises(vknn.RunCancelledError):
                session.run_many([array(n, 5) for n in range(4)], stacked=4)
        assert Stacker._is_right is same
        session.run_many([array(n, 5) for n in range(4)], stacked=4)
        (stacker,) = engine_of(session).beside
        assert list(stacker.known.values()) == [True, True]


@pytest.mark.parametrize("stacked", [None, 1, 4])
def test_cancel_before_the_first_run(
    stacked: int | None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long list takes a while to look through."""
    with vknn.Session(path, device="numpy") as session:

        def told(items: Any) -> list[list[int]]:
            session.cancel()
            return grouped(items)

        monkeypatch.setattr(list_runs, "grouped", told)
        with pytest.raises(vknn.RunCancelledError):
            session.run_many([array(0)] * 8, stacked=stacked)


@pytest.mark.usefixtures("faster")
def test_a_cancelled_measurement_is_made_again(
    path: Path, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [array(n) for n in range(FEW)]
    with vknn.Session(path, device="numpy") as session:
        for error in (vknn.RunCancelledError("the run was cancelled"), KeyboardInterrupt()):
            with monkeypatch.context() as patch:

                def cut(*_: Any, e: BaseException = error) -> float:
                    raise e

                patch.setattr(Stacker, "gain", cut)
                with pytest.raises(type(error)):
                    session.run_many(items)
            assert noted.taken() == []
        session.run_many(items)
        assert noted.taken() == [8, FEW - 8]


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("device", BACKENDS)
def test_several_threads(device: str, path: Path) -> None:
    """Lists, single runs and streams of one session beside one another."""
    items: list[Any] = [array(n, 5 + n % 2) for n in range(3 * FEW)]
    failed: list[BaseException] = []
    with vknn.Session(path, device=device) as session:
        right = [session.run(item)["out"] for item in items]

        def work(kind: int) -> None:
            try:
                for _ in range(3):
                    if kind == 0:
                        answers: list[Any] = list(session.stream(items))
                    else:
                        answers = session.run_many(items, stacked=[None, 4, None, 8][kind])
                    for answer, one in zip(answers, right, strict=True):
                        np.testing.assert_allclose(answer["out"], one, rtol=1e-4, atol=1e-6)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(kind,)) for kind in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


@pytest.mark.usefixtures("faster")
@pytest.mark.device
def test_what_is_held_and_freed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session keeps its stacked programs; what does not pay is freed at once, all at its end."""
    items = [array(n) for n in range(FEW)]
    with vknn.open_device(shared_device().name) as device:
        free = device.memory_allocated
        with vknn.Session(path, device=device) as session:
            session.run_many(items, stacked=1)
            own = device.memory_allocated
            with monkeypatch.context() as patch:

                def small(self: Stacker, feeds: Any, fill: float = 1.0) -> float:
                    return 1.0 * self.takes([feeds])

                patch.setattr(Stacker, "gain", small)
                session.run_many(items)
            assert device.memory_allocated == own
            session.run_many(items, stacked=8)
            held = device.memory_allocated
            assert held > own
            session.run_many(items, stacked=8)
            assert device.memory_allocated == held
        assert device.memory_allocated == free


@pytest.mark.parametrize("device", BACKENDS)
def test_trained_weights(device: str, tmp_path: Path, noted: Noted) -> None:
    """Stacked runs behind a training have its weights."""
    data = points(8)
    items = [{"x": x} for x in data["x"]]
    with vknn.Session(models.written(models.regressor(), tmp_path), device=device) as session:
        before: list[Any] = session.run_many(items, stacked=4)
        session.update(data, epochs=2)
        after: list[Any] = session.run_many(items, stacked=4)
        assert noted.taken() == [4] * 4
        check(session, items, after)
        assert not np.allclose(before[0]["y"], after[0]["y"], rtol=1e-3)
