"""The NumPy reference under each of its names, wherever a device is chosen; needs no driver."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli import main
from vknn.profiling import bench, profile
from vknn.runtime.device_selection import HOST_DEVICES
from vknn.tuning import tune

NAMES = ["numpy", "cpu", "CPU", "reference"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def _no_device_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose name has "cpu" in it would be found; the reference opens none."""

    def refuse(*_: object) -> None:
        raise AssertionError("the reference needs no Vulkan device")

    monkeypatch.setattr("vknn.opening.open_device", refuse)


def feeds() -> dict[str, np.ndarray]:
    return {"data": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}


def test_every_name_is_tried() -> None:
    assert {name.lower() for name in NAMES} == set(HOST_DEVICES)


@pytest.mark.parametrize("name", NAMES)
def test_session(model: Path, name: str) -> None:
    with vknn.Session(model, device=name) as session:
        assert session.device is None
        assert session.run(feeds())["out"].shape == (5,)
        assert set(session.placement.values()) == {"host"}


@pytest.mark.parametrize("name", NAMES)
def test_switch(model: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by VKNN_DEVICE it is no makeshift that a warning is about."""
    monkeypatch.setenv("VKNN_DEVICE", name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with vknn.Session(model) as session:
            assert session.device is None
    with pytest.raises(vknn.DeviceError, match="is the NumPy reference"):
        vknn.runtime.open_device()


def test_verify(model: Path) -> None:
    report = vknn.verify(model, feeds(), device="cpu")
    assert report.ok
    assert report.device == "NumPy"
    assert {row.placement for row in report.rows} == {"host"}


def test_profile_and_bench(model: Path) -> None:
    assert profile(model, feeds(), device="cpu", runs=1, warmup=0).device == "NumPy"
    assert bench(model, feeds(), device="cpu", runs=1, warmup=0).device == "NumPy"


def test_tuning_says_that_it_needs_another(model: Path) -> None:
    with pytest.raises(vknn.DeviceError, match="tuning needs a Vulkan device"):
        tune(model, device="cpu")


def test_command_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "data.npy"
    np.save(file, feeds()["data"])
    runs = ["--runs", "1", "--warmup", "0"]
    for command, status in (
        (["run", model, "--input", file], 0),
        (["verify", model], 1),  # nothing was compared
        (["profile", model, *runs], 0),
        (["bench", model, *runs], 0),
    ):
        assert main([*map(str, command), "--device", "cpu", "--json"]) == status
        found = json.loads(capsys.readouterr().out)
        assert found["device"] == "NumPy"
    assert main(["bench", "--device-limits", "--device", "cpu"]) == 2
    assert "--device-limits needs a Vulkan device" in capsys.readouterr().err
    monkeypatch.setenv("VKNN_DEVICE", "cpu")
    assert main(["bench", "--device-limits"]) == 2
    assert "a Vulkan device is needed" in capsys.readouterr().err
