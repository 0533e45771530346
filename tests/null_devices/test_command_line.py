"""Null devices at the command line: never taken for real ones, and said to compute nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.null_devices.jobs import start
from tests.small_model import SHAPE, write_small_model

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("null")
    np.save(folder / "data.npy", np.ones(SHAPE, np.float32))
    return write_small_model(folder)


def vknn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return start("navi21", ["-m", "vknn", *arguments], PYTHONPATH=os.environ["PYTHONPATH"])


def on_the_model(command: str, model: Path, *more: str) -> subprocess.CompletedProcess[str]:
    data = str(model.with_name("data.npy"))
    return vknn(command, str(model), "--input", data, "--device", "navi21", *more)


def test_devices_says_what_it_is() -> None:
    done = vknn("devices", "--json")
    (device,) = json.loads(done.stdout)
    assert "NAVI21" in device["name"] and device["kind"] == "discrete"
    assert not device["usable"] and not device["default"]
    assert "computes nothing" in device["rejection"]


def test_names_have_no_blanks_around_them() -> None:
    """NVK's shim tells no chip: the driver's name for it ends with a blank."""
    path = os.environ["PYTHONPATH"]
    done = start("nv172", ["-m", "vknn", "devices", "--json"], PYTHONPATH=path)
    (device,) = json.loads(done.stdout)
    assert device["name"] == "NVK"


def test_its_address_means_it(model: Path) -> None:
    """RADV tells it by VK_EXT_pci_bus_info, and makes the UUID of it."""
    (device,) = json.loads(vknn("devices", "--json").stdout)
    assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", device["pci"])
    bus = int(device["pci"].split(":")[1], 16)
    assert bytes.fromhex(device["uuid"])[4:8] == bus.to_bytes(4, "little")
    uuid, address = device["names"]
    assert (uuid[:5], address) == ("uuid:", f"pci:{device['pci']}")
    data = str(model.with_name("data.npy"))
    done = vknn("run", str(model), "--input", data, "--device", address, "--null-device")
    assert done.returncode == 0, done.stderr
    assert "NAVI21) is a null device: nothing is computed" in done.stderr


@pytest.mark.parametrize("command", ["run", "verify", "bench", "profile", "tune"])
def test_commands_refuse_it_unless_asked(command: str, model: Path) -> None:
    done = on_the_model(command, model)
    assert done.returncode == 1
    assert "computes nothing" in done.stderr and done.stdout == ""


def test_tune_has_no_times_of_it(model: Path) -> None:
    done = on_the_model("tune", model, "--null-device")
    assert done.returncode == 1 and done.stdout == ""
    assert "computes nothing: it has no times to measure" in done.stderr


def test_run_takes_it_when_asked(model: Path) -> None:
    done = on_the_model("run", model, "--null-device")
    assert done.returncode == 0, done.stderr
    assert "NAVI21) is a null device: nothing is computed" in done.stderr


def test_verify_of_it_fails(model: Path) -> None:
    """It computes nothing, and that is seen."""
    done = on_the_model("verify", model, "--null-device")
    assert done.returncode == 1
    assert "is a null device" in done.stderr and "conv1" in done.stdout


def test_auto_never_means_it(model: Path) -> None:
    data = str(model.with_name("data.npy"))
    done = vknn("run", str(model), "--input", data, "--null-device", "--json")
    assert json.loads(done.stdout)["device"] == "NumPy"
    assert "no Vulkan device, running on NumPy" in done.stderr


@pytest.mark.parametrize("command", ["reduce", "bisect"])
def test_nothing_is_judged_by_what_it_computes(command: str, model: Path, tmp_path: Path) -> None:
    more = ["-o", str(tmp_path / "least")] if command == "reduce" else []
    for allowed in ([], ["--null-device"]):
        done = on_the_model(command, model, *more, *allowed)
        assert done.returncode == 1 and done.stdout == ""
        said = "is a null device: nothing is computed" if allowed else "computes nothing"
        assert said in done.stderr and not list(tmp_path.iterdir())
    done = on_the_model(command, model, *more, "--null-device", "--check", "true")
    assert done.returncode == 0, done.stderr  # the command finds nothing
