"""Two batches of a worker at once: one is read, or its answers made, while another is computed."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.scale.ray_workers import PATIENCE, ProcessEnded, RayProcess, Workplace, answers_of

from vknn.scale import idle_time
from vknn.scale.attempts import MOST_BATCH_DEATHS
from vknn.scale.idle_time import IdleTime
from vknn.scale.keeper import Keeper
from vknn.scale.killed import MOST_DEATHS
from vknn.scale.outcome import JobError
from vknn.scale.ray_batch import BatchReader, RayBatch
from vknn.scale.ray_worker import BatchActor
from vknn.scale.shares import ErrorBound

pa = pytest.importorskip("pyarrow")

#: The record at which processes end.
KILLER = 12


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    return Workplace(monkeypatch, lambda: tmp_path)


def keeper() -> Keeper:
    return Keeper(ErrorBound.of(None), None, rows=0, errors=0)


def table(*numbers: int) -> Any:
    return pa.table({"id": [f"r{number}" for number in numbers], "x": list(numbers)})


def waited(event: threading.Event) -> None:
    assert event.wait(PATIENCE), "the other thread waits, too"


def test_one_thread_reads_and_answers_while_another_computes(place: Workplace) -> None:
    actor = place.begun(keeper())
    process = place.process
    computing, read, computing_next = (threading.Event() for _ in range(3))
    order: list[str] = []

    def compute(numbers: list[int]) -> None:
        order.append(f"compute {numbers}")
        if numbers == [1, 2]:
            computing.set()
            waited(read)
        else:
            computing_next.set()
        order.append(f"computed {numbers}")

    def reading(number: int) -> None:
        if number == 3:
            waited(computing)
        elif number == 4:
            read.set()

    def answer(numbers: list[int]) -> None:
        if numbers == [1, 2]:
            waited(computing_next)

    process.compute, process.read, process.answer = compute, reading, answer
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(actor, table(1, 2))
        waited(computing)
        second = threads.submit(actor, table(3, 4))
        assert [row[0] for row in answers_of(first.result(PATIENCE))] == [2, 4]
        assert [row[0] for row in answers_of(second.result(PATIENCE))] == [6, 8]
    assert order == ["compute [1, 2]", "computed [1, 2]", "compute [3, 4]", "computed [3, 4]"]
    assert process.progress[1].waiting == 0.0, "it had work while the other batch was computed"


def test_batches_of_two_threads_are_told_one_after_another(place: Workplace) -> None:
    actor = place.begun(keeper())
    process = place.process
    busy = threading.Lock()

    def compute(numbers: list[int]) -> None:
        assert busy.acquire(blocking=False), "two threads compute at once"
        time.sleep(0.002)
        busy.release()

    process.compute = compute
    with ThreadPoolExecutor(2) as threads:
        tables = [table(n, n + 1) for n in range(0, 60, 2)]
        made = [answers_of(rows) for rows in threads.map(actor, tables)]
    for number, rows in enumerate(made):
        assert [row[0] for row in rows] == [4 * number, 4 * number + 2]
    assert len(process.messages) == 60
    for begun, ended in zip(process.messages[::2], process.messages[1::2], strict=True):
        assert (begun[0], ended[0], begun[1]) == ("begin", "end", ended[1])
    names = [progress.batch for progress in process.progress]
    assert [int(name.split("-")[-1]) for name in names] == list(range(1, 31))
    assert sorted(rows[0][2] for rows in made) == sorted(names), "each table has its own name"
    assert {progress.unsure for progress in process.progress} == {names[0]}


def finished(actor: BatchActor, tables: dict[str, Any]) -> dict[str, Any]:
    """Answers of the tables that were computed before the process ended."""
    with ThreadPoolExecutor(2) as threads:
        calls = {name: threads.submit(actor, own) for name, own in tables.items()}
    found = {}
    for name, call in calls.items():
        error = call.exception()
        assert isinstance(error, ProcessEnded | None), error
        if error is None:
            found[name] = answers_of(call.result())
    return found


@pytest.mark.parametrize("when", ["read", "run", "answer"])
def test_who_is_to_blame_for_the_end_of_two_batches(place: Workplace, when: str) -> None:
    """The first process ends while a good batch is computed; further ones do one at a time."""
    kept, left, rows = keeper(), {"good": table(1, 2), "bad": table(11, KILLER, 13)}, {}
    good: list[list[int]] = []
    for count in range(20):
        actor = place.begun(kept)
        process = place.process
        _end_at_killer(process, when, is_first=count == 0)
        rows |= finished(actor, left)
        left = {name: own for name, own in left.items() if name not in rows}
        good += [numbers for numbers in process.computed if numbers[0] < 10]
        if not left:
            break
    assert count == 2 * MOST_DEATHS, "as a batch, and by itself"
    assert all(numbers == [1, 2] for numbers in good), "a good batch is never taken apart"
    assert [row[:2] for row in rows["good"]] == [(2, None), (4, None)]
    (first, _, _), (_, error, _), (last, _, _) = rows["bad"]
    assert (first, last) == (22, 26)
    assert (error["type"], error["attempts"]) == ("ProcessDied", MOST_DEATHS)
    assert kept.state()["devices"]["uuid:1"]["deaths"] == count


def _end_at_killer(process: RayProcess, when: str, is_first: bool) -> None:
    """End of the process at the bad batch; in the first one the good batch is computed then."""
    computing, answering = threading.Event(), threading.Event()
    waits = is_first and when != "run"

    def compute(numbers: list[int]) -> None:
        if when == "run" and KILLER in numbers:
            process.end()
        if waits and numbers == [1, 2]:
            computing.set()
            waited(process.ended)
        process.check()

    def read(number: int) -> None:
        if when == "read" and number == KILLER:
            if is_first:
                waited(computing)
            process.end()
        if waits and when == "answer" and number == 2:  # the bad batch is computed before it
            waited(answering)

    def answer(numbers: list[int]) -> None:
        # A row that was given up has a table, too: of nothing that could end a process.
        if when == "answer" and KILLER in numbers and not given_up(process):
            answering.set()
            if is_first:
                waited(computing)
            process.end()

    process.compute, process.read, process.answer = compute, read, answer


def given_up(process: RayProcess) -> bool:
    """Whether the killer was not computed by the process."""
    return not any(KILLER in numbers for numbers in process.computed)


@pytest.mark.parametrize("when", ["rows", "behind"])
def test_batches_no_record_of_which_is_to_blame(
    place: Workplace, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends when the rows are got, or behind the batch: in the end the job does."""
    kept, read_rows = keeper(), BatchReader.rows

    def rows(self: BatchReader, batch: RayBatch) -> Any:
        if when == "rows" and KILLER in batch.table.column("x").to_pylist():
            place.process.end()
        return read_rows(self, batch)

    monkeypatch.setattr(BatchReader, "rows", rows)
    text, count = "", 0
    while not text and count < 20:
        actor = place.begun(kept)
        try:
            assert len(actor(table(1, 2))) == 2
            actor(table(11, KILLER))
        except ProcessEnded:
            pass
        except JobError as error:
            text = str(error)
        count += not text
    assert count == MOST_BATCH_DEATHS
    assert text == (
        f"{count} processes ended (killed) at a batch of 2 records, 'r11' to 'r12', and at none of "
        "them by itself: a smaller batch size may pass"
    )
    assert kept.state()["failure"] == text


