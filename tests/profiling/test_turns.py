"""Processes that take turns: one runs at a time, and a failure ends all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vknn.profiling.comparison.turns import take_turns

#: A process that notes when each of its runs begins and ends.
RUNS = """
import sys, time
from vknn.profiling.comparison.turns import wait_for_turn
log, name, runs, failing = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def note(word):
    with open(log, "a") as file:
        file.write(f"{name} {word}\\n")
print("a line of a layer's own")
for number in range(runs):
    wait_for_turn(number, runs, "run")
    if number == failing:
        sys.exit("it broke")
    note("begins")
    time.sleep(0.02)
    note("ends")
"""


def played(log: Path, *players: tuple[str, int, int]) -> tuple[list[str | None], list[str]]:
    commands = [[sys.executable, "-c", RUNS, str(log), *map(str, p)] for p in players]
    path = os.pathsep.join(filter(None, sys.path))
    errors = take_turns(commands, [{**os.environ, "PYTHONPATH": path}] * len(players))
    return errors, log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def test_one_runs_at_a_time_and_the_first_changes(tmp_path: Path) -> None:
    errors, log = played(tmp_path / "log", ("a", 3, -1), ("b", 3, -1))
    assert errors == [None, None]
    runs = [tuple(log[n : n + 2]) for n in range(0, len(log), 2)]
    assert all(begin.split() == [end[0], "begins"] and end[2:] == "ends" for begin, end in runs)
    assert "".join(begin[0] for begin, _ in runs) == "abbaab"


def test_the_longer_one_goes_on_alone(tmp_path: Path) -> None:
    errors, log = played(tmp_path / "log", ("a", 1, -1), ("b", 4, -1))
    assert errors == [None, None]
    assert [sum(line == f"{name} ends" for line in log) for name in "ab"] == [1, 4]


@pytest.mark.parametrize("failing", [0, 2])
def test_a_failure_ends_all(failing: int, tmp_path: Path) -> None:
    errors, log = played(tmp_path / "log", ("a", 5, -1), ("b", 5, failing))
    assert errors[0] is None
    assert errors[1] == "it broke\n"
    assert sum(line == "a ends" for line in log) <= failing + 1


def test_a_process_that_cannot_begin(tmp_path: Path) -> None:
    errors, log = played(tmp_path / "log", ("a", 3, -1), ("b", "none", -1))  # type: ignore[arg-type]
    assert errors[0] is None
    assert "invalid literal" in (errors[1] or "")
    assert log == []


def test_a_process_whose_giver_of_turns_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNS, str(tmp_path / "log"), "a", "3", "-1"]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1
    assert "the process that gives turns has ended" in done.stderr
