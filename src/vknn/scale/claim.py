"""Claim: note in a folder of answers of the process that works there, for other machines to see."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vknn.errors import VknnError
from vknn.scale.optional import arrow, arrow_part

#: Seconds between the signs of life of a claim, and after which one without is nobody's.
BEAT_SECONDS, STALE_SECONDS = 20.0, 120.0
_BEGIN, _ENDING = "claim-", ".json"


class Claim:
    """The claim of this process to a folder.

    Each process has a file of its own, and whoever sees another's leaves: of two that come at once
    both may, and one does at least. How old one is, the filesystem's clock says.

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
        own = {"host": platform.node(), "machine": _machine(), "pid": pid, "start": _start_of(pid)}
        self._data = json.dumps(own).encode()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, name="vknn-claim", daemon=True)
        self.lost = ""

    def __enter__(self) -> Claim:
        self._write(self._path, self._data)
        try:
            for path, age in self._others():
                self._remove_dead(path, age)
        except BaseException:
            self._remove(self._path)
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(BEAT_SECONDS)
        self._remove(self._path)

    def _others(self) -> list[tuple[str, float]]:
        """The other claims, and the seconds since they were written."""
        fs = arrow_part("fs")
        found = {
            info.path: info.mtime_ns
            for info in self._filesystem.get_file_info(fs.FileSelector(self._folder))
            if info.base_name.startswith(_BEGIN) and info.base_name.endswith(_ENDING)
        }
        now = found.pop(self._path, None)
        return [(path, (now - then) / 1e9 if now and then else 0.0) for path, then in found.items()]

    def _remove_dead(self, path: str, age: float) -> None:
        """Removal of a claim of a process that has ended. Raises VknnError where it may live."""
        try:
            with self._filesystem.open_input_stream(path) as file:
                other = json.loads(file.read())
        except FileNotFoundError:  # it has just ended
            return
        except ValueError:
            other = {}
        is_here = bool(other.get("machine")) and other["machine"] == _machine()
        if (is_here and _start_of(other["pid"]) != other["start"]) or age > STALE_SECONDS:
            self._remove(path)
            return
        who = f"process {other.get('pid')} on {other.get('host')}"
        if is_here:
            raise VknnError(f"{self._text}: another job works in this folder now: {who}")
        raise VknnError(
            f"{self._text}: another job works in this folder now: {who}, heard of {age:.0f} s ago; "
            f"where that has ended, wait {max(1, STALE_SECONDS - age):.0f} s, or remove {path}"
        )

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
                self._write(self._path, self._data)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(OSError, arrow().ArrowException):
            self._filesystem.delete_file(path)


def _machine() -> str:
    """What tells this machine, with its processes' numbers, from others; empty: nothing does."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """When a process of this machine began, in the kernel's words; empty: there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]
