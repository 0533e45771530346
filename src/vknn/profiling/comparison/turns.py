"""Processes that are alive at the same time and run in turn, a run each.

A machine that slows down for seconds slows down neighbours alike, and their ratio stays.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from vknn.errors import VknnError

#: The option of ``vknn profile`` by which a process waits for its turns.
OPTION = "--turns"
#: What a process writes when it waits, in front of which run that is; layers of the user's own may
#: write lines as well.
_WAITS = "vknn waits for its turn: "


def wait_for_turn(done: int, of: int, what: str) -> None:
    """A process's wait before each of its runs: it says so, and goes on after a line.

    Raises VknnError where nobody answers any more.
    """
    print(f"{_WAITS}{what} {done} of {of}", flush=True)
    if not sys.stdin.readline():
        raise VknnError("the process that gives turns has ended")


@dataclass
class Player:
    """A process that takes turns; ``errors``: the file of what it writes there."""

    process: subprocess.Popen[str]
    errors: IO[str]

    def turn(self) -> bool:
        """A run, from the wait before it to that behind it; False where the process has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.waits()

    def waits(self) -> bool:
        """Whether the process waits for a turn, as soon as it does; False where it has ended."""
        assert self.process.stdout is not None
        if any(line.startswith(_WAITS) for line in self.process.stdout):
            return True
        self.process.wait()
        return False

    def error(self) -> str | None:
        """Standard error of a process that failed, else None."""
        if not self.process.returncode:
            return None
        self.errors.seek(0)
        return self.errors.read() or f"exit code {self.process.returncode}"


def take_turns(
    commands: Sequence[Sequence[str]], environments: Sequence[dict[str, str]]
) -> list[str | None]:
    """Processes until all have ended, of which one runs at a time.

    Args:
        commands: Command of each.
        environments: Environment of each.

    Returns:
        For each None, or its standard error where it failed; all end where one fails.
    """
    with ExitStack() as stack:
        players = [
            stack.enter_context(started(command, environment))
            for command, environment in zip(commands, environments, strict=True)
        ]
        # All open their models before the first run.
        alive = [player for player in players if player.waits()]
        first = 0
        while len(alive) == len(players):
            # Who comes first changes, as the second may find the machine warm.
            alive = [p for p in alive[first:] + alive[:first] if p.turn()]
            alive.sort(key=players.index)
            first = 1 - first
        failed = [player.error() for player in players]
        while alive and not any(failed):
            alive = [player for player in alive if player.turn()]
            failed = [player.error() for player in players]
        return failed


@contextmanager
def started(command: Sequence[str], environment: dict[str, str]) -> Iterator[Player]:
    """A process that is ended when this is left."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
        )
        with process:
            try:
                yield Player(process, errors)
            finally:
                process.kill()
