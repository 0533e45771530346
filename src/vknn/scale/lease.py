"""Lease of devices: which worker of a machine has which, where Ray does not count them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence

from vknn.errors import DeviceError


class Leases:
    """The devices of one machine and the processes that use them. Lives on that machine.

    Devices of processes that ended are free again: nobody has to give them back.

    Args:
        devices: Selectors of the devices.
        per_device: Processes that may share one.
        is_alive: Told a process id; tells whether there is such a process.
    """

    def __init__(
        self,
        devices: Sequence[str],
        per_device: int = 1,
        is_alive: Callable[[int], bool] | None = None,
    ) -> None:
        self._devices, self._per_device = list(devices), per_device
        self._is_alive = is_alive or _is_alive
        self._users: dict[int, str] = {}

    def take(self, process: int, without: Collection[str] = ()) -> str:
        """A device for a process, the one that the fewest use; it keeps the one that it has.

        Args:
            process: Its id.
            without: Devices that must not be used.

        Raises:
            vknn.DeviceError: All devices are in use, or none may be used.
        """
        self._users = {p: d for p, d in self._users.items() if self._is_alive(p) or p == process}
        own = self._users.get(process)
        if own is not None and own not in without:
            return own
        self._users.pop(process, None)
        free = [d for d in self._devices if d not in without and self._count(d) < self._per_device]
        if not free:
            raise DeviceError(
                f"no device is left: {', '.join(self._devices) or 'none'} on this machine, "
                f"{self._per_device} worker(s) on each; {len(without)} may not be used"
            )
        chosen = min(free, key=lambda d: (self._count(d), self._devices.index(d)))
        self._users[process] = chosen
        return chosen

    def _count(self, device: str) -> int:
        return sum(used == device for used in self._users.values())


def _is_alive(process: int) -> bool:
    """Whether a process of this user runs; one that ended and was not asked for yet does not."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open(f"/proc/{process}/stat", encoding="utf-8") as file,
    ):
        return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, 0)
        return True
    return False
