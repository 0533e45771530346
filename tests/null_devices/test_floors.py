"""Floors of compiled kernels, and modelled times, held where they are.

A kernel that spills, whose code outgrows the instruction cache or of which too few waves fit is an
error unless golden/static_floors.json lists it as known; so is a network whose modelled time grows
by more than 5 % over the one there, or in whose hot loops multiply-adds have a smaller part. Slow
tests hold the kernels of all networks, without exception.
After a wanted change: VKNN_UPDATE_GOLDEN=1 pytest tests/null_devices/test_floors.py, and read the
difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.counting import made
from tests.null_devices.jobs import do, model_job, named_devices, selected_devices
from tests.peers.ncnn.networks import NETWORKS as SIZES

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched

GOLDEN = Path(__file__).parent / "golden" / "static_floors.json"
#: Networks of large convolutions, of small and depthwise ones, of chains, with precisions; devices
#: whose machine code is read and others whose times are coarse.
NETWORKS = {
    "navi21": (("resnet18", "shufflenet_v2"), ("fp32", "fp16")),
    "nv172": (("resnet18", "shufflenet_v2"), ("fp32", "fp16")),
    "navi31": (("mobilenet_v3",), ("fp16",)),
    "a740": (("mobilenet_v3",), ("fp16",)),
    "m1": (("mobilenet_v3",), ("fp16",)),
    "raven": (("mobilenet_v3", "efficientnet_b0"), ("fp16",)),
}
GROWTH = 1.05
#: Most that multiply-adds' part of hot loops may be below what is recorded.
SHARE_LOST = 0.01
#: Real models, and the seconds that a process takes for all of them.
FORMATS = ("coreml", "ncnn", "onnx", "openvino", "tflite")
REAL_MODELS = ("*.param", "*.tflite", "*.mlmodel", "*.xml", "*.onnx")
LONG = 3600
#: Device -> least waves (warps) as its driver counts them (RADV counts a wave of 64 lanes as two on
#: RDNA), and most bytes of code; None where it does not count.
BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "navi21": (8, 16 << 10),
    "navi31": (8, 16 << 10),
    "nv172": (16, 32 << 10),
    "a740": (1, None),
    "m1": (None, None),
    "raven": (2, 16 << 10),
}
#: Devices whose networks are held to them; Intel's driver counts spills and scratch alone.
NETWORK_BOUNDS = {**BOUNDS, "dg2": (None, None)}


def selected(bounds: Iterable[str]) -> list[str]:
    """Those of the devices that are to be tested."""
    names = tuple(bounds)
    return [name for name in names if name in selected_devices(names)]


@pytest.mark.parametrize("device", named_devices([*NETWORKS], ("navi21", "a740", "m1")))
def test_floors(device: str, shared: Path) -> None:
    folder = shared / "benchmark" / "ncnn"
    names, modes = NETWORKS[device]
    jobs = [
        {**model_job(folder / f"{name}.param", mode), "kind": "static"}
        for name in names
        for mode in modes
    ]
    for found in do(device, jobs):
        assert found["not_counted"] == [] and found["dispatches"] > 10
        check(f"{device} {found['name']}", found)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("device", selected(NETWORK_BOUNDS))
def test_no_kernel_of_any_network_is_below_a_floor(
    device: str, precision: str, shared: Path, tmp_path: Path
) -> None:
    files = [shared / "benchmark" / "ncnn" / f"{name}.param" for name in SIZES]
    jobs = [{**model_job(path, precision), "kind": "static"} for path in files]
    for name, shape in made.SHAPES.items():
        job = model_job(made.written(name, tmp_path), precision)
        jobs.append({**job, "kind": "static", "shape": shape})
    waves, code = NETWORK_BOUNDS[device]
    for found in do(device, jobs, 1000):
        context = f"{device} {found}"
        assert found["spilling"] == [] and found["violations"] == [], context
        assert found["dispatches"] > 10, context
        assert waves is None or found["waves"] >= waves, context
        assert code is None or 0 < found["code"] <= code, context


@pytest.mark.slow
@pytest.mark.timeout(2 * LONG)
@pytest.mark.parametrize("device", selected(BOUNDS))
def test_no_kernel_of_a_real_model_is_below_a_floor(device: str, shared: Path) -> None:
    """In all three arithmetics, with the parts that are compiled during a run."""
    paths = [
        p for f in FORMATS for ending in REAL_MODELS for p in shared.glob(f"models/{f}/{ending}")
    ]
    assert len(paths) > 40
    networks = [shared / "benchmark" / "ncnn" / f"{name}.param" for name in SIZES]
    jobs = [model_job(path, mode) for mode in ("fp32", "fp16") for path in sorted(paths)]
    jobs += [model_job(path, "fp16-arithmetic") for path in (*networks, *sorted(paths))]
    found = do(device, [{**job, "kind": "floors"} for job in jobs])
    below = [f"{device} {job['name']}: {text}" for job in found for text in job["below"]]
    assert below == []
    assert sum(job["dispatches"] for job in found) > 1000


@pytest.mark.timeout(700)
@pytest.mark.parametrize("device", named_devices([*BOUNDS], ("nv172",)))
def test_blocks_of_large_windows_leave_room_for_waves(device: str, shared: Path) -> None:
    """Inverted blocks of 5x5 taps in one dispatch, as a text detector has them."""
    path = shared / "models" / "onnx" / "ppocr_det_v3.onnx"
    if not path.exists():
        pytest.skip("shared/models/onnx is not there")
    jobs = [model_job(path, mode) for mode in ("fp32", "fp16-arithmetic")]
    for found in do(device, [{**job, "kind": "floors"} for job in jobs], 600):
        assert found["below"] == [], f"{device} {found}"
        assert found["dispatches"] > 50


@pytest.mark.parametrize("device", named_devices(["navi21"], ("navi21",)))
def test_a_plan_that_is_worse_fails(
    device: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real kernels: without fusion a network takes longer, and its dispatches are as good."""
    monkeypatch.delenv("VKNN_UPDATE_GOLDEN", raising=False)
    job = model_job(shared / "benchmark" / "ncnn" / "shufflenet_v2.param", "fp16")
    (found,) = do(device, [{**job, "kind": "static", "disable": ["fusion"]}])
    with pytest.raises(AssertionError, match="us modelled"):
        check(f"{device} {found['name']}", {**found, "share": None})


