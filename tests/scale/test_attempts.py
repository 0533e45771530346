"""Attempts of batches: notes that outlive processes, few messages, and the keeper's account."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vknn.scale import keeper_link
from vknn.scale.attempt_note import AttemptNote
from vknn.scale.keeper import BatchProgress, Keeper
from vknn.scale.keeper_link import KeeperLink
from vknn.scale.shares import ErrorBound

#: A process that ends right behind its note.
KILLED = """
import os, signal, sys
from pathlib import Path
from vknn.scale.attempt_note import AttemptNote

note = AttemptNote("w", Path(sys.argv[1]))
note.begin("w:before")
if sys.argv[2] == "busy":
    note.begin("w:now")
    note.begin("w:next")
note.end("w:before")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("state", "noted"), [("busy", ["w:now", "w:next"]), ("idle", [])])
def test_a_note_outlives_its_process(tmp_path: Path, state: str, noted: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), state], check=False)
    assert done.returncode == -signal.SIGKILL
    note = AttemptNote("w", tmp_path)
    assert AttemptNote("other", tmp_path).taken() is None
    assert note.taken() == noted
    assert note.taken() is None and not list(tmp_path.iterdir()), "it is there once"


def test_a_note_of_a_process_that_ends_well(tmp_path: Path) -> None:
    note = AttemptNote("../w", tmp_path)
    assert note.begin("k") and note.begin("k2")
    assert [path.name for path in tmp_path.iterdir()] == ["vknn-batch-___w"]
    note.close()
    note.close()
    note.end("k")
    assert not list(tmp_path.iterdir())


def test_notes_that_cannot_be_written(tmp_path: Path) -> None:
    """The worker waits for the keeper then; what others put there is not written to, nor read."""
    assert not AttemptNote("w", tmp_path / "missing").begin("k")
    assert not AttemptNote("w", tmp_path).begin("k" * 2000)
    target = tmp_path / "target"
    target.write_text("k")
    (tmp_path / "vknn-batch-v").symlink_to(target)
    assert not AttemptNote("v", tmp_path).begin("k")
    assert AttemptNote("v", tmp_path).taken() is None
    assert target.read_text() == "k"
    (tmp_path / "vknn-batch-u").write_bytes(b"\xff" * 5000)
    kept = keeper()
    kept.arrive("u")
    kept.arrive("u", AttemptNote("u", tmp_path).taken())
    assert deaths(kept) == 0


def keeper() -> Keeper:
    return Keeper(ErrorBound.of(None), 100, rows=0, errors=0)


def deaths(kept: Keeper) -> int:
    return sum(device["deaths"] for device in kept.state()["devices"].values())


def test_a_message_that_was_lost_is_made_up_for_by_the_note() -> None:
    """Two processes ended with a batch of which the first never told: it is computed alone."""
    kept = keeper()
    assert not kept.arrive("w")["again"]
    kept.meet("d", "Card", "w")
    assert kept.arrive("w", ["w:b"])["again"]
    assert not kept.begin("d", "Card", "w:b")["alone"]
    assert kept.arrive("w")["again"]
    assert kept.begin("d", "Card", "w:b")["alone"]
    assert deaths(kept) == 2


def test_a_note_counts_no_death_twice() -> None:
    kept = keeper()
    kept.arrive("w")
    kept.begin("d", "Card", "w:b")
    kept.arrive("w", ["w:b"])
    assert not kept.begin("d", "Card", "w:b")["alone"]
    assert kept.begin("d", "Card", "w:b")["deaths"] == 1, "the same process, on another device"


def test_a_batch_that_was_done_is_not_blamed() -> None:
    """Its end was not told when the process ended with others."""
    kept = keeper()
    kept.arrive("w")
    for key in ("w:done", "v:other"):
        kept.begin("d", "Card", key)
    kept.meet("d", "Card", "w")
    kept.arrive("w", ["w:now", "w:next"])
    assert deaths(kept) == 1, "of one process, whatever it had under way"
    found = {key: kept.begin("d", "Card", key)["deaths"] for key in ("w:done", "w:now", "w:next")}
    assert found == {"w:done": 0, "w:now": 1, "w:next": 1}
    assert kept.begin("d", "Card", "v:other")["deaths"] == 0, "another worker's"
    kept.arrive("w", [])
    assert kept.begin("d", "Card", "w:now")["deaths"] == 1


