"""Jobs on Ray: what each of them must do, on one cluster; more behind the slow marker beside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale import ray_jobs
from scale.jobs import fixed_net
from scale.ray_jobs import LLVMPIPE, SWIFTSHADER
from small_model import write_small_model
from vknn import scale
from vknn.errors import DeviceError, VknnError

pytestmark = pytest.mark.device
#: Of the cluster: as many as Ray gets where it is started for a job on a small machine.
CPUS = 4

#: A layer as it should be, and a fault of SwiftShader, which begins at a certain value.
FAILING = """
import numpy as np
import vknn
from vknn.session import Session

vknn.register_layer(
    "ncnn", "Failing", shape=lambda s, o: s[0], compute=lambda a, w, o: a[0] * np.float32(2)
)

if not hasattr(Session, "right_stream"):
    Session.right_stream = Session.stream

    def stream(self, items, *arguments, **options):
        for found in Session.right_stream(self, items, *arguments, **options):
            wrong = self.device is not None and "SwiftShader" in self.device.name
            if wrong and not isinstance(found, Exception) and found["out"].reshape(-1)[0] >= 2 * 60:
                found["out"] = found["out"] + np.float32(1)
            yield found

    Session.stream = stream
"""


def test_pictures(ray: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken pictures and one that vanishes have a row each: Ray's reader would end the job."""
    pictures = ray_jobs.write_pictures(tmp_path / "pictures", 40, broken=(3, 17))
    (pictures / "0005.png").write_bytes(b"")
    found = scale.job.find_source(pictures)
    os.remove(pictures / "0008.png")
    monkeypatch.setattr(scale.job, "find_source", lambda given: found)
    options = {**LLVMPIPE, "batch_size": 8}
    local = scale.run(pictures, model, tmp_path / "local", engine="local", **options)
    report = scale.run(pictures, model, tmp_path / "ray", engine="ray", **options)
    assert report.rows == 40
    assert report.errors == local.errors
    assert report.error_count == 4
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "path", ["out"])
    rows = {os.path.basename(r["path"]): r for r in ray_jobs.rows(tmp_path / "ray")}
    assert "cannot be read" in rows["0008.png"]["error"]["message"]
    assert not Path(f"{tmp_path / 'ray'}.checkpoint").exists()


def test_a_table(ray: Any, model: Path, tmp_path: Path) -> None:
    table = ray_jobs.write_table(tmp_path / "table.parquet", 30, broken=(4,))
    options = {**LLVMPIPE, "columns": {"data": "image"}, "id": "url", "keep": ["width"]}
    for engine in ("local", "ray"):
        report = scale.run(table, model, tmp_path / engine, engine=engine, **options)
        assert (report.rows, report.error_count) == (30, 1)
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "url", ["width", "out"])


@pytest.mark.parametrize("good", [pytest.param(True, marks=pytest.mark.slow), False])
def test_records_that_cannot_be_computed_come_first(ray: Any, tmp_path: Path, good: bool) -> None:
    """Rows with errors, as in one process: of nulls, of another shape, and where none is right."""
    model = fixed_net(tmp_path, 3)
    data = [None, [1.0, 2.0], *([[-1.0, 2.0, -3.0]] if good else [])]
    made = pa.table({"id": range(len(data)), "data": pa.array(data, pa.list_(pa.float32()))})
    pq.write_table(made, tmp_path / "t.parquet")
    found = {}
    for engine in ("local", "ray"):
        report = scale.run(
            tmp_path / "t.parquet", model, tmp_path / engine, engine=engine, id="id",
            device="llvmpipe",
        )  # fmt: skip
        assert report.state == "done" and report.errors == {"InputError": 2}
        rows = ray_jobs.answers(tmp_path / engine).drop_columns(["batch"]).to_pylist()
        told = json.loads((tmp_path / engine / "_vknn" / "job.json").read_text())
        kept = {k: v for k, v in told.items() if k not in ("begun", "stacked", "report")}
        found[engine] = sorted(rows, key=lambda row: row["id"]), report.notes, kept
    assert found["ray"] == found["local"]
    rows, notes, _ = found["ray"]
    assert [row["error"] is None for row in rows] == [False, False, *([True] if good else [])]
    assert "is null" in rows[0]["error"]["message"]
    assert rows[1]["error"]["message"].startswith(f"{model.name}: "), "no machine's path"
    assert [note.split(";")[0] for note in notes] == (
        [] if good else ["no record could be computed"]
    )
    assert not good or np.ravel(rows[2]["y"]).tolist() == [1.0, 2.0, 3.0]


