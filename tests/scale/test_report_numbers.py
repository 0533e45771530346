"""Reports and plans are JSON (RFC 8259), whatever numbers there were: it has no NaN and no inf."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.jobs import PROBE, document, elementwise, job, table, vectors, write_net

import vknn
from vknn import scale
from vknn.scale.plan import JobPlan
from vknn.scale.report import DeviceReport, Report, report_of

#: No number, where NumPy has twice a number.
NONE = elementwise("STORE1(y, i, LOAD1(x, i) * uintBitsToFloat(0x7fc00000));")


def strict(text: str) -> Any:
    """The document of JSON as other languages read it."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_largest_errors_without_bound() -> None:
    report = Report("out", devices={"d": DeviceReport("Card", largest_error=math.inf)})
    found = strict(report.to_json())
    assert found["devices"]["d"]["largest_error"] is None
    assert report_of(found) == report
    assert "largest error" not in str(report)  # of no check


def test_what_nobody_measures_is_not_told() -> None:
    """Ray's tasks write, and say nothing of the time: 0 would be no figure."""
    for engine, told, text in (("local", 1.5, ", writing 1.5 s"), ("ray", None, "")):
        seconds = told or 0.0
        report = Report("out", engine=engine, seconds=9.0, writing_seconds=seconds)
        found = strict(report.to_json())
        assert found["writing_seconds"] == told and report_of(found) == report
        assert f"waiting for inputs 0.0 s{text}, memory 0 MiB" in str(report)


def test_plans_of_answers_that_are_no_numbers() -> None:
    rows = [{"id": 1, "seconds": 0.5, "error": None, "label": "cat", "probability": math.nan}]
    source = {"kind": "pictures", "files": 1, "bytes": 1, "records": None}
    plan = JobPlan(source, 0, "local", [], {}, {}, None, rows=rows)
    assert strict(plan.to_json())["rows"] == [{**rows[0], "probability": None}]
    assert "cat (nan)" in str(plan)


@pytest.mark.device
def test_a_device_that_gives_no_numbers(tmp_path: Path) -> None:
    vknn.register_layer(
        "ncnn", "NoNumbers", shape=lambda shapes, options: shapes[0], replace=True,
        compute=lambda arrays, weights, options: arrays[0] * np.float32(2),
        shader=vknn.Shader(NONE, push=lambda i, o, options: [int(np.prod(o[0]))]),
    )  # fmt: skip
    source = table(tmp_path / "t.parquet", vectors(4))
    net = write_net(tmp_path, PROBE.replace("Probe", "NoNumbers"))
    try:
        with pytest.raises(scale.JobError, match="disagrees with NumPy") as caught:
            job(source, net, tmp_path / "out", id="id", device="vulkan")
    finally:
        vknn.unregister_layer("ncnn", "NoNumbers")
    report = caught.value.report
    assert report is not None and [d.largest_error for d in report.devices.values()] == [math.inf]
    assert "largest error inf of what is allowed" in str(report)
    strict(report.to_json())
    strict((tmp_path / "out" / "_vknn" / "job.json").read_text("utf-8"))
    assert document(tmp_path / "out")["state"] == "stopped"
