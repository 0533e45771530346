"""A cluster that goes while a job works on it: Ray ends each process that is joined to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.data")
from scale import ray_jobs
from scale.conftest import QUIET

pytestmark = [pytest.mark.device, pytest.mark.slow]
ROWS = 400
#: A program that runs a job, and tells what became of it. A shell's background would have made it
#: deaf to Ctrl-C.
PROGRAM = """
import json, signal, sys
import ray, vknn
from vknn import scale
signal.signal(signal.SIGINT, signal.default_int_handler)
joins, given, options = json.loads(sys.argv[1])
if joins:
    ray.init(address=options.pop("address"), log_to_driver=False)
    options["engine"] = "ray"
try:
    print(scale.run(*given, **options).state)
except vknn.VknnError as error:
    print(type(error).__name__, error.report.state, error)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""
AGAIN = "run it again, which takes it up where it was\n"
GONE = "Ray's own processes on this machine or the head of its cluster are gone"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of one machine without devices."""
    from ray.cluster_utils import Cluster

    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    found = Cluster()
    try:
        found.add_node(num_cpus=4, include_dashboard=False, object_store_memory=200 << 20)
        yield found
    finally:
        found.shutdown()


@pytest.fixture
def job(tmp_path: Path) -> tuple[list[str], dict[str, Any]]:
    """Arguments and options of a job that takes a moment, with NumPy."""
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(ROWS)], 8)
    options = {
        "id": "id", "layers": [str(layers)], "device": "numpy", "batch_size": 5, "check": "none",
    }  # fmt: skip
    return [str(source), str(model), str(tmp_path / "out")], options


@pytest.fixture
def begun(
    job: tuple[list[str], dict[str, Any]], cluster: Any
) -> Callable[..., subprocess.Popen[str]]:
    """What begins a program with the job on the cluster, and waits until that works on it."""

    def begin(joins: bool = False) -> subprocess.Popen[str]:
        given, options = job
        told = json.dumps([joins, given, {**options, "address": cluster.address}])
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, told],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        _wait_for(Path(given[2]), process)
        return process

    return begin


def _wait_for(output: Path, process: subprocess.Popen[str]) -> None:
    """Wait for the job to begin."""
    until = time.monotonic() + 120
    while not (output / "_vknn" / "job.json").exists() and time.monotonic() < until:
        assert process.poll() is None, f"it ended too early: {process.communicate()}"
        time.sleep(0.1)


def _finished(job: tuple[list[str], dict[str, Any]]) -> None:
    """Check that the job goes on where there is no cluster."""
    from vknn import scale

    given, options = job
    report = scale.run(*given, engine="local", **options)
    assert report.rows == ROWS
    found = sorted(row["id"] for row in ray_jobs.rows(Path(given[2])))
    assert found == list(range(ROWS))


@pytest.mark.timeout(240)
def test_a_cluster_of_a_command(job: Any, cluster: Any) -> None:
    """Ray ends the process with 1 and says nothing."""
    (source, model, output), options = job
    command = [
        sys.executable, "-m", "vknn", "batch", model, source, "--output", output, "--id", "id",
        "--layers", *options["layers"], "--device", "numpy", "--batch-size", "5", "--check", "none",
    ]  # fmt: skip
    process = subprocess.Popen(
        [*command, "--address", cluster.address], stderr=subprocess.PIPE, text=True
    )
    _wait_for(Path(output), process)
    cluster.shutdown()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "vknn: error: the process of the job was ended from within: " in errors
    assert errors.endswith("give the command again, which takes the job up where it was\n")
    _finished(job)


@pytest.mark.timeout(240)
def test_a_cluster_of_a_call(job: Any, begun: Any, cluster: Any) -> None:
    """The program lives on, with an error that tells what was written."""
    process = begun()
    cluster.shutdown()
    told, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert told == f"JobError stopped Ray ended the process of the job: {GONE}; {AGAIN}"
    document = json.loads((Path(job[0][2]) / "_vknn" / "job.json").read_text("utf-8"))
    assert document["state"] == "stopped"
    _finished(job)


@pytest.mark.timeout(240)
def test_a_cluster_of_a_program_that_joined_it(job: Any, begun: Any, cluster: Any) -> None:
    """Ray ends the program itself; another process says so."""
    process = begun(joins=True)
    cluster.shutdown()
    told, errors = process.communicate(timeout=60)
    assert (told, process.returncode) == ("", 1), errors
    assert errors.endswith(
        f"vknn: the process of the job ended before the job did. Ray ends it so where {GONE}: "
        f"{AGAIN}"
    )
    _finished(job)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_ended(job: Any, begun: Any, number: int) -> None:
    """What it began ends with it: the job can be taken up at once."""
    process = begun()
    (child,) = _children(process.pid)
    process.send_signal(number)
    told, errors = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert (told, process.returncode) == ("KeyboardInterrupt\n", 0), errors
    until = time.monotonic() + 20
    while os.path.exists(f"/proc/{child}") and time.monotonic() < until:
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{child}")
    _finished(job)


def _children(pid: int) -> list[str]:
    """The children of a process, but those of Ray's."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
    return [one for one in found if b"ray_child" in Path(f"/proc/{one}/cmdline").read_bytes()]
