"""Floors of compiled kernels, and modelled times, held where they are.

A kernel that spills, whose code outgrows the instruction cache or of which too few waves fit is an
error unless golden/static_floors.json lists it as known; so is a network whose modelled time grows
by more than 5 % over the one there. After a wanted change:
VKNN_UPDATE_GOLDEN=1 pytest tests/null_devices/test_floors.py, and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.null_devices.jobs import do, model_job, selected_devices

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched

GOLDEN = Path(__file__).parent / "golden" / "static_floors.json"
#: One whose machine code is read, one whose times are coarse.
DEVICES = ("navi21", "nv172")
#: One of large convolutions, one of small and depthwise ones.
NETWORKS = ("resnet18", "shufflenet_v2")
GROWTH = 1.05


@pytest.mark.parametrize("device", [d for d in DEVICES if d in selected_devices()])
def test_floors(device: str, shared: Path) -> None:
    folder = shared / "benchmark" / "ncnn"
    jobs = [
        {**model_job(folder / f"{name}.param", mode), "kind": "static"}
        for name in NETWORKS
        for mode in ("fp32", "fp16")
    ]
    for found in do(device, jobs):
        assert found["not_counted"] == [] and found["dispatches"] > 10
        check(f"{device} {found['name']}", found["time"], found["violations"])


def check(key: str, time: float, violations: list[str]) -> None:
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("VKNN_UPDATE_GOLDEN"):
        known[key] = {"time": round(time, 1), "violations": violations}
        GOLDEN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    assert set(violations) <= set(known[key]["violations"]), f"{key}: below a floor"
    limit = GROWTH * known[key]["time"]
    assert time <= limit, f"{key}: {time:.1f} us modelled, {known[key]['time']} recorded"


def test_a_new_violation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKNN_UPDATE_GOLDEN", raising=False)
    known = json.loads(GOLDEN.read_text())
    key, record = next(iter(known.items()))
    with pytest.raises(AssertionError, match="below a floor"):
        check(key, record["time"], [*record["violations"], "elementwise/unary Relu: spills"])


def test_a_longer_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKNN_UPDATE_GOLDEN", raising=False)
    known = json.loads(GOLDEN.read_text())
    key, record = next(iter(known.items()))
    check(key, 1.04 * record["time"], [])
    with pytest.raises(AssertionError, match="us modelled"):
        check(key, 1.06 * record["time"], [])
