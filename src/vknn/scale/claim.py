"""Claim: note in a folder of answers of the process that works there, for other machines to see."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from vknn.errors import VknnError
from vknn.scale.optional import arrow, arrow_part
from vknn.scale.processes import start_of, this_machine

#: Seconds between the signs of life of a claim, and after which one without is nobody's.
BEAT_SECONDS, STALE_SECONDS = 20.0, 120.0
_BEGIN, _ENDING = "claim-", ".json"


class Claim:
    """The claim of this process to a folder.

    Each process has a file of its own, and whoever sees another's leaves: of two that come at once
    both may, and one does at least. Whether a process of another machine lives, time tells: how old
    its claim is, the filesystem's clock says.

    Args:
        filesystem: Where the folder is.
        folder: The folder of claims.
        text: The folder of answers, for messages.
        write: Writes a file as a whole.

    Attributes:
        lost: Why the folder is not this process's any more; empty while it is.
    """

    def __init__(
        self, filesystem: Any, folder: str, text: str, write: Callable[[str, bytes], None]
    ) -> None:
        self._filesystem, self._folder, self._text, self._write = filesystem, folder, text, write
        self._path = f"{folder}/{_BEGIN}{secrets.token_hex(8)}{_ENDING}"
        pid = os.getpid()
        self._own: dict[str, Any] = {
            "host": platform.node(), "machine": this_machine(), "pid": pid, "start": start_of(pid),
            "beats": 0,
        }  # fmt: skip
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, name="vknn-claim", daemon=True)
        self.lost = ""

    def __enter__(self) -> Claim:
        self._renew()
        self._thread.start()
        try:
            for path, age in self._others():
                self._remove_dead(path, age)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(BEAT_SECONDS)
        self._remove(self._path)

    def _others(self) -> list[tuple[str, float]]:
        """The other claims, and the seconds since they were written."""
        fs = arrow_part("fs")
        found = {  # by name: a listing may spell the folder in another way, on Windows it does
            info.base_name: info.mtime_ns
            for info in self._filesystem.get_file_info(fs.FileSelector(self._folder))
            if info.base_name.startswith(_BEGIN) and info.base_name.endswith(_ENDING)
        }
        now = found.pop(self._path.rpartition("/")[2], None)
        return [
            (f"{self._folder}/{name}", (now - then) / 1e9 if now and then else 0.0)
            for name, then in found.items()
        ]

    def _remove_dead(self, path: str, age: float) -> None:
        """Removal of a claim of a process that has ended. Raises VknnError where it lives."""
        before = self._read(path)
        if before is None:  # it has just ended
            return
        who = f"process {before.get('pid')} on {before.get('host')}"
        if before.get("machine") and before["machine"] == this_machine():
            is_alive = start_of(before["pid"]) == before["start"]
        else:
            is_alive = age <= STALE_SECONDS and self._is_heard(path, before, who, age)
        if is_alive:
            raise VknnError(f"{self._text}: another job works in this folder now: {who}")
        self._remove(path)

    def _is_heard(self, path: str, before: dict[str, Any], who: str, age: float) -> bool:
        """Whether another machine's process gives a sign of life before its claim is nobody's."""
        most = STALE_SECONDS - age
        warnings.warn(
            f"{self._text}: {who} worked in this folder {age:.0f} s ago; the job begins when "
            f"nothing is heard of it for {most:.0f} s more, or when {path} is removed",
            RuntimeWarning,
            stacklevel=2,
        )
        until = time.perf_counter() + most
        while time.perf_counter() < until:
            time.sleep(min(1.0, BEAT_SECONDS))
            found = self._read(path)
            if found != before:
                return found is not None
        return False

    def _read(self, path: str) -> dict[str, Any] | None:
        """What a claim says; None where there is none any more."""
        try:
            with self._filesystem.open_input_stream(path) as file:
                found = json.loads(file.read())
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _renew(self) -> None:
        """Writing of the claim with a further sign of life."""
        self._own["beats"] += 1
        self._write(self._path, json.dumps(self._own).encode())

    def _live(self) -> None:
        """Signs of life until the end, or until the claim is gone."""
        fs = arrow_part("fs")
        while not self._end.wait(BEAT_SECONDS):
            with contextlib.suppress(VknnError, OSError, arrow().ArrowException):
                if self._filesystem.get_file_info(self._path).type == fs.FileType.NotFound:
                    self.lost = (
                        f"{self._text}: another job took this folder, as nothing was heard of this "
                        "one for too long"
                    )
                    return
                self._renew()

    def _remove(self, path: str) -> None:
        with contextlib.suppress(OSError, arrow().ArrowException):
            self._filesystem.delete_file(path)
