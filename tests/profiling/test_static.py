"""The static profile where the driver says nothing, and how it is shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli import main
from vknn.errors import DeviceError, VknnError
from vknn.profiling import (
    StaticEntry,
    StaticPair,
    StaticProfile,
    static,
    static_difference,
)
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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--isa", "folder"], "--isa needs --static"),
        (["--against", "old.json"], "--against needs --static"),
        (["--static", "--against", "old.json", "--json"], "leave out --json"),
    ],
)
def test_options_of_static_alone(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(write_small_model(tmp_path)), *options]) == 2
    assert text in capsys.readouterr().err


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


def test_json_and_back() -> None:
    profile = StaticProfile("net", "GPU", (entry(registers=16, waves=None), entry()))
    assert StaticProfile.from_json(profile.to_json()) == profile


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": "", "device": "", "dispatches": [1]}'])
def test_json_of_something_else(text: str) -> None:
    with pytest.raises(VknnError, match="no static profile as JSON"):
        StaticProfile.from_json(text)


def test_difference() -> None:
    same, gone = entry(), dataclasses.replace(entry(), layers=("fc",), label="MatMul")
    before = StaticProfile("net", "GPU", (same, entry(registers=40, code=2048), gone))
    after = StaticProfile("net", "GPU", (same, entry(registers=32, code=1024)))
    found = static_difference(before, after)
    assert [pair.changed for pair in found.pairs] == [False, True, True]
    assert found.changed[0].before is before.entries[1]
    assert found.changed[1] == StaticPair(gone, None)
    text = str(found)
    assert "2 of 3 dispatches differ" in text and "40 -> 32" in text
    assert "2,048 -> 1,024" in text and "MatMul -> (none)" in text
    assert not static_difference(after, after).changed