def test_a_process_that_ended_behind_a_batch() -> None:
    """What it gave may not have reached Ray: it is the batch's death, if it comes again."""
    kept = keeper()
    kept.arrive("w")
    kept.meet("d", "Card", "w")
    for count in range(3):
        assert kept.begin("d", "Card", "w:b")["deaths"] == count
        kept.end("w:b", BatchProgress("d", rows=1, worker="w"))
        kept.arrive("w")
    assert deaths(kept) == 3
    kept.arrive("w")
    assert kept.begin("d", "Card", "w:b")["deaths"] == 3, "it had not come again"


def test_batches_of_a_task_that_comes_again() -> None:
    """A batch that ended processes is not to end more of them at each return."""
    kept = keeper()
    kept.arrive("w")
    for _ in range(2):
        kept.begin("d", "Card", "w:b1")
        kept.arrive("w")
    for key in ("w:b1", "w:b2"):
        kept.begin("d", "Card", key)
        kept.end(key, BatchProgress("d", rows=3, errors={"ProcessDied": 1}))
    assert kept.begin("d", "Card", "w:b1")["alone"] and not kept.begin("d", "Card", "w:b2")["alone"]
    assert kept.state()["errors"] == {"ProcessDied": 2}
    kept.end("w:b1", BatchProgress("d", rows=3, errors={"ProcessDied": 1}))
    assert kept.state()["errors"] == {"ProcessDied": 2}, "a record's error counts once"
    assert kept.state()["rows"] == kept.state()["new_rows"] == 8
    kept.end("w:b1", BatchProgress("d", rows=4))
    assert (kept.state()["errors"], kept.state()["rows"]) == ({"ProcessDied": 1}, 8)
    for _ in range(2):
        kept.end("v:b", BatchProgress("d", rows=1))
    assert kept.state()["rows"] == 10, "equal records without names, in a process that lives"


def test_processes_that_end_before_they_have_a_batch() -> None:
    kept = keeper()
    assert not any(kept.arrive("w")["failure"] for _ in range(10))
    assert kept.arrive("w")["failure"].startswith("10 processes of a worker ended, one after")
    kept = keeper()
    for _ in range(40):  # some while they open devices
        kept.opening("w", "d")
        assert not kept.arrive("w")["failure"]
    kept.opened("w")
    for _ in range(4):
        for _ in range(9):
            assert not kept.arrive("w")["failure"]
        kept.end("w:b", BatchProgress("d", rows=1))


def test_a_first_record_that_ends_processes() -> None:
    """It is computed when a device is opened, and counts as that."""
    kept = keeper()
    for count in range(3):
        assert kept.opening("w", "d") == count
        kept.meet("d", "Card", "w")
    kept.opened("w")
    assert kept.opening("w", "d") == 0


class FakeActor:
    """An actor of a keeper, in this process."""

    def __init__(self) -> None:
        self.told: list[tuple[list[str], str | None]] = []
        self.tell = SimpleNamespace(remote=self._tell)

    def _tell(self, ended: list[tuple[str, BatchProgress]], begun: Any) -> str:
        self.told.append(([key for key, _ in ended], None if begun is None else begun[2]))
        return "reference"


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> FakeActor:
    monkeypatch.setattr(keeper_link, "ray_module", lambda: None)
    return FakeActor()


def test_messages_are_few(actor: FakeActor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_link, "TELL_SECONDS", 1000.0)
    link = KeeperLink(actor)
    progress = BatchProgress("d", rows=1)
    link._told = -2000.0
    assert link.begin("d", "Card", "b1", at_once=False) == "reference"
    link.end("b1", progress)
    assert link.begin("d", "Card", "b2", at_once=False) is None
    link.end("b2", progress)
    assert link.begin("d", "Card", "b3", at_once=True) == "reference"
    link.end("b3", progress)
    link.close()
    link.flush()
    assert actor.told == [([], "b1"), (["b1", "b2"], "b3"), (["b3"], None)]


def test_the_last_end_is_told_soon(actor: FakeActor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_link, "TELL_SECONDS", 0.05)
    link = KeeperLink(actor)
    link.begin("d", "Card", "b1", at_once=True)
    link.end("b1", BatchProgress("d", rows=1))
    assert actor.told == [([], "b1")]
    until = time.monotonic() + 20
    while len(actor.told) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert actor.told[1:] == [(["b1"], None)]
    link.close()