def test_stacked_runs(ray: Any, model: Path, tmp_path: Path) -> None:
    for engine in ("local", "ray"):
        report, _ = _stacked(model, tmp_path, engine, 8)
        assert (report.rows, report.error_count) == (200, 0)
    ray_jobs.assert_same(tmp_path / "ray-8", tmp_path / "local-8", "row", ["out"])


@pytest.mark.slow
def test_measured_stacked_runs(ray: Any, model: Path, tmp_path: Path) -> None:
    """What is measured is the same for all workers, and kept for later runs."""
    report, document = _stacked(model, tmp_path, "ray", None, 1000)
    (device,) = report.devices.values()
    assert document["stacked"] == {device.name: device.stacked}


def _stacked(
    model: Path, folder: Path, engine: str, stacked: int | None, rows: int = 200
) -> tuple[scale.Report, dict[str, Any]]:
    """The report of a job of an array's rows, and what is kept of it."""
    source, output = folder / "rows.npy", folder / f"{engine}-{stacked}"
    np.save(source, np.random.default_rng(0).random((rows, 3, 8, 8), np.float32))
    options = {"device": "llvmpipe", "batch_size": rows // 10, "stacked": stacked}
    report = scale.run(source, model, output, engine=engine, **options)
    return report, json.loads((output / "_vknn" / "job.json").read_text())


def test_too_many_errors(ray: Any, tmp_path: Path) -> None:
    """The error says how many, and what the last one was; a report says how far the job came."""
    model = write_small_model(tmp_path)
    pictures = ray_jobs.write_pictures(tmp_path / "pictures", 12, broken=(2, 5))
    options = {"device": "llvmpipe", "size": (8, 8)}
    with pytest.raises(scale.JobError, match=r"of \d+ records could not be.*errors=1") as caught:
        scale.run(pictures, model, tmp_path / "out", errors=1, engine="ray", **options)
    assert "Unreadable" in str(caught.value)
    assert caught.value.report is not None
    assert caught.value.report.state == "stopped"
    report = scale.run(pictures, model, tmp_path / "out", errors=2, engine="local", **options)
    assert (report.rows, report.error_count) == (12, 2)


@pytest.mark.timeout(120)
def test_the_command(ray_cluster: Any, ray: Any, tmp_path: Path) -> None:
    """JSON lines on stdout and nothing else there; stderr is quiet."""
    model = write_small_model(tmp_path)
    pictures = ray_jobs.write_pictures(tmp_path / "pictures", 20, broken=(2,))
    command = [sys.executable, "-m", "vknn", "batch", model, pictures, "--output", tmp_path / "out"]
    command += ["--address", ray_cluster.address, "--device", "llvmpipe", "--size", "8x8", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["rows"] == 20
    assert lines[-1]["errors"] == {"UnreadableFileError": 1}
    assert all(line["state"] == "running" for line in lines[:-1])
    assert done.stderr == ""


def test_a_finished_job_is_not_done_again(ray: Any, tmp_path: Path) -> None:
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [1.0, 2.0])
    options = {"id": "id", "layers": [layers], "device": "llvmpipe"}
    scale.run(source, model, tmp_path / "out", engine="local", **options)
    report = scale.run(source, model, tmp_path / "out", engine="ray", **options)
    assert (report.rows, report.new_rows) == (2, 0)


@pytest.mark.skipif(not SWIFTSHADER.is_file(), reason="needs SwiftShader")
def test_a_device_that_begins_to_compute_wrong(ray: Any, tmp_path: Path) -> None:
    """It is retired; what it wrote since its last good check is known, and computed again."""
    model, layers = ray_jobs.write_model(tmp_path, "Failing", FAILING)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(120)])
    options = {"id": "id", "layers": [layers], "batch_size": 4, "check": "1/4"}
    report = scale.run(
        source, model, tmp_path / "out", engine="ray", device="SwiftShader", workers=1, **options
    )
    before = {row["id"]: row for row in ray_jobs.rows(tmp_path / "out")}
    assert len(before) == report.rows == 120
    (retired,) = [d for d in report.devices.values() if d.retired]
    assert "disagrees with NumPy" in str(retired.retired)
    suspect = pq.read_table(tmp_path / "out" / "_vknn" / "suspect.parquet").to_pylist()
    ids = {row["id"] for row in suspect}
    assert len(ids) == len(suspect) == report.suspects
    wrong = {n for n, row in before.items() if row["out"] != [2.0 * n] * 8}
    assert wrong <= ids
    assert min(ids) > 20  # what was checked before is not doubted
    assert {before[n]["device"] for n in ids} != {"numpy"}
    assert {before[n]["device"] for n in range(110, 120)} == {"numpy"}

    again = scale.run(
        source, model, tmp_path / "out", engine="local", device="llvmpipe", redo_suspect=True,
        **options,
    )  # fmt: skip
    after = {row["id"]: row for row in ray_jobs.rows(tmp_path / "out")}
    assert (again.rows, again.suspects) == (120, 0)
    assert all(row["out"] == [2.0 * n] * 8 for n, row in after.items())
    assert {n for n in after if after[n] != before[n]} == ids


