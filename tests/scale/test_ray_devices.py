"""Which device a worker on Ray gets, and what a cluster cannot offer."""

from __future__ import annotations

import json
import os
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

#: For processes of a machine: every Vulkan device is a GPU of the kind that Ray counts.
FAKE_GPUS = """
import sys
sys.path.insert(0, {source!r})
from vknn.scale import accelerators
accelerators.cards_of = list
"""


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
    with ray_jobs.more(ray_cluster, num_cpus=2, num_gpus=2):
        report = scale.run(**job, device="gpu")
    assert report.rows == 240
    found = ray_jobs.processes(job["output"])
    assert sorted(len(own) for own in found.values()) == [1, 1]
    assert "numpy" not in found


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.skipif(not SWIFTSHADER.is_file(), reason="needs SwiftShader")
def test_two_workers_on_each_device(ray: Any, job: dict[str, Any], tmp_path: Path) -> None:
    numbers = [float(n) for n in range(960)]  # the last worker begins while there are records left
    job["source"] = ray_jobs.write_numbers(tmp_path / "many", numbers, 8)
    ray_jobs.check_devices(job, per_device=2)


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "numpy", "workers": 2}, "2 worker(s), each on NumPy"),
        ({"device": "uuid:1"}, "1 worker(s), each on device 'uuid:1' of its machine"),
        ({"device": "vulkan"}, "3 worker(s), each on a leased Vulkan device"),
        ({"per_device": 2}, "4 worker(s), each on a GPU of Ray's (0.5 of it each)"),
    ],
)
def test_workers_in_words(options: dict[str, Any], text: str) -> None:
    own = predictor(**options)
    assert pool_for(own, {"CPU": 8.0, "GPU": 2.0, "vulkan": 3.0}).text(own.device) == text


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
