"""Memory that host and device share, by what drivers say of it: vknn's runtime and the C runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.bundle import build
from tests.null_devices.jobs import SHARING, named_devices, start

SWIFTSHADER = build.ROOT / ".cache" / "swiftshader" / "vk_swiftshader_icd.json"
PROGRAM = ("-m", "tests.bundle.memory_told")
PATH = os.pathsep.join((str(build.ROOT / "src"), str(build.ROOT)))

#: Devices whose host has memory of its own: behind small windows, behind whole BARs, of APUs.
APART = (
    *("polaris10", "polaris12", "vega20", "raven", "vangogh", "navi21", "navi31"),
    *("gfx1201", "nv172", "dg2"),
)
QUICK = ("a740", "m1", "tgl", "navi21", "navi31", "raven", "nv172")


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the program found, which both say alike."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["runner"] == ("shared" if found["runtime"] else "apart")
    return found


def here(**variables: str) -> dict[str, Any]:
    command = [sys.executable, *PROGRAM, str(build.library())]
    env = {**os.environ, "PYTHONPATH": PATH, "VKNN_VALIDATE": "0", **variables}
    return told(
        subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    )


@pytest.mark.long  # drivers to be fetched
@pytest.mark.parametrize("device", named_devices([*SHARING, *APART], QUICK))
def test_of_a_null_device(device: str) -> None:
    command = [*PROGRAM, str(build.library())]
    done = start(device, command, PYTHONPATH=PATH, VKNN_NULL_DEVICE="1", VKNN_VALIDATE="0")
    assert told(done)["runtime"] is (device in SHARING)


@pytest.mark.device
def test_of_the_device_at_hand() -> None:
    found = here()
    assert found["runtime"] or found["kind"] != "cpu"


@pytest.mark.device
def test_of_swiftshader() -> None:
    if not SWIFTSHADER.exists():
        pytest.skip("needs SwiftShader (tools/test fetches it)")
    found = here(VK_ICD_FILENAMES=str(SWIFTSHADER), VK_DRIVER_FILES=str(SWIFTSHADER))
    assert "SwiftShader" in found["name"]
    assert found["runtime"]
