"""Bundles of the benchmark networks on GPUs that are not here: opened and run under validation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bundle import build
from tests.bundle.edits import without_barriers
from tests.bundle.networks import input_of
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
            shapes = {input_of(models[name]): NETWORKS[name]}
            options = {"precision": precision, "example": False}
            vknn.export(models[name], path, shapes=shapes, targets=target, **options)
        return path

    return made


def own_target(device: str) -> str:
    if device == "m1":
        return "apple"
    return f"adreno-{device[1]}xx" if device[0] == "a" else "desktop"


def check_opened(device: str, bundles: list[tuple[Path, str]]) -> None:
    """Asserts that bundles open and run on a device, by these targets, and that all is silent."""
    paths = [str(path) for path, _ in bundles]
    done = start(
        device,
        ["-m", "tests.null_devices.opened_bundles", str(build.library()), *paths],
        2800,
        PYTHONPATH=PATH,
        VKNN_NULL_DEVICE="1",
        **VALIDATION,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    wanted = [(path.name, target) for path, target in bundles for _ in range(2)]
    assert [(one["file"], one["target"]) for one in told] == wanted
    said = done.stderr + "".join(line for line in lines if not line.startswith("{"))
    for word in ("VUID", "SYNC-HAZARD", "Validation", "rror"):
        assert word not in said, said[:3000]


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("networks", [QUICK, pytest.param((*NETWORKS,), marks=pytest.mark.slow)])
@pytest.mark.parametrize("device", named_devices([*DEVICES, "a630", "a750"], QUICK_DEVICES))
def test_bundles(device: str, networks: tuple[str, ...], precision: str, bundles: Bundles) -> None:
    """Those of the device's own target, and those for any device."""
    targets = [own_target(device), *(["generic"] if precision == "fp32" else [])]
    paths = [bundles(name, target, precision) for name in networks for target in targets]
    check_opened(device, [*zip(paths, targets * len(networks), strict=True)])


@pytest.mark.parametrize("device", named_devices(["navi31", "a740"], QUICK_DEVICES))
def test_validation_is_listened_to(device: str, bundles: Bundles, tmp_path: Path) -> None:
    bad = without_barriers(bundles("squeezenet", "generic", "fp32"), tmp_path / "bad.vkb")
    program = ["-m", "tests.null_devices.opened_bundles", str(build.library()), str(bad)]
    done = start(device, program, PYTHONPATH=PATH, VKNN_NULL_DEVICE="1", **VALIDATION)
    assert "SYNC-HAZARD" in done.stdout + done.stderr


@pytest.mark.parametrize("device", named_devices(["navi31", "nv172", "a740"], QUICK_DEVICES))
def test_bundles_for_the_limits_that_a_device_tells(
    device: str, shared: Path, tmp_path: Path
) -> None:
    """With cooperative matrices, where it has them."""
    limits, bundle = tmp_path / "limits.json", tmp_path / "own.vkb"
    told = start(device, ["-m", "vknn", "devices", "--json"], PYTHONPATH=PATH)
    limits.write_text(json.dumps(json.loads(told.stdout)[0]))
    model = write_network(shared, "squeezenet", tmp_path)
    shapes = {input_of(model): NETWORKS["squeezenet"]}
    done = vknn.export(
        model, bundle, shapes=shapes, targets=limits, precision="fp16", arithmetic="fp16",
        example=False,
    )  # fmt: skip
    has_matrices = "cooperative_matrix" in done.plans[0].needs["features"]
    assert has_matrices is (device != "a740")
    check_opened(device, [(bundle, done.plans[0].target)])
