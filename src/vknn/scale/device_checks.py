"""Checks of the device of a local job, beside its work."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from vknn.scale.checking import Check, Checker, is_sampled
from vknn.scale.options import Predictor
from vknn.scale.outcome import JobError
from vknn.scale.records import Record
from vknn.scale.worker import Worker, device_name

#: Checks that may wait for NumPy.
MOST_CHECKS = 4


class DeviceChecks:
    """Checks of a device beside its work. ``wrong``: what disagrees; empty where nothing does."""

    def __init__(self, checker: Checker, worker: Worker, predictor: Predictor) -> None:
        self._checker, self._worker = checker, worker
        self._share = predictor.checked
        self._pool = ThreadPoolExecutor(1, "vknn-check")
        self._pending: deque[tuple[Future[Check], Any, int]] = deque()
        self.count, self.largest, self.wrong = 0, 0.0, ""
        #: Number of the last row at which the device agreed.
        self.trusted = -1
        self._begun = False

    def add(self, name: Any, number: int, record: Record, outputs: Any) -> None:
        """A record that was computed, its row's number: the first one is checked, and samples."""
        if self._share is None or self._worker.session.device is None:
            return
        if self._begun and not is_sampled(name, self._share):
            return
        self._begun = True
        session, again, feeds = self._worker.session, self._worker.again, dict(record.feeds)
        future = self._pool.submit(self._checker.check, session, feeds, outputs, None, again)
        self._pending.append((future, name, number))
        while len(self._pending) > MOST_CHECKS or (self._pending and self._pending[0][0].done()):
            self._take()

    def confirm(self) -> None:
        """Wait for the checks that are under way. Raises JobError where one disagrees."""
        while self._pending:
            self._take()

    finish = confirm

    def close(self) -> None:
        """End of the checks' thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _take(self) -> None:
        future, name, number = self._pending.popleft()
        check = future.result()
        self.count += 1
        self.largest = max(self.largest, check.error)
        if not check.ok:
            self.wrong = f"record {name!r}: {check.text}"
            raise JobError(
                f"device {self._worker.device} ({device_name(self._worker)}) disagrees with "
                f"NumPy: {self.wrong}; `vknn verify` says which operator it is, and --device takes "
                "another device"
            )
        self.trusted = number