@pytest.mark.skipif(not SWIFTSHADER.is_file(), reason="needs SwiftShader")
def test_each_worker_has_a_device_of_its_own(ray: Any, job: dict[str, Any]) -> None:
    ray_jobs.check_devices(job, per_device=1)


def test_a_machine_without_a_driver(
    ray_cluster: Any, ray: Any, job: dict[str, Any], monkeypatch: Any
) -> None:
    """An error before the job begins; its folder holds no rows."""
    monkeypatch.setenv("VK_DRIVER_FILES", os.environ["VK_DRIVER_FILES"])
    with (
        ray_jobs.more(ray_cluster, num_cpus=1, resources={"vulkan": 1}, drivers="/no/driver.json"),
        pytest.raises(DeviceError, match="no Vulkan driver"),
    ):
        scale.run(**job, device="vulkan")
    assert not list(job["output"].glob("*.parquet"))


def test_a_machine_with_another_vknn(ray: Any, job: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr("vknn.scale.cluster.__version__", "99.0")
    with pytest.raises(VknnError, match=r"has vknn .*, and this one 99\.0"):
        scale.run(**job, device="vulkan")


def test_more_workers_than_devices(ray: Any, job: dict[str, Any]) -> None:
    with pytest.raises(DeviceError, match="at most"):
        scale.run(**job, device="vulkan", workers=9)
    with pytest.raises(DeviceError, match="no GPUs that Ray counts"):
        scale.run(**job, device="gpu")


@pytest.mark.parametrize(
    "device", ["uuid:00000000-0000-0000-0000-000000000001", "pci:0000:3b:00.0", "no such card"]
)
def test_a_device_that_no_machine_has(ray: Any, job: dict[str, Any], device: str) -> None:
    """An error before the job begins: no worker is started to find it out."""
    with pytest.raises(DeviceError, match="no machine of the cluster has the device: machine"):
        scale.run(**job, device=device)
    dataset = ray.data.range(3).map_batches(lambda batch: {"data": batch["id"]})
    with pytest.raises(DeviceError, match="no machine of the cluster has the device: machine"):
        scale.predict(dataset, job["model"], layers=job["layers"], device=device)
