"""Which device a worker on Ray gets, and what a cluster cannot offer."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from scale import ray_jobs
from scale.ray_jobs import SWIFTSHADER
from vknn import scale
from vknn.cli import main
from vknn.errors import DeviceError, VknnError
from vknn.runtime import devices
from vknn.scale.cluster import check_schedulable, joined, pool_for
from vknn.scale.ray_node import options_for
from vknn.scale.ray_worker import BatchActor, Setup

#: A layer that takes a moment, so that all workers get records.
SLOW = """
import time
import numpy as np
import vknn

def compute(arrays, weights, options):
    time.sleep(0.03)
    return arrays[0] * np.float32(2)

vknn.register_layer("ncnn", "Slow", shape=lambda s, o: s[0], compute=compute)
"""
#: For processes of a machine: every Vulkan device is a GPU of the kind that Ray counts.
FAKE_GPUS = """
import sys
sys.path.insert(0, {source!r})
from vknn.scale import accelerators
accelerators.cards_of = list
"""


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    model, layers = ray_jobs.write_model(tmp_path, "Slow", SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(240)], 8)
    return {
        "source": source, "model": model, "output": tmp_path / "out", "engine": "ray", "id": "id",
        "layers": [layers], "batch_size": 5,
    }  # fmt: skip


def processes(folder: Path) -> dict[str, set[str]]:
    """The processes that computed on each device, which names of batches begin with."""
    found = defaultdict(set)
    for row in ray_jobs.rows(folder):
        found[row["device"]].add(row["batch"].split("-")[0])
    return found


@pytest.mark.device
@pytest.mark.skipif(not SWIFTSHADER.is_file(), reason="needs SwiftShader")
@pytest.mark.parametrize("per_device", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_each_worker_has_a_device_of_its_own(
    ray: Any, job: dict[str, Any], per_device: int
) -> None:
    report = scale.run(**job, device="vulkan", per_device=per_device)
    found = processes(job["output"])
    assert {name: len(own) for name, own in found.items()} == dict.fromkeys(found, per_device)
    assert len(found) == 2
    assert set(report.devices) == set(found)
    assert all(name.startswith("uuid:") for name in found)
    assert report.rows == 240


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.skipif(not SWIFTSHADER.is_file(), reason="needs SwiftShader")
def test_accelerators_of_ray(
    ray_cluster: Any, ray: Any, job: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    """Ray's numbers become Vulkan's devices; CUDA_VISIBLE_DEVICES would move nobody."""
    hook = tmp_path / "hook"
    hook.mkdir()
    source = str(Path(scale.__file__).parents[2])
    (hook / "sitecustomize.py").write_text(FAKE_GPUS.format(source=source))
    monkeypatch.setenv("PYTHONPATH", f"{hook}{os.pathsep}{os.environ['PYTHONPATH']}")
    with more(ray_cluster, num_cpus=2, num_gpus=2):
        report = scale.run(**job, device="gpu")
    assert report.rows == 240
    found = processes(job["output"])
    assert sorted(len(own) for own in found.values()) == [1, 1]
    assert "numpy" not in found


class more:
    """Block in which the cluster has a further node."""

    def __init__(self, cluster: Any, **options: Any) -> None:
        self._cluster, self._options = cluster, options

    def __enter__(self) -> None:
        os.environ["VK_DRIVER_FILES"] = self._options.pop("drivers", os.environ["VK_DRIVER_FILES"])
        self._node = self._cluster.add_node(object_store_memory=80 << 20, **self._options)

    def __exit__(self, *_: object) -> None:
        self._cluster.remove_node(self._node)


@pytest.mark.device
def test_a_machine_without_a_driver(
    ray_cluster: Any, ray: Any, job: dict[str, Any], monkeypatch: Any
) -> None:
    """An error before the job begins; its folder holds no rows."""
    monkeypatch.setenv("VK_DRIVER_FILES", os.environ["VK_DRIVER_FILES"])
    with (
        more(ray_cluster, num_cpus=1, resources={"vulkan": 1}, drivers="/no/driver.json"),
        pytest.raises(DeviceError, match="no Vulkan driver"),
    ):
        scale.run(**job, device="vulkan")
    assert not list(job["output"].glob("*.parquet"))


@pytest.mark.device
def test_a_machine_with_another_vknn(ray: Any, job: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr("vknn.scale.cluster.__version__", "99.0")
    with pytest.raises(VknnError, match=r"has vknn .*, and this one 99\.0"):
        scale.run(**job, device="vulkan")


@pytest.mark.device
def test_more_workers_than_devices(ray: Any, job: dict[str, Any]) -> None:
    with pytest.raises(DeviceError, match="at most"):
        scale.run(**job, device="vulkan", workers=9)
    with pytest.raises(DeviceError, match="no GPUs that Ray counts"):
        scale.run(**job, device="gpu")


def test_a_worker_of_another_vknn() -> None:
    """Where the machine came into the cluster behind the beginning of the job."""
    layout: Any = None
    setup = Setup(predictor(), layout, layout, "lease", None, version="99.0")
    with pytest.raises(VknnError, match=r"and the job is of vknn 99\.0"):
        BatchActor(setup)


def predictor(**options: Any) -> scale.Predictor:
    return scale.Predictor("net.param", **options)


def test_a_start_on_this_machine_joins_no_other_cluster(monkeypatch: Any) -> None:
    """Ray would join whatever runs here, where no address is given."""
    ray = pytest.importorskip("ray")
    given: dict[str, Any] = {}
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: given.update(options))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with joined(None):
        pass
    assert given["address"] == "local"
    assert given["num_cpus"] >= 4


def test_pools_of_a_cluster() -> None:
    offers = {"CPU": 8.0, "GPU": 2.0, "vulkan": 3.0}
    auto = pool_for(predictor(per_device=2), offers)
    assert (auto.mode, auto.size, auto.num_gpus) == ("gpu", 4, 0.5)
    leased = pool_for(predictor(device="vulkan"), offers)
    assert (leased.mode, leased.size, leased.resources) == ("lease", 3, (("vulkan", 1.0),))
    assert pool_for(predictor(), {"CPU": 8.0, "vulkan": 1.0}).mode == "lease"
    assert pool_for(predictor(), {"CPU": 8.0}).mode == "own"
    with pytest.raises(DeviceError, match="batch-node"):
        pool_for(predictor(device="vulkan"), {"CPU": 8.0})
    with pytest.raises(DeviceError, match="a processor each"):
        pool_for(predictor(device="numpy", workers=8), {"CPU": 8.0})


def test_a_resumed_job_that_could_not_go_on() -> None:
    """Ray's filter of what is done and its listing hold processors, and would wait for ever."""
    pool = pool_for(predictor(device="vulkan"), {"vulkan": 1.0})
    check_schedulable(pool, {"CPU": 2.0}, False)
    check_schedulable(pool, {"CPU": 4.0}, True)
    with pytest.raises(VknnError, match="3 logical processors"):
        check_schedulable(pool, {"CPU": 2.0}, True)


def test_options_of_a_node(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("vknn.scale.ray_node.devices", list)
    monkeypatch.setattr("vknn.scale.ray_node.counted_gpus", lambda: 0)
    monkeypatch.setattr("vknn.scale.ray_node.os.cpu_count", lambda: 2)
    assert main(["batch-node"]) == 0
    assert capsys.readouterr().out == "--num-cpus=4\n"
    assert main(["batch-node", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arguments"] == ["--num-cpus=4"]


@pytest.mark.device
def test_options_of_a_node_with_devices() -> None:
    found = options_for(devices(), 0, 64)
    assert found.num_cpus is None
    assert found.arguments == [f'--resources={{"vulkan": {found.vulkan}}}']
    assert found.vulkan == len(found.devices) >= 1
    assert options_for(devices(), 1, 64).arguments == []
