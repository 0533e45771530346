"""Records that end processes and devices that compute wrong, in jobs on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scale import ray_jobs
from vknn import scale
from vknn.scale import stages
from vknn.scale.exit_note import KILLED

pytestmark = pytest.mark.device

#: A layer in whose function the process ends where a value is below zero.
DEADLY = """
import os, signal
import numpy as np
import vknn

def compute(arrays, weights, options):
    if arrays[0].reshape(-1)[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return arrays[0] * np.float32(2)

vknn.register_layer("ncnn", "Deadly", shape=lambda s, o: s[0], compute=compute)
"""

#: The same layer, which does no harm; the process ends when the column of such an output is made.
DEADLY_TABLE = """
import os, signal
import numpy as np
import vknn
from vknn.scale.columns import OutputColumn

made = OutputColumn.array

def array(self, values, fills=False):
    if any(value is not None and value.reshape(-1)[0] < 0 for value in values):
        os.kill(os.getpid(), signal.SIGKILL)
    return made(self, values, fills)

OutputColumn.array = array
vknn.register_layer(
    "ncnn", "DeadlyTable", shape=lambda s, o: s[0], compute=lambda a, w, o: a[0] * np.float32(2)
)
"""

#: The same; the process ends when the rows of a batch with such a value are got, all at once.
DEADLY_ROWS = """
import os, signal
import numpy as np
import vknn
from vknn.scale.ray_batch import BatchReader

got = BatchReader.rows

def rows(self, batch):
    if any(row[0] < 0 for row in batch.table.column("data").to_pylist()):
        os.kill(os.getpid(), signal.SIGKILL)
    return got(self, batch)

BatchReader.rows = rows
vknn.register_layer(
    "ncnn", "DeadlyRows", shape=lambda s, o: s[0], compute=lambda a, w, o: a[0] * np.float32(2)
)
"""

#: A layer whose shader adds what its function does not.
WRONG = '''
import numpy as np
import vknn

SHADER = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
OUTPUT1F(1, y);
layout(push_constant) uniform P { int count; } p;
void main() {
    int i = linear_lane();
    if (i >= p.count) return;
    STORE1(y, i, LOAD1(x, i) * 2.0 + 1.0);
}
"""
vknn.register_layer(
    "ncnn", "Wrong", shape=lambda s, o: s[0], compute=lambda a, w, o: a[0] * np.float32(2),
    shader=vknn.Shader(SHADER, push=lambda i, outputs, o: [int(np.prod(outputs[0]))]),
)
'''


def of_forty(
    folder: Path, layer: str, layers: str, records: tuple[int, ...], device: str
) -> tuple[Any, dict[int, Any]]:
    """Report and rows by id of a job of 40 numbers, some of which end processes."""
    model, file = ray_jobs.write_model(folder, layer, layers)
    values = [-1.0 if number in records else float(number) for number in range(40)]
    source = ray_jobs.write_numbers(folder / "source", values)
    report = scale.run(
        source, model, folder / "out", engine="ray", id="id", device=device, workers=1,
        batch_size=4, layers=[file],
    )  # fmt: skip
    assert (report.rows, report.errors) == (40, {"ProcessDied": len(records)})
    return report, {row["id"]: row for row in ray_jobs.rows(folder / "out")}


@pytest.mark.slow
@pytest.mark.timeout(480)
@pytest.mark.parametrize("records", [(17,), pytest.param((17, 18, 19), marks=pytest.mark.slow)])
def test_records_that_end_processes(ray: Any, tmp_path: Path, records: tuple[int, ...]) -> None:
    """Rows with errors, and nothing else is lost; at the third one the device is retired."""
    report, rows = of_forty(tmp_path, "Deadly", DEADLY, records, "vulkan")
    for number in range(40):
        if number in records:
            assert rows[number]["error"]["attempts"] == 2
            message = rows[number]["error"]["message"]
            assert message.startswith("the process that computed it on uuid:"), message
            assert "ended 2 times (killed, such as" in message
            assert rows[number]["out"] is None
        else:
            assert rows[number]["out"] == [2.0 * number] * 8
    deaths = [device.deaths for device in report.devices.values()]
    batches = {rows[number]["batch"] for number in records}  # Ray may part them
    assert sum(deaths) == 2 * len(batches) + 2 * len(records)
    retired = [device.retired for device in report.devices.values() if device.retired]
    assert len(retired) == (len(records) >= 3)
    assert all("3 different records" in reason for reason in retired)


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_a_record_whose_table_ends_processes(ray: Any, tmp_path: Path) -> None:
    records = (17,)
    _, rows = of_forty(tmp_path, "DeadlyTable", DEADLY_TABLE, records, "numpy")
    for number in range(40):
        if number in records:
            message = rows[number]["error"]["message"]
            assert message.startswith("the process that read it, or made its row, "), message
            assert "ended 2 times (killed, such as" in message
            assert rows[number]["out"] is None
        else:
            assert rows[number]["out"] == [2.0 * number] * 8


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_a_batch_none_of_whose_records_is_to_blame(ray: Any, tmp_path: Path) -> None:
    model, layers = ray_jobs.write_model(tmp_path, "DeadlyRows", DEADLY_ROWS)
    values = [-1.0 if number == 6 else float(number) for number in range(8)]
    source = ray_jobs.write_numbers(tmp_path / "source", values)
    with pytest.raises(scale.JobError) as raised:
        scale.run(
            source, model, tmp_path / "out", engine="ray", id="id", device="numpy", workers=1,
            batch_size=4, layers=[layers],
        )  # fmt: skip
    assert str(raised.value) == (
        f"5 processes ended ({KILLED}) at a batch of 4 records, 4 to 7, and at none of them by "
        "itself: a smaller batch size may pass"
    )


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_pictures_that_end_the_process_that_decodes_them(
    ray: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is a process of a task's, beside the devices'. Two of one batch, and one of another."""
    source = ray_jobs.write_pictures(tmp_path / "in", 40, broken=(6,))
    numbers = (5, 7, 21)
    deadly = [ray_jobs.picture(number) for number in numbers]
    decode = stages.decode_stage

    def decode_stage(table: Any, **given: Any) -> Any:  # of a test: Ray sends its code along
        import os
        import signal

        from vknn.scale import records

        opened = getattr(records.open_picture, "opened", records.open_picture)

        def open_picture(path: Any, data: bytes) -> Any:
            if data in deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return opened(path, data)

        open_picture.opened = opened  # type: ignore[attr-defined]
        records.open_picture = open_picture
        return decode(table, **given)

    monkeypatch.setattr(stages, "decode_stage", decode_stage)
    report = scale.run(
        source,
        model,
        tmp_path / "out",
        engine="ray",
        device="numpy",
        workers=1,
        batch_size=8,
    )
    assert (report.rows, report.errors) == (40, {"ProcessDied": 3, "UnreadableFileError": 1})
    rows = ray_jobs.by_id(ray_jobs.answers(tmp_path / "out"), "path", ["error"])
    for number in range(40):
        (error,) = rows[str(source / f"{number:04d}.png")]
        if number in numbers:
            assert error == {
                "type": "ProcessDied",
                "message": "the process that read it, or made its row, ended 2 times",
                "attempts": 2,
            }
        else:
            assert (error is not None) == (number == 6)


@pytest.mark.slow
def test_a_device_that_computes_wrong_takes_no_work(ray: Any, tmp_path: Path) -> None:
    model, layers = ray_jobs.write_model(tmp_path, "Wrong", WRONG)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(20)])
    report = scale.run(
        source, model, tmp_path / "out", engine="ray", id="id", device="vulkan", workers=1,
        layers=[layers],
    )  # fmt: skip
    rows = ray_jobs.rows(tmp_path / "out")
    assert {row["device"] for row in rows} == {"numpy"}
    assert all(row["out"] == [2.0 * row["id"]] * 8 for row in rows)
    assert (len(rows), report.suspects) == (20, 0)
    retired = {name: d.retired for name, d in report.devices.items() if d.retired}
    assert len(retired) == int(ray.cluster_resources()["vulkan"])
    assert all("disagrees with NumPy" in str(reason) for reason in retired.values())
