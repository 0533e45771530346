"""Records that end a worker's machine, or its process: how often they are tried at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from vknn.scale import ray_batch, ray_worker
from vknn.scale.attempt_note import AttemptNote
from vknn.scale.keeper import Keeper
from vknn.scale.killed import MOST_DEATHS
from vknn.scale.ray_worker import BatchActor, Setup
from vknn.scale.records import Record
from vknn.scale.report import WorkTimes
from vknn.scale.shares import ErrorBound

pa = pytest.importorskip("pyarrow")

#: The record at which processes end.
KILLER = 3


class ProcessEnded(BaseException):
    """The end of a worker's process."""


class LateLink:
    """Link to a keeper whose messages about batches never leave before the process ends."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def begin(self, device: str, name: str, key: str, at_once: bool) -> Any:
        return self._keeper.begin(device, name, key) if at_once else None

    def end(self, key: str, progress: Any) -> None:
        self._keeper.end(key, progress)

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._keeper, method)(*arguments)

    send = ask

    def answer(self, told: Any) -> Any:
        return told

    def close(self) -> None:
        pass


class DeadlyWorker:
    """A worker whose process ends at a record. ``tried``: how many records each call had."""

    tried: ClassVar[list[int]] = []

    def __init__(self, *_: Any) -> None:
        self.device, self.first = "uuid:1", None
        self.session = SimpleNamespace(device=SimpleNamespace(name="Card"))

    def results(self, records: Sequence[Record]) -> Iterator[tuple[Record, Any]]:
        if any(record.feeds["x"] == KILLER for record in records):
            self.tried.append(len(records))
            raise ProcessEnded
        yield from ((record, record.feeds["x"] * 2) for record in records)

    def row(self, layout: Any, record: Record, found: Any) -> Any:
        return {"out": int(found)}, None

    def times(self) -> WorkTimes:
        return WorkTimes()

    def close(self) -> None:
        pass


def layout() -> Any:
    def table(source: Any, cells: Any, errors: Any, devices: Any, batch: str) -> Any:
        return [(row.get("out"), error) for row, error in zip(cells, errors, strict=True)]

    form = SimpleNamespace(spec=SimpleNamespace(name="x"))
    column = SimpleNamespace(column="x", form=form, may_be_picture=False)
    return SimpleNamespace(inputs=[column], table=table)


@pytest.mark.parametrize(
    ("goes", "uncounted"), [("the process", 0), ("its machine", 1)], ids=["process", "machine"]
)
def test_attempts_at_a_record_that_ends_what_computes_it(
    goes: str, uncounted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its machine go a worker's note and the messages that it held back.

    Still only its first attempt is not counted: whoever comes after it tells before it computes.
    """
    runtime = SimpleNamespace(get_actor_id=lambda: "w")
    machines: list[Path] = []

    def here(name: str) -> AttemptNote:
        if goes == "its machine" or not machines:
            machines.append(tmp_path / str(len(machines)))
            machines[-1].mkdir()
        return AttemptNote(name, machines[-1])

    exits = SimpleNamespace(last="", close=lambda: None)
    monkeypatch.setattr(
        ray_worker, "ray_module", lambda *_: SimpleNamespace(get_runtime_context=lambda: runtime)
    )
    for name, made in (
        ("KeeperLink", LateLink), ("Worker", DeadlyWorker), ("AttemptNote", here),
        ("ExitNote", lambda _: exits),
        ("WorkerMetrics", lambda: SimpleNamespace(count=lambda _: None)),
    ):  # fmt: skip
        monkeypatch.setattr(ray_worker, name, made)
    monkeypatch.setattr(
        ray_batch, "record_of", lambda columns, row: Record({"x": np.asarray(row[0])})
    )
    monkeypatch.setattr(DeadlyWorker, "tried", [])
    monkeypatch.setattr(BatchActor, "__del__", lambda self: None)  # nothing is tidied up
    predictor = SimpleNamespace(id="id", device="numpy", stacked=1, checked=None)
    copy = SimpleNamespace(predictor=lambda given: given)
    keeper = Keeper(ErrorBound.of(None), 5, rows=0, errors=0)
    setup = Setup(predictor, layout(), copy, ray_worker.OWN, keeper)  # type: ignore[arg-type]
    table = pa.table({"id": list("abcde"), "x": list(range(1, 6))})
    for _ in range(20):  # the process that Ray begins in the place of one that ended
        try:
            rows = BatchActor(setup)(table)
            break
        except ProcessEnded:
            continue
    else:
        pytest.fail(f"{goes} ended 20 times")
    whole, alone = [5] * (MOST_DEATHS + uncounted), [1] * MOST_DEATHS
    assert DeadlyWorker.tried == whole + alone
    error = rows.pop(KILLER - 1)[1]
    assert (error["type"], error["attempts"]) == ("ProcessDied", MOST_DEATHS)
    assert error["message"] == "the process that computed it on uuid:1 (Card) ended 2 times"
    assert rows == [(2, None), (4, None), (8, None), (10, None)]
    assert keeper.state()["devices"]["uuid:1"]["deaths"] == 2 * MOST_DEATHS
