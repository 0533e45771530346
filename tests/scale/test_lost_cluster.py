"""A cluster that goes while a command works on it: Ray ends the command's process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray.data")
from scale import ray_jobs
from scale.conftest import QUIET

pytestmark = [pytest.mark.device, pytest.mark.slow]
ROWS = 400


@pytest.mark.timeout(240)
def test_a_cluster_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends the process with 1 and says nothing; the job goes on where there is no cluster."""
    from ray.cluster_utils import Cluster

    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(ROWS)], 8)
    given = (
        "batch", model, source, "--output", tmp_path / "out", "--id", "id", "--layers", layers,
        "--device", "numpy", "--batch-size", 5, "--check", 0,
    )  # fmt: skip
    command = [sys.executable, "-m", "vknn", *map(str, given)]
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=4, include_dashboard=False, object_store_memory=200 << 20)
        process = subprocess.Popen(
            [*command, "--address", cluster.address], stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 90
        while not (tmp_path / "out" / "_vknn" / "job.json").exists() and time.monotonic() < until:
            assert process.poll() is None, "the command ended too early"
            time.sleep(0.1)
    finally:
        cluster.shutdown()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "vknn: error: the process of the job was ended from within: " in errors
    assert errors.endswith("give the command again, which takes the job up where it was\n")
    again = subprocess.run(
        [*command, "--engine", "local"], capture_output=True, text=True, check=False, timeout=120
    )
    assert again.returncode == 0, again.stderr
    assert sorted(row["id"] for row in ray_jobs.rows(tmp_path / "out")) == list(range(ROWS))