def test_the_keeper_takes_a_message_as_a_whole() -> None:
    kept = keeper()
    ends = [("b1", BatchProgress("d", rows=3)), ("b2", BatchProgress("d", rows=4))]
    kept.begin("d", "Card", "b1")
    assert kept.tell(ends, ("d", "Card", "b1")) == kept.begin("d", "Card", "other")
    assert (kept.state()["rows"], deaths(kept)) == (7, 0)
    assert kept.tell([]) is None


def test_keys_of_this_machine_are_its_own() -> None:
    """A note in the folder for temporary files is its user's alone."""
    note = AttemptNote(f"test-{os.getpid()}")
    try:
        assert note.begin("k")
        assert os.stat(note._file._path).st_mode & 0o777 == 0o600
    finally:
        note.close()


def test_notes_of_workers_long_gone_are_removed(tmp_path: Path) -> None:
    for name, days in (("old", 8), ("new", 6)):
        path = tmp_path / f"vknn-batch-{name}"
        path.write_bytes(b"d\nk")
        os.utime(path, times=(time.time() - days * 86400,) * 2)
    (tmp_path / "of another").write_bytes(b"")
    os.utime(tmp_path / "of another", times=(0, 0))
    AttemptNote("w", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["of another", "vknn-batch-new"]


def test_what_a_process_wrote_that_ended_before_its_device_was_checked_again() -> None:
    """The process after it finds the device wrong: nobody else knows of these batches."""
    kept = keeper()
    kept.arrive("a")
    kept.end("k1", BatchProgress("d", rows=4, worker="a", checks=1, batch="a-1", unsure="a-1"))
    kept.end("k2", BatchProgress("d", rows=4, worker="a", batch="a-2", unsure="a-1"))
    kept.end("k3", BatchProgress("d", rows=4, worker="a", checks=1, batch="a-3", unsure="a-2"))
    kept.end("k4", BatchProgress("e", rows=4, worker="b", batch="b-1", unsure="b-1"))
    kept.arrive("a")  # another process of it
    kept.retire("e", "wrong", ["b-1"])
    assert kept.state()["suspect"] == [("e", "b-1")]
    kept.retire("d", "wrong", [])
    assert kept.state()["suspect"][1:] == [("d", "a-2"), ("d", "a-3")]


def test_a_device_that_agrees_again_is_trusted() -> None:
    kept = keeper()
    kept.arrive("a")
    kept.end("k1", BatchProgress("d", rows=4, worker="a", batch="a-1", unsure="a-1"))
    kept.arrive("a")
    kept.end("k2", BatchProgress("d", rows=4, worker="a", checks=1, batch="b-1", unsure="b-1"))
    kept.retire("d", "wrong", ["b-1"])
    assert kept.state()["suspect"] == [("d", "b-1")]
    kept = keeper()
    kept.end("k1", BatchProgress("d", rows=4, worker="a", batch="a-1", unsure="a-1"))
    assert not kept.leave("a", "d")  # all of its checks are done
    kept.arrive("a")
    kept.retire("d", "wrong", [])
    assert kept.state()["suspect"] == []


def test_a_task_that_is_tried_again() -> None:
    """Nobody tells that its process ended, but another one has it then."""
    kept = keeper()
    assert [kept.begin_reading("t:b", f"p{number}") for number in range(3)] == [0, 1, 2]
    assert [kept.begin_record("", f"t:b:{number}") for number in (0, 1)] == [0, 0]
    kept.end_record("t:b:0")
    assert kept.begin_reading("t:b", "p3") == 2, "the record ended it"
    assert [kept.begin_record("", f"t:b:{number}") for number in (0, 1)] == [0, 1]
    for number in (0, 1):
        kept.end_record(f"t:b:{number}")
    kept.end_reading("t:b")
    assert kept.begin_reading("t:c", "p3") == 0
    kept.end_reading("t:c")
    assert kept.begin_reading("t:c", "p3") == 0, "an equal batch of records without names"
    kept.end_reading("t:c")
    assert kept.begin_reading("t:b", "p4") == 2
    kept.end_reading("t:b")
    assert kept.begin_reading("t:c", "p4") == 1, "behind which the process before ended"
    assert kept.begin_reading("u:b", "p4") == 0