def check(key: str, found: dict[str, Any]) -> None:
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    time, share, violations = found["time"], found["share"], found["violations"]
    if os.environ.get("VKNN_UPDATE_GOLDEN"):
        known[key] = {"time": round(time, 1), "violations": violations}
        known[key] |= {} if share is None else {"share": round(share, 3)}
        GOLDEN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    record = known[key]
    assert set(violations) <= set(record["violations"]), f"{key}: below a floor"
    limit = GROWTH * record["time"]
    assert time <= limit, f"{key}: {time:.1f} us modelled, {record['time']} recorded"
    if share is not None:
        text = f"{key}: multiply-adds are {share:.3f} of hot loops, {record['share']} recorded"
        assert share >= record["share"] - SHARE_LOST, text


def recorded() -> tuple[str, dict[str, Any]]:
    """What is recorded of a device whose machine code is read."""
    known = json.loads(GOLDEN.read_text())
    return next((key, record) for key, record in known.items() if "share" in record)


def test_a_new_violation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKNN_UPDATE_GOLDEN", raising=False)
    key, record = recorded()
    more = [*record["violations"], "elementwise/unary Relu: spills"]
    with pytest.raises(AssertionError, match="below a floor"):
        check(key, {**record, "violations": more})


def test_a_longer_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKNN_UPDATE_GOLDEN", raising=False)
    key, record = recorded()
    check(key, {**record, "time": 1.04 * record["time"]})
    with pytest.raises(AssertionError, match="us modelled"):
        check(key, {**record, "time": 1.06 * record["time"]})


def test_hot_loops_that_multiply_less_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKNN_UPDATE_GOLDEN", raising=False)
    key, record = recorded()
    check(key, {**record, "share": record["share"] - 0.005})
    with pytest.raises(AssertionError, match="of hot loops"):
        check(key, {**record, "share": record["share"] - 0.02})
