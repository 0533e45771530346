"""Networks on drivers of GPUs that are not here: planned, compiled, recorded, submitted, released.

Nothing is computed. Held is that no plan, shader or call is invalid there (validation and
synchronization validation are on), by both ways to memory, and that the driver's compiler takes
every pipeline.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.null_devices.jobs import (
    DEVICES,
    MODES,
    QUICK_DEVICES,
    SECONDS,
    SHARING,
    do,
    model_job,
    selected_devices,
)
from tests.peers.ncnn.networks import NETWORKS

#: Processes of their own, drivers to be fetched; more time than a job has, so that one that hangs
#: is a line and no end of the test.
pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * SECONDS)]

#: Of every run of the tests: a network with a detection's output, one of depthwise convolutions.
QUICK = {"yolov4-tiny": ("fp32", "fp16"), "shufflenet_v2": ("fp16", "bf16")}
REAL_MODELS = ("*.param", "*.tflite", "*.mlmodel", "*.xml", "*.onnx")
#: Seconds of many networks, of which some may hang.
LONG = 2400
FORMATS = ("ncnn", "tflite", "coreml", "openvino", "onnx")
#: What is staged, inputs and outputs, where a device need not: by whether it shares the memory.
WITHOUT_STAGING = {False: [False, True], True: [False, False]}
#: Models that had steps on the host: reductions in order, a cast to int64 at the end.
ONE_PLAN = ("style_transfer_dynamic.tflite", "deeplabv3_mnv2_dm05_pascal_quant.tflite")
#: Of a network whose dispatches all stand in the branches of an If.
BRANCHES = {"Equal"}


@pytest.mark.parametrize("device", selected_devices(QUICK_DEVICES))
def test_networks(device: str, shared: Path) -> None:
    jobs = [
        model_job(_network(shared, name), mode) for name, modes in QUICK.items() for mode in modes
    ]
    for found in do(device, jobs):
        assert found["dispatches"] > 30
        assert found["host"] == []
        assert found["staged"] == [True, True]
        assert found["mapped"] == WITHOUT_STAGING[device in SHARING]


@pytest.mark.parametrize("device", selected_devices(QUICK_DEVICES[:1]))
def test_no_step_is_the_host_s(device: str, shared: Path) -> None:
    folder = shared / "models" / "tflite"
    for found in do(device, [model_job(folder / name, "fp32") for name in ONE_PLAN]):
        assert (found["host"], found["segments"]) == ([], 1), found


@pytest.mark.slow
@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("device", selected_devices())
def test_every_model(device: str, mode: str, shared: Path) -> None:
    """The twelve networks and the real models of all formats, in one process: see memory_paths.

    Pipelines are specialized by the layer and the driver in fp32, elsewhere beforehand: see frozen.
    """
    networks = [_network(shared, name) for name in NETWORKS]
    real = [_real_models(shared / "models" / name) for name in FORMATS]
    assert len(networks) == 12 and min(map(len, real)) >= 5
    paths = [*networks, *itertools.chain(*real)]
    found = do(device, [model_job(path, mode, frozen=mode != "fp32") for path in paths])
    for path, job in zip(paths, found, strict=True):
        if path in networks:
            assert job["dispatches"] and job["host"] == [], job
        assert job["dispatches"] or set(job["host"]) & BRANCHES, job


def _real_models(folder: Path) -> list[Path]:
    return sorted(path for pattern in REAL_MODELS for path in folder.glob(pattern))


@pytest.mark.parametrize(("family", "expected"), [(None, [1, 1]), (0, [1, 0])])
def test_streams_with_a_second_queue(family: int | None, expected: list[int]) -> None:
    """Copies beside computing on AMD's driver: on a queue of the same family, on one of another."""
    (found,) = do(
        "navi21", [{"kind": "stream", "name": "stream", "arithmetic": "", "family": family}]
    )
    assert found["own_queue"]
    assert found["families"] == expected


def test_devices_are_known() -> None:
    assert set(QUICK_DEVICES) <= set(DEVICES)


def _network(shared: Path, name: str) -> Path:
    return shared / "benchmark" / "ncnn" / f"{name}.param"
