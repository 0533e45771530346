"""``vknn profile --versus`` on the device, by each kind of setting that it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import skip_without_half
from tests.small_model import SHAPE, write_small_model

from vknn.cli.main import main

pytestmark = pytest.mark.device

WORDS = {"faster", "slower", "same", "cannot tell", "only before", "only after"}


def compared(model: Path, other: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    given = ["profile", str(model), "--device", "vulkan", "--runs", "2", "--warmup", "0"]
    given += ["--shape", ",".join(map(str, SHAPE)), "--versus", other, "--pairs", "1", "--json"]
    assert main(given) == 0
    return json.loads(capsys.readouterr().out)


def complete(row: dict[str, Any]) -> bool:
    """Whether a row of both sides has times, their ratio, and a word."""
    times = row["before"] > 0 and row["after"] > 0
    ratio = row["ratio"] is not None and row["ratio"] > 0
    return times and ratio and 0 <= row["p"] <= 1 and row["word"] in WORDS


@pytest.mark.parametrize("other", ["--precision fp16", "--device cpu", "--disable fusion"])
def test_settings(other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "fp16" in other:
        skip_without_half()
    found = compared(write_small_model(tmp_path), other, capsys)
    assert found["unit"] == "runs"  # one process a side is too few to be counted
    assert other in found["after"] and other not in found["before"]
    assert complete(found["whole"])
    both = [row for row in found["rows"] if not row["word"].startswith("only")]
    assert both
    assert all(row["before"] is not None and row["after"] is not None for row in both)
    assert {"conv1", "fc"} <= {name for row in both for name in row["layers"]}
    assert all(complete(row) for row in both if row["before"] and row["after"])
    devices = [note for note in found["notes"] if "the devices differ" in note]
    assert bool(devices) == ("--device" in other)
    kernels = [row["kernels"] for row in both]
    if "--device" in other:
        assert {name for _, after in kernels for name in after} == {"numpy"}
