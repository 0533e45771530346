"""Checks of a worker on Ray: what it sends to be computed with NumPy, and compares."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from vknn.scale.checking import Checker, WrongDeviceError, is_sampled
from vknn.scale.keeper_link import KeeperLink
from vknn.scale.options import Predictor
from vknn.scale.records import Record
from vknn.scale.worker import Worker


class WorkerChecks:
    """Checks of what a worker computes.

    Args:
        ray: Ray.
        predictor: What it computes.
        expected: Ray's function that computes a record with NumPy; None: no sample is checked.
        keeper: Told of a device that computes wrong.

    Attributes:
        unsure: Batches that no good check came behind.
        largest: The largest error so far, as a multiple of what is allowed.
    """

    def __init__(
        self,
        ray: Any,
        predictor: Predictor,
        expected: Callable[[dict[str, Any]], Any] | None,
        keeper: KeeperLink,
    ) -> None:
        self._share, self._expected, self._keeper = predictor.checked, expected, keeper
        self._ray, self._checker = ray, Checker(predictor)
        self._row: deque[tuple[Any, Record, Any, str]] = deque()
        self._count = 0
        self.unsure: list[str] = []
        self.largest = 0.0

    @property
    def pending(self) -> int:
        """Checks that are under way."""
        return len(self._row)

    def taken(self) -> int:
        """Number of checks since it was last asked for."""
        found, self._count = self._count, 0
        return found

    def add(self, worker: Worker, name: Any, record: Record, outputs: Any, batch: str) -> None:
        """A record that was computed: a sample is sent to be computed with NumPy."""
        if self._expected is None or worker.session.device is None:
            return
        if is_sampled(name, self._share):
            self._row.append((self._expected(dict(record.feeds)), record, outputs, batch))

    def collect(self, worker: Worker, most: int) -> None:
        """Comparison of the samples that NumPy has computed, until at most so many are left.

        Raises WrongDeviceError.
        """
        while self._row:
            reference = self._row[0][0]
            if len(self._row) <= most and not self._ray.wait([reference], timeout=0)[0]:
                return
            _, record, outputs, batch = self._row.popleft()
            try:
                expected = self._ray.get(reference)
            except Exception:  # NumPy cannot compute it, or its process ended: nothing is known
                continue
            self.compare(worker, record.feeds, outputs, expected)
            if batch in self.unsure:  # what stands behind the record in its batch stays unsure
                del self.unsure[: self.unsure.index(batch)]

    def compare(
        self,
        worker: Worker,
        feeds: Mapping[str, Any],
        outputs: Mapping[str, Any],
        expected: Mapping[str, Any],
    ) -> None:
        """Comparison of a record's outputs with NumPy's.

        Raises WrongDeviceError, of which the keeper knows.
        """
        check = self._checker.check(worker.session, feeds, outputs, expected, worker.again)
        self._count += 1
        self.largest = max(self.largest, check.error)
        if not check.ok:
            reason = f"it disagrees with NumPy: {check.text}"
            self._keeper.ask("retire", worker.device, reason, self.unsure)
            self.unsure.clear()
            raise WrongDeviceError(reason)

    def clear(self) -> None:
        """Giving up of what was not compared yet, and of what is unsure."""
        self._row.clear()
        self.unsure.clear()
