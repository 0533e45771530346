"""Writing tables, JSON and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from vknn.printable import one_line

Tell = Callable[[int, int, str], None]


class _Output(Console):
    """Console whose reader may go away: the command ends as :func:`vknn.cli.main.guarded` says."""

    def on_broken_pipe(self) -> None:
        # Rich would end the process with 1, the exit code of failed checks.
        raise BrokenPipeError


def show(thing: RenderableType) -> None:
    """A table or text to stdout; wide where it is not a terminal, so that nothing is cut.

    Brackets in it are no markup: names and labels come out of files.
    """
    console = _Output(width=None if sys.stdout.isatty() else 200, markup=False)
    console.print(thing)


def cell(text: str) -> Text:
    """Text out of a file as a table's cell or title: one line, without markup."""
    return Text(one_line(text), overflow="fold")


def show_lines(text: str) -> None:
    """Text of many lines to stdout, without control characters of names in it."""
    print("\n".join(map(one_line, text.split("\n"))), end="")


def write_json(document: Any) -> None:
    """A document, or text that is JSON already, to stdout."""
    print(document if isinstance(document, str) else json.dumps(document, indent=2))


@contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Tell | None]:
    """A bar on stderr while something long runs; None where stderr is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn(title, markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, TextColumn("{task.fields[what]}", markup=False), console=console, transient=True
    ) as bar:
        task = bar.add_task(title, total=None, what="")

        def tell(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, what=one_line(what))

        yield tell
