"""The static profile where the driver says nothing, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli import main
from vknn.errors import DeviceError
from vknn.profiling import StaticEntry, StaticProfile, static
from vknn.profiling.static import NAMES

DATA = {"data": np.ones(SHAPE, np.float32)}


def entry(**numbers: int | None) -> StaticEntry:
    known: dict[str, int | None] = {**dict.fromkeys(NAMES, 0), **numbers}
    return StaticEntry(
        ("conv1", "relu"), "convolution/conv", "Conv tile1x1", (7, 1, 1), (64, 1, 1), 64, 7,
        statistics={"VGPRs": 16.0}, **known,
    )  # fmt: skip


def test_numpy_compiles_nothing(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="needs a Vulkan device"):
        static(write_small_model(tmp_path), DATA, device="numpy")


@pytest.mark.device
def test_a_driver_that_does_not_tell(tmp_path: Path) -> None:
    device = shared_device()
    if "pipeline_statistics" in device.limits.features:
        pytest.skip(f"{device.name} tells")
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        with pytest.raises(DeviceError, match="does not say what its compiler made"):
            static(session, DATA)
        session.run(DATA)  # nothing is broken by having asked


def test_isa_is_part_of_static(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_small_model(tmp_path)
    assert main(["profile", str(model), "--isa", str(tmp_path / "isa")]) == 2
    assert "--isa needs --static" in capsys.readouterr().err


def test_what_spills() -> None:
    assert not entry(spills=None, scratch=None).spilling
    assert entry(spills=3).spilling and entry(scratch=16).spilling


def test_table_and_json() -> None:
    profile = StaticProfile("net", "GPU", (entry(registers=16, code=1132, waves=None), entry()))
    text = str(profile)
    assert "net on GPU, 2 dispatches" in text and "1,132" in text and "conv1, relu" in text
    (first, _) = json.loads(profile.to_json())["dispatches"]
    assert first["registers"] == 16 and first["waves"] is None
    assert first["layers"] == ["conv1", "relu"] and first["statistics"] == {"VGPRs": 16.0}
    assert profile.table(limit=1).row_count == 1
