"""Drivers that crash or hang while devices are listed, built from runtime/bad_driver."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.counting.layer import Unbuildable, headers
from tests.runtime.test_faults import LAYER, layer

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "runtime" / "bad_driver" / "driver.c"
#: Where a driver crashes or hangs.
STAGES = ("load", "instance", "enumerate", "properties", "destroy")


@functools.cache
def library() -> Path:
    """The library of the driver; the test is skipped where it cannot be built."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc)")
    shared = ROOT / ".cache" / "vulkan_layer"
    shared.mkdir(parents=True, exist_ok=True)
    try:
        include = headers(shared)
    except Unbuildable as error:
        pytest.skip(str(error))
    made = Path(tempfile.mkdtemp(prefix="vknn-driver-")) / "libbad_driver.so"
    flags = ["-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{include}"]
    subprocess.run([compiler, *flags, "-o", str(made), str(SOURCE)], check=True)
    return made


def manifest(folder: Path, name: str, path: str) -> Path:
    """The manifest of a driver whose library is ``path``."""
    file = folder / f"{name}.json"
    about = {"library_path": path, "api_version": "1.0.0"}
    file.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": about}))
    return file


def vknn(
    *arguments: str, drivers: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of vknn's with these drivers, by the loader's variable."""
    env = {**os.environ, "VK_DRIVER_FILES": drivers, "VK_ICD_FILENAMES": drivers}
    env["VKNN_VALIDATE"] = "0"  # layers of its own would be in the way
    return subprocess.run(
        [sys.executable, "-m", "vknn", *arguments],
        env={**env, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def working() -> str:
    """Manifests of the drivers of this machine, as the loader takes them."""
    from vknn.runtime.vulkan import drivers

    return os.pathsep.join(map(str, drivers.manifests()))


def names(text: str) -> list[str]:
    """Names of the devices in what `vknn devices --json` prints."""
    return [device["name"] for device in json.loads(text)]


def faulty(call: str, nth: int, way: str) -> dict[str, str]:
    """Variables under which the Nth call ends the process, or never ends."""
    found = layer()
    if isinstance(found, str):
        pytest.skip(f"needs the layer of faults: {found}")
    fault = f"{call}:{nth}:{way}"
    return {"VK_LAYER_PATH": str(found), "VK_INSTANCE_LAYERS": LAYER.name, "VKNN_FAULT": fault}
