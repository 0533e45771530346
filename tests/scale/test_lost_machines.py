"""Records that end a worker's machine, or its process: how often they are tried at most."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scale.ray_workers import ProcessEnded, RayProcess, Workplace, answers_of

from vknn.scale.keeper import Keeper
from vknn.scale.killed import MOST_DEATHS
from vknn.scale.shares import ErrorBound

pa = pytest.importorskip("pyarrow")

#: The record at which processes end.
KILLER = 3


def deadly(process: RayProcess, when: str) -> None:
    """Ending of a process at a record, when it is read or computed."""

    def compute(numbers: list[int]) -> None:
        if KILLER in numbers:
            process.end()

    def read(number: int) -> None:
        if number == KILLER:
            process.end()

    if when == "run":
        process.compute = compute
    else:
        process.read = read


@pytest.mark.parametrize("when", ["run", "read"])
@pytest.mark.parametrize("goes", ["the process", "its machine"])
def test_attempts_at_a_record_that_ends_what_computes_it(
    goes: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its machine go a worker's note and the messages that it held back.

    Still only its first attempt is not counted: whoever comes after it tells before it computes.
    A process that ends, and its machine not, leaves a note of what it read as well.
    """
    machines: list[Path] = []

    def here() -> Path:
        if goes == "its machine" or not machines:
            machines.append(tmp_path / str(len(machines)))
            machines[-1].mkdir()
        return machines[-1]

    place = Workplace(monkeypatch, here)
    keeper = Keeper(ErrorBound.of(None), 5, rows=0, errors=0)
    table = pa.table({"id": list("abcde"), "x": list(range(1, 6))})
    computed: list[list[int]] = []
    ended = 0
    while True:  # the process that Ray begins in the place of one that ended
        actor = place.begun(keeper)
        deadly(place.process, when)
        try:
            rows = answers_of(actor(table))
            break
        except ProcessEnded:
            ended += 1
            assert ended < 20, f"{goes} ended 20 times"
            computed += place.process.computed
    uncounted = 1 if goes == "its machine" else 0
    assert ended == 2 * MOST_DEATHS + uncounted
    if when == "run":
        whole, alone = [[1, 2, 3, 4, 5]] * (MOST_DEATHS + uncounted), [[1], [2], [3]] * MOST_DEATHS
        assert computed == whole + alone
    error = rows.pop(KILLER - 1)[1]
    assert (error["type"], error["attempts"]) == ("ProcessDied", MOST_DEATHS)
    who = {"run": "computed it on uuid:1 (Card)", "read": "read it, or made its row,"}[when]
    assert error["message"] == f"the process that {who} ended 2 times (killed)"
    assert [row[:2] for row in rows] == [(2, None), (4, None), (8, None), (10, None)]
    assert keeper.state()["devices"]["uuid:1"]["deaths"] == 2 * MOST_DEATHS
