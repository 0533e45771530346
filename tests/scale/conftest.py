"""Real raylets for tests of batch jobs on Ray; what they start they end, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import needs

from scale import ray_jobs
from scale.ray_jobs import SWIFTSHADER
from small_model import write_small_model

#: Ray's own noise, statistics and metrics are not what is tested.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore",
}


def driver_files() -> list[str]:
    """The manifests of the Vulkan drivers of tests: llvmpipe, and SwiftShader where it is there."""
    given = os.environ.get("VK_DRIVER_FILES")
    if given:
        return given.split(os.pathsep)
    found = [str(path) for path in Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")]
    return [*found, *([str(SWIFTSHADER)] if SWIFTSHADER.is_file() else [])]


@pytest.fixture(scope="module")  # no longer: the environment is that of other tests, too
def ray_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A cluster of one machine with two Vulkan devices, which Ray does not count.

    A module's ``CPUS`` are its logical processors: Ray begins a process for each.
    """
    pytest.importorskip("ray.data")
    needs.need_device()
    from ray.cluster_utils import Cluster

    cache = tmp_path_factory.mktemp("ray-cache")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        files = os.pathsep.join(driver_files())
        patch.setenv("VK_DRIVER_FILES", files)
        patch.setenv("VKNN_CACHE_DIR", str(cache))
        cluster = Cluster()
        cluster.add_node(
            num_cpus=getattr(request.module, "CPUS", 8),
            num_gpus=0,
            resources={"vulkan": len(files.split(os.pathsep))},
            include_dashboard=False,
            object_store_memory=200 << 20,
        )
        try:
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(scope="module")
def ray(ray_cluster: Any) -> Iterator[Any]:
    """Ray, joined to the cluster."""
    import ray

    ray.init(address=ray_cluster.address, logging_level="warning", log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    """Options of a job that takes a moment."""
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(240)], 8)
    return {
        "source": source, "model": model, "output": tmp_path / "out", "engine": "ray", "id": "id",
        "layers": [layers], "batch_size": 5,
    }  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pictures."""
    return write_small_model(tmp_path_factory.mktemp("model"))
