"""Floors of compiled kernels, and modelled times, held where they are.

A kernel that spills, whose code outgrows the instruction cache or of which too few waves fit is an
error unless golden/static_floors.json lists it as known; so is a network whose modelled time grows
by more than 5 % over the one there. Slow tests hold the kernels of all networks, without exception.
After a wanted change: VKNN_UPDATE_GOLDEN=1 pytest tests/null_devices/test_floors.py, and read the
difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

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
    "raven": (("mobilenet_v3",), ("fp16",)),
}
GROWTH = 1.05
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
        check(f"{device} {found['name']}", found["time"], found["violations"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("device", [d for d in BOUNDS if d in selected_devices(tuple(BOUNDS))])
def test_no_kernel_of_any_network_is_below_a_floor(
    device: str, precision: str, shared: Path, tmp_path: Path
) -> None:
    files = [shared / "benchmark" / "ncnn" / f"{name}.param" for name in SIZES]
    jobs = [{**model_job(path, precision), "kind": "static"} for path in files]
    for name, shape in made.SHAPES.items():
        job = model_job(made.written(name, tmp_path), precision)
        jobs.append({**job, "kind": "static", "shape": shape})
    waves, code = BOUNDS[device]
    for found in do(device, jobs, 1000):
        context = f"{device} {found}"
        assert found["spilling"] == [] and found["violations"] == [], context
        assert found["dispatches"] > 10, context
        assert waves is None or found["waves"] >= waves, context
        assert code is None or 0 < found["code"] <= code, context


@pytest.mark.slow
@pytest.mark.timeout(2 * LONG)
@pytest.mark.parametrize("device", [d for d in BOUNDS if d in selected_devices(tuple(BOUNDS))])
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
