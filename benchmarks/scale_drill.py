"""Fault drill of batch jobs: workers killed, a machine that goes and one that comes, a killed job.

Real raylets are several machines of this one. A job runs undisturbed, and once more while a worker
is killed every 10 seconds, a machine is removed and another one added, and the command itself is
killed and given again. No id may be lost or doubled, and all answers have to be equal bit for bit.
It may take half as long again, and what it takes to begin processes anew: from the end of each to
the first answer of the one in its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Seconds between workers that are killed; when the machine goes, and when the command is killed.
_KILL, _REMOVE, _ADD, _END = 10.0, 15.0, 22.0, 35.0
_MACHINE = {"num_cpus": 2, "resources": {"vulkan": 1}, "object_store_memory": 100 << 20}
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "PYTHONWARNINGS": "ignore",
}


def drill(model: Path, shape: tuple[int, ...], count: int, folder: Path) -> dict[str, Any]:
    """Both runs of a job of so many rows: seconds, what was killed, and whether answers are equal.

    Args:
        model: A model file.
        shape: Shape of a row, float32.
        count: How many rows.
        folder: Where to write.
    """
    os.environ.update(QUIET)
    source = folder / "rows.npy"
    np.save(source, np.random.default_rng(0).random((count, *shape), np.float32))
    quiet = _Job(model, source, folder / "quiet")
    with _cluster() as cluster:
        begin = time.perf_counter()
        quiet.run(cluster.address)
        undisturbed = time.perf_counter() - begin
    hard = _Job(model, source, folder / "hard")
    with _cluster() as cluster:
        begin = time.perf_counter()
        restarts = [gap + quiet.opening for gap in hard.run_disturbed(cluster)]
        disturbed = time.perf_counter() - begin
    before, after = quiet.answers(), hard.answers()
    return {
        "rows": count,
        "undisturbed": undisturbed,
        "disturbed": disturbed,
        "ratio": disturbed / undisturbed,
        "workers killed and replaced": len(restarts) - 1,
        "restarts": sum(restarts),
        "ratio without restarts": (disturbed - sum(restarts)) / undisturbed,
        "ids lost": len(set(before) - set(after)),
        "ids double": hard.doubles,
        "answers that differ": sum(before[i] != after.get(i) for i in before),
    }


@contextlib.contextmanager
def _cluster() -> Iterator[Any]:
    """A cluster of two machines."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(**(_MACHINE | {"num_cpus": 6}), include_dashboard=False)
    cluster.extra = cluster.add_node(**_MACHINE)
    try:
        yield cluster
    finally:
        cluster.shutdown()


class _Job:
    """A job as a command."""

    def __init__(self, model: Path, source: Path, output: Path) -> None:
        self._output, self.doubles, self.opening = output, 0, 0.0
        self._command = [
            sys.executable, "-m", "vknn", "batch", str(model), str(source), "--engine", "ray",
            "--output", str(output), "--batch-size", "16", "--device", "vulkan", "--json",
        ]  # fmt: skip

    def begun(self, address: str) -> subprocess.Popen[str]:
        """The command, begun."""
        return subprocess.Popen(
            [*self._command, "--address", address], stdout=subprocess.PIPE, text=True
        )

    def run(self, address: str) -> None:
        """A run to its end. Raises RuntimeError where it fails."""
        self._end(self.begun(address))

    def run_disturbed(self, cluster: Any) -> list[float]:
        """A run with all that may happen to it.

        Returns:
            Seconds from each end to the process in its place: the command's, then the workers'.
        """
        process = self.begun(cluster.address)
        begin = time.monotonic()
        while not _workers():
            time.sleep(0.05)
        stop = threading.Event()
        gaps: list[float] = []
        thread = threading.Thread(target=_kill, args=(stop, gaps), daemon=True)
        first = time.monotonic()
        thread.start()
        try:
            _wait(first + _REMOVE)
            cluster.remove_node(cluster.extra, allow_graceful=False)
            _wait(first + _ADD)
            cluster.add_node(**_MACHINE)
            _wait(first + _END)
            process.kill()
            process.communicate()
            self._end(self.begun(cluster.address))
        finally:
            stop.set()
            thread.join()
        # The command's way to its first worker is that of the first time.
        return [first - begin, *gaps]

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Wait for a command. Raises RuntimeError where it fails."""
        text, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the job ended with {process.returncode}: {text[-2000:]}")
        devices = json.loads(text.splitlines()[-1])["devices"].values()
        self.opening = max(device["cold_seconds"] for device in devices)

    def answers(self) -> dict[str, bytes]:
        """Id -> the outputs of its row, bit for bit."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        found: dict[str, bytes] = {}
        for path in sorted(self._output.glob("*.parquet")):
            table = pq.read_table(path)
            names = [
                n
                for n in table.column_names
                if isinstance(table.schema.field(n).type, pa.FixedShapeTensorType)
            ]
            for number, name in enumerate(table.column("row").to_pylist()):
                self.doubles += name in found
                found[name] = b"".join(
                    np.asarray(table.column(n)[number].value.as_py(), np.float32).tobytes()
                    for n in names
                )
        return found


def _kill(stop: threading.Event, gaps: list[float]) -> None:
    """Kill of a worker every ten seconds; ``gaps`` are those until another process is there."""
    while not stop.wait(_KILL):
        before = _workers()
        for process in before[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                begin = time.monotonic()
                while not set(_workers()) - set(before):
                    if stop.wait(0.05) or time.monotonic() > begin + _KILL:  # none is to come
                        break
                else:
                    gaps.append(time.monotonic() - begin)


def _wait(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


def _workers() -> list[int]:
    """Processes of workers of this process's clusters, the oldest first.

    Those of other clusters of this machine are left alone.
    """
    parents: dict[int, int] = {}
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal():
                number = int(entry.name)
                parents[number] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if b"BatchActor" in (entry / "cmdline").read_bytes():
                    found.append(number)
    return sorted(number for number in found if os.getpid() in _above(number, parents))


def _above(process: int, parents: dict[int, int]) -> Iterator[int]:
    """The processes that lead to one."""
    while (process := parents.get(process, 0)) > 0:
        yield process
