"""Measured speeds are remembered for the device that has them, and read with suspicion."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vknn.errors import VknnError
from vknn.plan import MeasuredSpeeds
from vknn.runtime import measured_speeds as speeds
from vknn.runtime.snapshot import Snapshot

CARD = Snapshot(name="card", kind="discrete", uuid=b"0123456789abcdef")
FAST = MeasuredSpeeds(gflops=16000.0, gbytes=400.0, dispatch=4e-6)


def test_they_come_back_for_the_same_device_and_driver(tmp_path: Path) -> None:
    assert speeds.load(tmp_path, CARD) is None
    path = speeds.store(tmp_path, CARD, FAST)
    assert path is not None and path.is_file()
    assert speeds.load(tmp_path, CARD) == FAST
    assert speeds.load(tmp_path, replace(CARD, driver_version=2)) is None
    speeds.store(tmp_path, CARD, replace(FAST, gflops=1.0))
    assert speeds.load(tmp_path, CARD) == replace(FAST, gflops=1.0)


@pytest.mark.parametrize("other", [{"kind": "cpu"}, {"is_null": True}])
def test_cpus_and_null_devices_have_none(tmp_path: Path, other: dict[str, object]) -> None:
    device = replace(CARD, **other)
    assert speeds.store(tmp_path, device, FAST) is None
    assert list(tmp_path.iterdir()) == []
    path = speeds.store(tmp_path, CARD, FAST)
    assert path is not None
    assert speeds.speeds_file(tmp_path, device) == path  # kind and null are no part of its name
    assert speeds.load(tmp_path, device) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gflops", 0),
        ("gbytes", -1.0),
        ("dispatch", "fast"),
        ("gflops", True),
        ("more", 1.0),
        # Estimates by these would be infinite, or raise OverflowError.
        ("gflops", 10**400),
        ("dispatch", 1e308),
        ("gbytes", 5e-324),
    ],
)
def test_what_makes_no_sense_is_ignored(tmp_path: Path, name: str, value: object) -> None:
    path = speeds.store(tmp_path, CARD, FAST)
    assert path is not None
    document = json.loads(path.read_text())
    document["speeds"][name] = value
    path.write_text(json.dumps(document))
    with pytest.warns(RuntimeWarning, match="--device-limits` writes a new one"):
        assert speeds.load(tmp_path, CARD) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "vknn speeds", "version": 2}'])
def test_damaged_files_are_ignored(tmp_path: Path, text: str) -> None:
    path = speeds.store(tmp_path, CARD, FAST)
    assert path is not None
    path.write_text(text)
    with pytest.warns(RuntimeWarning, match="is damaged and is ignored"):
        assert speeds.load(tmp_path, CARD) is None


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "speeds").write_text("no folder")
    with pytest.raises(VknnError, match="VKNN_CACHE_DIR names another directory"):
        speeds.store(tmp_path, CARD, FAST)
