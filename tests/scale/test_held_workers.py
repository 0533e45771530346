"""Workers of jobs on Ray whose machines go away, with a Ray that only notes what it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vknn.scale import held_workers
from vknn.scale.held_workers import HeldWorkers
from vknn.scale.keeper import BatchProgress, Keeper
from vknn.scale.shares import ErrorBound

LOST = {"a": "ALIVE", "b": "ALIVE", "c": "RESTARTING"}
GONE = {"a": "RESTARTING", "b": "RESTARTING"}


class Told:
    """What a job's workers were told: ``kills``, each with whether it is for good."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kills: list[tuple[str, bool]] = []
        self.keeper = Keeper(ErrorBound.of(None), 100, rows=0, errors=0)
        self.now = 0.0
        monkeypatch.setattr(held_workers.time, "perf_counter", lambda: self.now)

        def kill(handle: str, no_restart: bool = True) -> None:
            self.kills.append((handle, no_restart))

        ray = SimpleNamespace(get=lambda found, timeout=0: found, kill=kill)
        self.held = HeldWorkers(ray, self)
        self.held._handles = dict(zip("abc", "ABC", strict=True))

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self.keeper, name))

    def wait(self, seconds: float, states: dict[str, str]) -> None:
        """Looks for so long, a second apart."""
        for _ in range(int(seconds)):
            self.now += 1
            self.held._look_after(states)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_a_place_of_one_that_has_nothing_to_do(told: Told) -> None:
    told.wait(29, LOST)
    assert told.kills == []
    told.wait(5, LOST)
    assert [is_for_good for _, is_for_good in told.kills] == [False]
    assert told.kills[0][0] in "AB"
    told.wait(50, LOST)  # each further one later, as workers take a while to begin
    assert len(told.kills) == 1


def test_workers_that_all_have_places(told: Told) -> None:
    told.wait(1000, dict.fromkeys("abc", "ALIVE"))
    assert told.kills == []


def test_workers_that_are_at_work(told: Told) -> None:
    told.keeper.begin("d", "Card", "a:1")
    told.wait(1000, LOST)
    assert told.kills == []
    told.keeper.end("a:1", BatchProgress("d", 1))
    told.keeper.begin("d", "Card", "c:1")  # which ended with its machine
    told.wait(40, LOST)
    assert len(told.kills) == 1


def test_batches_that_are_done_meanwhile(told: Told) -> None:
    for number in range(10):
        told.keeper.end(f"a:{number}", BatchProgress("d", 1))
        told.wait(25, LOST)
    assert told.kills == []


def test_no_machine_that_is_left(told: Told) -> None:
    told.wait(600, GONE)
    assert told.kills == [] and not told.keeper.state()["failure"]
    told.wait(2, GONE)
    assert told.kills[:2] == [("A", True), ("B", True)]
    assert "run it again where there is one, which" in told.keeper.state()["failure"]


def test_last_checks_that_ray_does_not_take(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers are written: a job does not fail for them."""

    def states() -> dict[str, str]:
        raise AttributeError("module 'ray._private.state' has no attribute 'actors'")

    monkeypatch.setattr(told.held, "_states", states)
    with told.held as held:
        held.finish()
    assert told.kills == []
