"""What a job on Ray says: while it runs, at its end, and where it is ended."""

from __future__ import annotations

import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale import ray_jobs
from scale.jobs import command
from vknn import scale
from vknn.errors import InputError
from vknn.scale import ray_metrics, ray_noise
from vknn.scale.keeper import BatchProgress

#: A layer that cannot be registered beside the devices, only where the job is begun.
BROKEN = """
import numpy as np
import ray
import vknn

if ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None:
    raise RuntimeError("not on this machine")
vknn.register_layer("ncnn", "Broken", shape=lambda s, o: s[0], compute=lambda a, w, o: a[0])
"""

#: A layer for which NumPy takes longer than Ray waits for actors by itself.
SLOW_CHECK = """
import time
import numpy as np
import vknn

def compute(arrays, weights, options):
    with open("/proc/self/cmdline", "rb") as file:
        time.sleep(8 if b"_expected" in file.read() else 0)
    return arrays[0] * np.float32(2)

vknn.register_layer("ncnn", "SlowCheck", shape=lambda s, o: s[0], compute=compute)
"""

#: A layer that ends the worker's process at a record.
DEADLY = """
import os, signal
import numpy as np
import vknn

def compute(arrays, weights, options):
    if arrays[0][0] == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return arrays[0] * np.float32(2)

vknn.register_layer("ncnn", "Deadly", shape=lambda s, o: s[0], compute=compute)
"""


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.timeout(240)
def test_workers_that_die_are_not_told_between_lines_of_json(
    ray_cluster: Any, tmp_path: Path
) -> None:
    """Ray tells of them on stdout."""
    model, layers = ray_jobs.write_model(tmp_path, "Deadly", DEADLY)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(20)])
    words = [model, source, "--output", tmp_path / "out", "--id", "id", "--layers", layers]
    words += ["--address", ray_cluster.address, "--device", "llvmpipe", "--json"]
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "A worker died" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["errors"] == {"ProcessDied": 1}
    assert all(json.loads(line)["state"] == "running" for line in done.stdout.splitlines()[:-1])


def test_what_ray_says_of_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """That it asks for them, nobody can do anything about; that it does not, many want to know."""
    log = logging.getLogger("ray._private.authentication.authentication_token_setup")
    with ray_noise.quiet_backend():
        log.warning("Token authentication is enabled for this Ray cluster.")
        log.warning("Token authentication is disabled for this Ray cluster.")
    log.warning("Token authentication is enabled for this Ray cluster.")
    assert [r.getMessage().split()[3] for r in caplog.records] == ["disabled", "enabled"]


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.timeout(240)
@pytest.mark.parametrize("where", ["here", "cluster"])
def test_checks_that_take_longer_than_the_job(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Workers live until their last checks are done, though Ray gives them 5 s."""
    model, layers = ray_jobs.write_model(tmp_path, "SlowCheck", SLOW_CHECK)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(40)])
    words = [model, source, "--output", tmp_path / "out", "--id", "id", "--layers", layers]
    words += ["--engine", "ray", "--device", "llvmpipe", "--check", "1/8", "--json"]
    if where == "cluster":
        words += ["--address", request.getfixturevalue("ray_cluster").address]
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert not [note for note in report["notes"] if "not finished" in note]
    assert sum(device["checks"] for device in report["devices"].values()) >= 2


@pytest.mark.slow
@pytest.mark.device
def test_a_worker_that_cannot_open_the_model(ray: Any, tmp_path: Path) -> None:
    """The user is told what went wrong there, not what Ray makes of it."""
    model, layers = ray_jobs.write_model(tmp_path, "Broken", BROKEN)
    source = ray_jobs.write_numbers(tmp_path / "source", [1.0, 2.0])
    with pytest.raises(scale.JobError, match="RuntimeError: not on this machine"):
        scale.run(
            source, model, tmp_path / "out", engine="ray", id="id", device="llvmpipe",
            layers=[layers],
        )  # fmt: skip


def test_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, errors, seconds of batches and busy share, by device."""
    told: list[tuple[str, float, dict[str, str]]] = []

    class Metric:
        def __init__(self, name: str, *_: Any, **__: Any) -> None:
            self.name = name

        def inc(self, value: float, tags: dict[str, str]) -> None:
            told.append((self.name, value, tags))

        observe = set = inc

    class metrics:
        Counter = Gauge = Histogram = Metric

    monkeypatch.setattr(ray_metrics, "ray_module", lambda name: metrics)
    worker = ray_metrics.WorkerMetrics()
    worker.count(BatchProgress("uuid:1", 3, {"InputError": 2}, busy=0.5, worker="w"))
    worker.count(BatchProgress("uuid:1"))
    assert told[:3] == [
        ("vknn_batch_rows", 3, {"device": "uuid:1"}),
        ("vknn_batch_errors", 2, {"device": "uuid:1", "type": "InputError"}),
        ("vknn_batch_seconds", 0.5, {"device": "uuid:1"}),
    ]
    (name, share, tags), *others = told[3:]
    assert (name, others) == ("vknn_device_busy_share", [])
    assert 0 < share <= 1
    assert tags == {"device": "uuid:1", "worker": "w"}


@pytest.mark.slow
@pytest.mark.device
def test_a_file_that_lacks_a_column(ray: Any, tmp_path: Path) -> None:
    """Ray ends such a job with an error of Arrow's that names neither."""
    source = ray_jobs.write_numbers(tmp_path / "in", [1.0, 2.0])
    pq.write_table(pa.table({"id": [7], "other": [1]}), source / "9.parquet")
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    with pytest.raises(InputError, match=r"9\.parquet has no column 'data', which other"):
        scale.run(
            source, model, tmp_path / "out", id="id", layers=[layers], engine="ray",
            device="numpy",
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.device
def test_records_that_cannot_be_computed_are_told(ray: Any, tmp_path: Path) -> None:
    """What the last batch did is in the report, though its errors are held by its records."""
    data = pa.array([[1.0] * 8, None, [None] * 8], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": [1, 2, 3], "data": data}), tmp_path / "t.parquet")
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    report = scale.run(
        tmp_path / "t.parquet", model, tmp_path / "out", id="id", layers=[layers], engine="ray",
        device="numpy",
    )  # fmt: skip
    assert (report.new_rows, report.errors) == (3, {"InputError": 2})
    assert next(iter(report.devices.values())).rows == 1
