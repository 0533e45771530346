"""Progress as a line on the terminal, or as calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vknn.training.results import Callback, Progress


@contextmanager
def reporting(wanted: Callback | bool | None) -> Iterator[Callback]:
    """Callback for each :class:`Progress`: the one given, one that shows a line (True), or none."""
    if callable(wanted):
        yield wanted
    elif wanted:
        with _line() as tell:
            yield tell
    else:
        yield lambda now: None


@contextmanager
def _line() -> Iterator[Callback]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  loss {task.fields[loss]:.4g}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns) as bars:
        line = bars.add_task("training", total=None, epoch="1", loss=float("nan"))

        def tell(now: Progress) -> None:
            done = (now.epoch - 1) * now.batches + now.batch
            total = now.epochs * now.batches
            epoch = f"{now.epoch}/{now.epochs}"
            bars.update(line, completed=done, total=total, epoch=epoch, loss=now.loss)

        yield tell
