"""Counters, held against those of a layer whose numbers are known (tests/runtime/counter_layer)."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.counting.layer import Layer, Unbuildable, built
from tests.helpers import shared_device
from tests.reports.test_command import data_of

import vknn
from small_model import write_small_model
from vknn.profiling import Profile, count, counters
from vknn.runtime import counters as runtime_counters
from vknn.runtime.snapshot import Snapshot

pytestmark = pytest.mark.device

ROOT = Path(__file__).resolve().parents[2]
LAYER = Layer(
    "VK_LAYER_VKNN_counters",
    ROOT / "tests" / "runtime" / "counter_layer",
    "offers counters with known numbers",
)
VALIDATION = "VK_LAYER_KHRONOS_validation"


@functools.cache
def _layer() -> Path | str:
    """The folder of the built layer, or why there is none."""
    try:
        return built(ROOT / ".cache", LAYER)
    except Unbuildable as error:
        return str(error)


def _profile(model: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``vknn profile --counters`` under the layer, which lies below that of validation."""
    found = _layer()
    if isinstance(found, str):
        pytest.skip(f"needs the layer of counters: {found}")
    environment = {**os.environ, "VK_ADD_LAYER_PATH": str(found), **variables}
    validating = environment.get("VKNN_VALIDATE", "0") != "0"
    environment["VK_INSTANCE_LAYERS"] = ":".join([VALIDATION] * validating + [LAYER.name])
    command = [sys.executable, "-m", "vknn", "profile", str(model), "--device", "vulkan"]
    command += ["--json", "--counters", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _document(model: Path, *options: str, told: bool = False) -> Any:
    """The JSON that is printed; ``told``: whether a line about the roofline comes with it."""
    done = _profile(model, *options)
    assert done.returncode == 0, done.stderr
    # SwiftShader prints the structures that the layer leaves for it.
    lines = [line for line in done.stderr.splitlines() if "swiftshader/src" not in line]
    assert ["no measured ceilings" in line for line in lines] == [True] * told
    return json.loads(done.stdout)


def test_list(tmp_path: Path) -> None:
    """Units, what a counter can be read around, and that it slows the device down."""
    found = _document(write_small_model(tmp_path), "list")["counters"]
    table = {c["name"]: (c["unit"], c["by_command"], c["slows"]) for c in found}
    assert table == {
        "dispatches": ("", True, False),
        "groups": ("", True, False),
        "busy": ("%", True, True),
        "copied": ("B", False, False),
        "volts": ("V", True, False),
    }  # what counts in render passes only is left out


def test_by_command(tmp_path: Path) -> None:
    """Each dispatch's own numbers, in each of the driver's types, beside its layers."""
    found = _document(write_small_model(tmp_path), "groups,dispatches,b*y,VOLTS")
    assert (found["by"], found["passes"]) == ("commands", 1)
    assert [c["name"] for c in found["counters"]] == ["groups", "dispatches", "busy", "volts"]
    dispatches = [row for row in found["rows"] if row["groups"]]
    assert any("fc" in row["layers"] for row in dispatches)
    for row in dispatches:
        x, y, z = row["groups"]
        assert row["values"] == [x * y * z, 1, 12.5, 0.75]


def test_by_submit(tmp_path: Path) -> None:
    """A counter of whole command buffers makes all rows submits, in as many passes as it takes."""
    model = write_small_model(tmp_path)
    commands = _document(model, "groups")["rows"]
    found = _document(model, "copied,groups")
    assert (found["by"], found["passes"]) == ("submits", 2)
    (row,) = found["rows"]
    assert row["label"] == "submit 0"
    assert row["layers"][-1] == "prob"
    assert row["values"][1] == sum(r["values"][0] for r in commands)


def test_beside_the_times(tmp_path: Path) -> None:
    """With --save and --html times are measured, too, and files have both."""
    saved, page = tmp_path / "a.vkprof", tmp_path / "a.html"
    model, files = write_small_model(tmp_path), ["--save", str(saved), "--html", str(page)]
    found = _document(model, "groups,b*y", *files, "--runs", "2", "--no-compiled", told=True)
    profile = Profile.load(saved)
    assert profile.counters is not None
    assert [c["kernel"] for c in found["commands"]] == [t.entry.kernel for t in profile.timings]
    assert all(c["median"] >= 0 for c in found["commands"])
    assert [e.kernel for e in profile.counters.entries] == [t.entry.kernel for t in profile.timings]
    for entry, values in zip(profile.counters.entries, profile.counters.values, strict=True):
        if entry.groups is not None:
            assert list(values) == [np.prod(entry.groups), 12.5]
    rows = [list(values) for values in profile.counters.values]
    assert [row["values"] for row in found["counters"]["rows"]] == rows
    drawn = data_of(page)["counters"]
    assert [name[0] for name in drawn["names"]] == ["groups", "busy"]
    assert [row[3] for row in drawn["rows"]] == rows
    done = _profile(model, "fragments", "--save", str(tmp_path / "b.vkprof"))
    assert done.returncode == 2
    assert "no counter 'fragments'" in done.stderr
    assert not (tmp_path / "b.vkprof").exists()


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("dispatch", "no counter 'dispatch'; near: dispatches"),
        ("fragments", "no counter 'fragments'"),
        (",", "no counters are named"),
    ],
)
def test_unknown_counters(tmp_path: Path, names: str, text: str) -> None:
    done = _profile(write_small_model(tmp_path), names)
    assert done.returncode == 2
    assert text in done.stderr
    assert "--counters list" in done.stderr


def test_another_process_counts(tmp_path: Path) -> None:
    done = _profile(write_small_model(tmp_path), "groups", VKNN_COUNTERS_HELD="1")
    assert done.returncode == 2
    assert "another process holds the profiling lock" in done.stderr


def test_a_device_without(tmp_path: Path) -> None:
    if shared_device().limits.kind != "cpu":
        pytest.skip("GPUs may have counters")
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        with pytest.raises(vknn.DeviceError, match="does not offer VK_KHR_performance_query"):
            counters(session)
        with pytest.raises(vknn.DeviceError, match="a CPU has none"):
            count(session, names=["groups"])


def test_numpy(tmp_path: Path) -> None:
    with pytest.raises(vknn.DeviceError, match="NumPy has none"):
        count(write_small_model(tmp_path), names=["groups"], device="cpu")


def test_the_switch_that_a_driver_needs() -> None:
    class Core:
        def __init__(self, driver: str) -> None:
            self.snapshot = Snapshot(name="a GPU", driver_name=driver)

    for driver, text in (
        ("Intel open-source Mesa driver", "perf_stream_paranoid=0"),
        ("turnip Mesa driver", "TU_DEBUG=perfc"),
        ("NVIDIA", "Nsight Graphics"),
        ("another", "VK_KHR_performance_query$"),
    ):
        with pytest.raises(vknn.DeviceError, match=text):
            runtime_counters.counters(Core(driver))  # type: ignore[arg-type]
