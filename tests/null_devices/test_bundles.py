"""Bundles of the benchmark networks on GPUs that are not here: opened and run under validation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bundle import build
from tests.bundle.edits import without_barriers
from tests.null_devices.jobs import DEVICES, QUICK_DEVICES, named_devices, start
from tests.peers.ncnn.networks import NETWORKS, write_network

import vknn

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched

QUICK = ("squeezenet",)
PATH = os.pathsep.join((str(build.ROOT / "src"), str(build.ROOT)))
VALIDATION = {
    "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
    "VK_LAYER_VALIDATE_SYNC": "1",
    "VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC": "1",
}

#: The bundle of a network for a target, in a precision: made once.
Bundles = Callable[[str, str, str], Path]


@pytest.fixture(scope="session")
def bundles(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    folder = tmp_path_factory.mktemp("bundles")
    models: dict[str, Path] = {}

    def made(name: str, target: str, precision: str) -> Path:
        path = folder / f"{name}-{target}-{precision}.vkb"
        if name not in models:
            models[name] = write_network(shared, name, folder)
        if not path.exists():
            shapes = {"data": NETWORKS[name]}
            options = {"precision": precision, "example": False}
            vknn.export(models[name], path, shapes=shapes, targets=target, **options)
        return path

    return made


def own_target(device: str) -> str:
    if device == "m1":
        return "apple"
    return f"adreno-{device[1]}xx" if device[0] == "a" else "desktop"


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("networks", [QUICK, pytest.param((*NETWORKS,), marks=pytest.mark.slow)])
@pytest.mark.parametrize("device", named_devices([*DEVICES, "a630", "a750"], QUICK_DEVICES))
def test_bundles(device: str, networks: tuple[str, ...], precision: str, bundles: Bundles) -> None:
    """Those of the device's own target, and those for any device."""
    targets = [own_target(device), *(["generic"] if precision == "fp32" else [])]
    paths = [bundles(name, target, precision) for name in networks for target in targets]
    done = start(
        device,
        ["-m", "tests.null_devices.opened_bundles", str(build.library()), *map(str, paths)],
        2800,
        PYTHONPATH=PATH,
        VKNN_NULL_DEVICE="1",
        **VALIDATION,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = [(told["file"], told["target"]) for told in map(json.loads, lines)]
    assert found == [
        (path.name, target)
        for path, target in zip(paths, targets * len(networks), strict=True)
        for _ in range(2)
    ]
    said = done.stderr + "".join(x for x in done.stdout.splitlines() if not x.startswith("{"))
    for word in ("VUID", "SYNC-HAZARD", "Validation", "rror"):
        assert word not in said, said[:3000]


@pytest.mark.parametrize("device", named_devices(["navi31", "a740"], QUICK_DEVICES))
def test_validation_is_listened_to(device: str, bundles: Bundles, tmp_path: Path) -> None:
    bad = without_barriers(bundles("squeezenet", "generic", "fp32"), tmp_path / "bad.vkb")
    program = ["-m", "tests.null_devices.opened_bundles", str(build.library()), str(bad)]
    done = start(device, program, PYTHONPATH=PATH, VKNN_NULL_DEVICE="1", **VALIDATION)
    assert "SYNC-HAZARD" in done.stdout + done.stderr
