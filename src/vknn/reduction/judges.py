"""Judges: what says whether a case fails, in processes that may crash or never end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vknn import environment
from vknn.command_words import command_words
from vknn.errors import DeviceError, VknnError
from vknn.forked_work import signal_name
from vknn.reduction.spawned import IMPORTS
from vknn.reduction.verdict import Verdict
from vknn.reduction.worker import Begin, TrialSetting, Try
from vknn.tuning.child import Child, ChildError

_MODULE = "vknn.reduction.worker"
#: What shells answer for commands that are not there or cannot be run.
_NO_COMMAND = (126, 127)
#: Characters of a command's last line that are shown.
_LONGEST = 300


class Judge(ABC):
    """Judge of cases. A context manager."""

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    #: About the device (see ``worker.facts``), once one was opened.
    facts: dict[str, Any]

    @abstractmethod
    def __call__(self, folder: Path, disable: Iterable[str] = ()) -> Verdict:
        """What trying the case in a folder comes to, with these names in VKNN_DISABLE, too."""

    @abstractmethod
    def close(self) -> None:
        """End of what it has running."""


class ChildJudge(Judge):
    """Judge that verifies cases in another process, which may crash.

    ``timeout``: seconds that a case may take.
    """

    def __init__(self, setting: TrialSetting, timeout: float) -> None:
        self._setting, self._timeout = setting, timeout
        self._child: Child | None = None
        self.facts = {}

    def __call__(self, folder: Path, disable: Iterable[str] = ()) -> Verdict:
        opened = self.open()
        if opened is not None:
            return opened
        return _outcome(self._ask(Try(str(folder), self._timeout, tuple(disable))))

    def open(self) -> Verdict | None:
        """Opening of the device, where that has to be done; what fails."""
        if self._child is not None:
            return None
        self._child = Child(_MODULE)
        answer = self._ask(Begin(self._setting, self._timeout))
        if "failed" in answer:
            self.close()
            raise VknnError(answer["failed"])
        if "facts" not in answer and not self.facts:  # no case is to blame
            self.close()
            raise DeviceError(f"the device cannot be opened: {answer['text']}")
        if "facts" not in answer:
            return _outcome(answer)
        self.facts = answer["facts"]
        return None

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _ask(self, request: Begin | Try) -> dict[str, Any]:
        """An answer, whatever happens; a child that failed is gone afterwards."""
        assert self._child is not None
        try:
            return self._child.ask(request, self._timeout + 2 * IMPORTS)
        except ChildError as error:
            self._child = None
            return Verdict("died", str(error)).to_dict()
        except BaseException:  # an interrupt: nobody would read the answer that is still to come
            self.close()
            raise


def _outcome(answer: dict[str, Any]) -> Verdict:
    if "failed" in answer:
        return Verdict("error", str(answer["failed"]))
    return Verdict(**{**answer, "kernels": tuple(answer["kernels"])})


class CommandJudge(Judge):
    """Judge that runs a command with the case's folder as its last argument.

    Exit code 0: nothing fails. ``timeout``: seconds that it may take; its whole group is ended
    then. Raises VknnError where there is no such command.
    """

    def __init__(self, command: str, timeout: float) -> None:
        self._timeout, self.facts = timeout, {}
        try:
            self._words = command_words(command)
        except ValueError as error:
            raise VknnError(f"--check {command!r}: {error}") from None
        if not self._words:
            raise VknnError("--check takes a command")

    def __call__(self, folder: Path, disable: Iterable[str] = ()) -> Verdict:
        names = ",".join([*sorted(environment.disabled()), *disable])
        try:
            process = subprocess.Popen(
                [*self._words, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "VKNN_DISABLE": names},
            )
        except OSError as error:
            raise VknnError(f"--check: {self._words[0]}: {error.strerror}") from error
        try:
            output, _ = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            return Verdict("hung", f"the command did not end within {self._timeout:g} s")
        except BaseException:
            _end(process)
            raise
        return self._outcome(process.returncode, output)

    def close(self) -> None:
        """Nothing: a command is not left running."""

    def _outcome(self, code: int, output: bytes) -> Verdict:
        lines = output.decode(errors="replace").strip().splitlines() or [""]
        said = lines[-1].strip()[:_LONGEST]
        if code == 0:
            return Verdict("agrees", said or "the command's exit code is 0")
        if code in _NO_COMMAND:
            raise VknnError(f"--check: {self._words[0]} cannot be run (exit code {code}): {said}")
        if code < 0:
            text = f"the command was ended by {signal_name(code)}"
            return Verdict("died", text, signal_name(code))
        return Verdict("exit", f"exit code {code}" + (f": {said}" if said else ""), str(code))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End of a command and of all that it began."""
    if hasattr(os, "killpg"):  # Windows has no groups of processes
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def device_facts(setting: TrialSetting, timeout: float) -> dict[str, Any]:
    """Facts about the device of a setting; raises DeviceError where it cannot be opened."""
    judge = ChildJudge(setting, timeout)
    with judge:
        judge.open()
    return judge.facts
