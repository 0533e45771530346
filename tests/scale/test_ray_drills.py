"""Drills of jobs on Ray: processes and machines that go, and memory that must not grow."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scale import ray_jobs
from vknn import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

#: A layer that takes a moment, and notes which process computes.
NOTED = """
import os, time
import numpy as np
import vknn

def compute(arrays, weights, options):
    with open({folder!r} + "/" + str(os.getpid()), "w"):
        pass
    time.sleep(0.03)
    return arrays[0] * np.float32(2)

vknn.register_layer("ncnn", "Noted", shape=lambda s, o: s[0], compute=compute, replace=True)
"""
#: A layer that makes one number of many.
SUM = """
import numpy as np
import vknn

vknn.register_layer(
    "ncnn", "Sum", shape=lambda s, o: (1,), compute=lambda a, w, o: a[0].sum(keepdims=True)
)
"""
ROWS = 1500


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "processes").mkdir()
    code = NOTED.format(folder=str(tmp_path / "processes"))
    model, layers = ray_jobs.write_model(tmp_path, "Noted", code)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(ROWS)], 10)
    return {
        "source": source, "model": model, "output": tmp_path / "out", "engine": "ray", "id": "id",
        "layers": [layers], "batch_size": 10, "device": "llvmpipe", "workers": 2,
    }  # fmt: skip


def assert_whole(output: Path) -> None:
    """Every record has its one row, with its own answer."""
    rows = ray_jobs.rows(output)
    assert sorted(row["id"] for row in rows) == list(range(ROWS))
    assert all(row["out"] == [2.0 * row["id"]] * 8 for row in rows)


@contextlib.contextmanager
def beside(work: Any) -> Iterator[None]:
    """Block beside which a thread works until it is told to stop."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.timeout(300)
def test_workers_that_are_killed(ray: Any, job: dict[str, Any], tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(stop: threading.Event) -> None:
        while not stop.wait(6) and len(killed) < 6:
            # The one that began the job computes its first record, too.
            noted = [p for p in (tmp_path / "processes").iterdir() if p.name != str(os.getpid())]
            alive = [path for path in noted if Path("/proc", path.name).exists()]
            for path in sorted(alive, key=lambda p: p.stat().st_mtime)[-1:]:
                os.kill(int(path.name), signal.SIGKILL)
                killed.append(int(path.name))

    with beside(kill):
        report = scale.run(**job)
    assert len(killed) >= 2
    assert (report.rows, report.error_count) == (ROWS, 0)
    assert_whole(job["output"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("comes", [True, False], ids=["and one that comes", "for good"])
def test_a_machine_that_goes(
    comes: bool, ray_cluster: Any, ray: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    """Where none comes, its worker gets the place of one that has nothing left to do."""
    job |= {"device": "vulkan", "workers": None}
    machines = {"num_cpus": 1, "resources": {"vulkan": 1}, "object_store_memory": 80 << 20}
    nodes = [ray_cluster.add_node(**machines)]

    try:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(scale.run, **job)
            until = time.monotonic() + 60
            while len(list((tmp_path / "processes").iterdir())) < 3 and time.monotonic() < until:
                time.sleep(0.2)
            ray_cluster.remove_node(nodes.pop(), allow_graceful=False)
            if comes:
                time.sleep(5)
                nodes.append(ray_cluster.add_node(**machines))
            report = running.result()
    finally:
        for node in nodes:
            ray_cluster.remove_node(node)
    assert (report.rows, report.error_count) == (ROWS, 0)
    assert_whole(job["output"])


@pytest.mark.timeout(300)
def test_an_actor_of_leases_that_is_killed(ray: Any, job: dict[str, Any], tmp_path: Path) -> None:
    """It is begun again, and workers that are begun again get devices of it."""
    job |= {"device": "vulkan", "workers": 1}
    killed: list[int] = []

    def kill(stop: threading.Event) -> None:
        while not stop.wait(0.2) and len(killed) < 2:
            noted = [p for p in (tmp_path / "processes").iterdir() if p.name != str(os.getpid())]
            if noted and (leases := actors("ray::MachineLeases")):
                killed.extend([leases[0], int(noted[0].name)])
                for process in killed:
                    os.kill(process, signal.SIGKILL)

    with beside(kill):
        report = scale.run(**job)
    assert len(killed) == 2
    assert (report.rows, report.error_count) == (ROWS, 0)
    assert_whole(job["output"])
    until = time.monotonic() + 20
    while actors("ray::MachineLeases") + actors("ray::RayKeeper") and time.monotonic() < until:
        time.sleep(0.2)
    assert not actors("ray::MachineLeases") + actors("ray::RayKeeper")


@pytest.mark.timeout(300)
def test_a_keeper_that_is_killed(ray: Any, job: dict[str, Any], tmp_path: Path) -> None:
    """The job ends with an error, and goes on where it was."""

    def kill(stop: threading.Event) -> None:
        while not stop.wait(0.2):
            if len(list((tmp_path / "processes").iterdir())) >= 3:
                for keeper in actors("ray::RayKeeper"):
                    os.kill(keeper, signal.SIGKILL)
                return

    with (
        beside(kill),
        pytest.raises(scale.JobError, match="keeps account of the job ended: run it again"),
    ):
        scale.run(**job)
    report = scale.run(**job)
    assert (report.rows, report.error_count) == (ROWS, 0)
    assert_whole(job["output"])


@pytest.mark.timeout(300)
def test_memory_stays_flat(ray: Any, tmp_path: Path) -> None:
    """12,000 rows of 600 KB, 36 times what the object store holds; workers start meanwhile."""
    model, layers = ray_jobs.write_model(tmp_path, "Sum", SUM)
    model.write_text(model.read_text().replace("0=8", "0=150000"))

    def made(table: pa.Table) -> pa.Table:
        numbers = table.column("id").to_pylist()
        rows = pa.array([np.full(150_000, n % 7, np.float32) for n in numbers])
        return pa.table({"id": table.column("id"), "data": rows.cast(pa.list_(pa.float32()))})

    samples: list[tuple[float, int]] = []

    def measure(stop: threading.Event) -> None:
        while not stop.wait(0.5):
            samples.append((time.monotonic(), used_memory()))

    dataset = ray.data.range(12_000).map_batches(made, batch_format="pyarrow", batch_size=20)
    with beside(measure):
        answers = scale.predict(
            dataset, model, id="id", layers=[layers], device="llvmpipe", workers=1
        )
        count = sum(
            int((np.stack(batch["out"]).reshape(-1) == 150_000 * (batch["id"] % 7)).sum())
            for batch in answers.iter_batches(batch_format="numpy")
        )
    assert count == 12_000
    begin, end = samples[0][0], samples[-1][0]
    early, late = begin + (end - begin) / 3, begin + (end - begin) * 2 / 3
    before = max(memory for when, memory in samples if early < when <= late)
    after = max(memory for when, memory in samples if when > late)
    assert after < 1.2 * before, (before >> 20, after >> 20)


def used_memory() -> int:
    """Bytes of this process and those that it started, each page once."""
    return sum(proportional_bytes(process) for process in own_processes())


def actors(title: str) -> list[int]:
    """Processes of actors that this process started, by what they call themselves."""
    found = []
    for process in own_processes():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(title.encode()):
                found.append(process)
    return found


def own_processes() -> set[int]:
    """This process and those that it started."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    own, new = {os.getpid()}, {os.getpid()}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - own
        own |= new
    return own


def proportional_bytes(process: int) -> int:
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file,
    ):
        return sum(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return 0
