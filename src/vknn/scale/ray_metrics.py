"""Metrics of a worker: what it did, for the Prometheus page of Ray."""

from __future__ import annotations

import time

from vknn.scale.keeper import BatchProgress
from vknn.scale.optional import ray_module

#: Seconds of a batch, as a histogram parts them.
_BATCH_SECONDS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]


class WorkerMetrics:
    """Rows, errors, seconds of batches and the share of time in which a device computed."""

    def __init__(self) -> None:
        metrics = ray_module("ray.util.metrics")
        by_device = ("device",)
        self._rows = metrics.Counter(
            "vknn_batch_rows", "Records that were computed.", tag_keys=by_device
        )
        self._errors = metrics.Counter(
            "vknn_batch_errors", "Records that could not be.", tag_keys=("device", "type")
        )
        self._seconds = metrics.Histogram(
            "vknn_batch_seconds", "Computing of a batch.", _BATCH_SECONDS, tag_keys=by_device
        )
        self._busy = metrics.Gauge(
            "vknn_device_busy_share",
            "Share of time in which the worker's device computed.",
            tag_keys=("device", "worker"),
        )
        self._begin, self._computed = time.perf_counter(), 0.0

    def count(self, progress: BatchProgress) -> None:
        """Counting of a batch."""
        own = {"device": progress.device}
        rows = progress.rows + sum(progress.errors.values())
        if not rows:
            return
        if progress.rows:
            self._rows.inc(progress.rows, own)
        for kind, number in progress.errors.items():
            self._errors.inc(number, {**own, "type": kind})
        self._seconds.observe(progress.busy, own)
        self._computed += progress.busy
        past = time.perf_counter() - self._begin
        share = min(1.0, self._computed / past) if past else 0.0
        self._busy.set(share, {**own, "worker": progress.worker})