def test_a_task_with_batches_that_end_processes(place: Workplace) -> None:
    """Ray gives all batches of a task again at each end: those before do not end it anew."""
    kept, tables = keeper(), [table(1, KILLER), table(2, KILLER + 10)]
    rows: list[Any] = []
    count = 0
    while not rows and count < 40:
        actor = place.begun(kept)
        place.process.compute = lambda numbers: place.process.end() if max(numbers) > 9 else None
        try:
            rows = [answers_of(actor(own)) for own in tables]
        except ProcessEnded:
            count += 1
    assert count == len(tables) * 2 * MOST_DEATHS
    assert [[error is None for _, error, _ in own] for own in rows] == [[True, False]] * 2


def test_the_end_while_answers_are_made(place: Workplace) -> None:
    """Nobody is blamed wrongly, and all of it is done again."""
    kept, tables = keeper(), {"first": table(1, 2), "second": table(3, 4)}
    actor = place.begun(kept)
    process = place.process
    computing = threading.Event()

    def compute(numbers: list[int]) -> None:
        if numbers == [3, 4]:
            computing.set()
            waited(process.ended)
            process.check()

    def answer(numbers: list[int]) -> None:
        waited(computing)
        process.end()

    def read(number: int) -> None:
        if number == 4:  # the other one is computed first
            end = time.monotonic() + PATIENCE
            while not process.computed and time.monotonic() < end:
                time.sleep(0.001)

    process.compute, process.answer, process.read = compute, answer, read
    assert finished(actor, tables) == {}
    again = place.begun(kept)
    rows = finished(again, tables)
    assert {name: [row[0] for row in own] for name, own in rows.items()} == {
        "first": [2, 4], "second": [6, 8],
    }  # fmt: skip
    assert sorted(place.process.computed) == [[1, 2], [3, 4]]
    assert kept.state()["devices"]["uuid:1"]["deaths"] == 1


def test_a_process_behind_one_that_ended_does_one_batch_at_a_time(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keeper()
    kept.arrive("w")
    actor = place.begun(kept)
    process = place.process
    busy = threading.Lock()
    inside: list[bool] = []

    def alone(_: Any) -> None:
        inside.append(busy.acquire(blocking=False))
        time.sleep(0.005)
        busy.release()

    def batch(self: BatchReader, *given: Any) -> RayBatch:
        alone(given)
        return identified(self, *given)

    identified = BatchReader.batch
    monkeypatch.setattr(BatchReader, "batch", batch)
    process.read = process.compute = process.answer = alone
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(actor, [table(n) for n in range(10)]))
    assert inside == [True] * 40


def test_an_error_of_one_batch_lets_the_other_go_on(place: Workplace) -> None:
    """The turn is given back: the other thread is told the same, and does not wait for ever."""
    kept = keeper()
    actor = place.begun(kept)
    begun = threading.Event()

    def compute(numbers: list[int]) -> None:
        begun.set()
        if numbers == [1]:
            raise JobError("enough")

    place.process.compute = compute
    with ThreadPoolExecutor(2) as threads:
        failing = threads.submit(actor, table(1))
        waited(begun)
        with pytest.raises(JobError, match="enough"):
            failing.result(PATIENCE)
        assert [r[0] for r in answers_of(threads.submit(actor, table(2)).result(PATIENCE))] == [4]


def test_time_without_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(idle_time, "time", SimpleNamespace(perf_counter=lambda: now))
    idle = IdleTime()
    now = 2.0
    one, two = idle.batch(), idle.batch()
    assert one.__enter__() == 2.0
    now = 3.0
    assert two.__enter__() == 0.0, "beside another"
    now = 4.0
    one.__exit__(None, None, None)
    now = 5.0
    with idle.batch() as waiting:
        assert waiting == 0.0
        two.__exit__(None, None, None)
        now = 9.0
    now = 9.5
    three = idle.batch()
    assert three.__enter__() == 0.5
    now = 10.0
    assert not three.__exit__(ValueError, ValueError("x"), None), "the error goes on"
    now = 11.0
    with idle.batch() as waiting:
        assert waiting == 1.0
