"""Limits of a device that are remembered: profiles of it have them, others are told how."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bundle.test_runner_profile import TIMES
from tests.profiling.profile_documents import processes
from tests.reports.documents import LIMITS
from tests.reports.test_command import data_of
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.profiling import Limits, read_document
from vknn.profiling.remembered import limits_file, remember_limits, remembered_limits
from vknn.runtime import Device
from vknn.runtime.snapshot import Snapshot

MEASURED = Limits.from_json(json.dumps(LIMITS))


def device(**more: Any) -> Device:
    snapshot = Snapshot(name="card", kind="discrete", uuid=b"0123456789abcdef", **more)
    return SimpleNamespace(snapshot=snapshot)  # type: ignore[return-value]


def saved(folder: Path, **more: Any) -> Path:
    [found] = processes(1, 0)
    path = folder / "a.vkprof"
    path.write_bytes(gzip.compress(json.dumps(found | more).encode()))
    return path


def test_they_come_back_for_the_same_device_and_driver() -> None:
    card = device()
    assert remembered_limits(card) is None
    path = remember_limits(card, MEASURED)
    assert path is not None and path.is_file()
    assert remembered_limits(card) == MEASURED
    assert remembered_limits(device(driver_version=2)) is None


def test_a_null_device_has_none() -> None:
    nothing = device(is_null=True)
    assert remember_limits(nothing, MEASURED) is None
    assert not limits_file(nothing.snapshot).exists()
    remember_limits(device(), MEASURED)
    assert limits_file(nothing.snapshot) == limits_file(device().snapshot)
    assert remembered_limits(nothing) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "vknn limits", "version": 1}'])
def test_damaged_files_are_ignored(text: str) -> None:
    path = remember_limits(device(), MEASURED)
    assert path is not None
    path.write_text(text)
    with pytest.warns(RuntimeWarning, match="damaged .*--device-limits` writes a new one"):
        assert remembered_limits(device()) is None


@pytest.mark.device
def test_a_profile_has_what_is_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anything a line says what gives them; measured once, they are in every file."""
    monkeypatch.setattr("vknn.cli.bench.measure_limits", lambda *_, **__: MEASURED)
    path, page, other = tmp_path / "a.vkprof", tmp_path / "a.html", tmp_path / "l.json"
    given = ["profile", str(write_small_model(tmp_path)), "--runs", "1", "--warmup", "0"]
    given += ["--device", "vulkan", "--shape", ",".join(map(str, SHAPE)), "--save", str(path)]
    assert main([*given, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["commands"]
    assert "no measured ceilings: `vknn bench --device-limits` measures them" in err
    assert read_document(path)["limits"] is None
    assert main(["bench", "--device-limits", "--device", "vulkan", "--json"]) == 0
    capsys.readouterr()
    assert main([*given, "--html", str(page)]) == 0
    assert "ceilings" not in capsys.readouterr().err
    assert read_document(path)["limits"] == json.loads(MEASURED.to_json())
    assert data_of(page)["limits"]["copy"] == LIMITS["copy"]
    other.write_text(Limits("card", "driver", {"form": 5.0}).to_json())
    assert main([*given, "--device-limits", str(other)]) == 0
    assert read_document(path)["limits"]["fma"] == {"form": 5.0}  # what is given counts


@pytest.mark.device
def test_a_device_that_is_named_is_so_in_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["profile", str(write_small_model(tmp_path)), "--runs", "1", "--device", "vulkan:0"]
    assert main([*given, "--save", str(tmp_path / "a.vkprof")]) == 0
    assert "`vknn bench --device-limits --device vulkan:0` measures" in capsys.readouterr().err


def test_numpy_has_no_ceilings_to_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["profile", str(write_small_model(tmp_path)), "--runs", "1", "--device", "numpy"]
    assert main([*given, "--save", str(tmp_path / "a.vkprof")]) == 0
    assert capsys.readouterr().err == ""
    assert vknn.profile(given[1], runs=1, device="numpy").to_document()["limits"] is None


def test_report_takes_them_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, limits = saved(tmp_path), tmp_path / "a.html", tmp_path / "l.json"
    limits.write_text(MEASURED.to_json())
    given = ["report", str(path), "--html", str(page)]
    assert main(given) == 0
    assert "no measured ceilings: --device-limits FILE.json" in capsys.readouterr().err
    assert data_of(page)["limits"] is None
    assert main([*given, "--device-limits", str(limits)]) == 0
    out, err = capsys.readouterr()
    assert "1,000.0 GFLOP/s" in out and "no measured ceilings" not in err
    assert data_of(page)["limits"]["copy"] == LIMITS["copy"]
    limits.write_text("{}")
    assert main([*given, "--device-limits", str(limits)]) == 2
    assert f"{limits}: no limits of a device" in capsys.readouterr().err


def test_limits_of_another_device_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, limits = saved(tmp_path), tmp_path / "l.json"
    [found] = processes(1, 0)
    for name, told in ((found["device"]["name"], False), ("another\n", True)):
        limits.write_text(Limits(name, "driver", {"form": 5.0}).to_json())
        assert main(["report", str(path), "--device-limits", str(limits), "--json"]) == 0
        err = capsys.readouterr().err
        line = f"vknn: the limits are of another\\n, the profile is of {found['device']['name']}"
        assert err.splitlines() == ([line] if told else [])


def test_a_profile_of_vknn_run_gets_them_on_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page, limits = (tmp_path / name for name in ("run.json", "a.html", "l.json"))
    path.write_text(json.dumps(TIMES))
    limits.write_text(MEASURED.to_json())
    given = ["report", str(path), "--device-limits", str(limits)]
    assert main(given) == 2
    assert "--device-limits needs --html" in capsys.readouterr().err
    assert main([*given, "--html", str(page)]) == 0
    assert data_of(page)["limits"]["copy"] == LIMITS["copy"]
    assert main(["report", str(path), "--samples", str(tmp_path / "a.csv")]) == 2
    assert "keeps the means of its runs alone" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("VKNN_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(VknnError, match="VKNN_CACHE_DIR names another directory"):
        remember_limits(device(), MEASURED)


@pytest.mark.device
def test_what_was_measured_is_shown_where_it_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("VKNN_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("vknn.cli.bench.measure_limits", lambda *_, **__: MEASURED)
    assert main(["bench", "--device-limits", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads(MEASURED.to_json())
    assert "the limits are not remembered: " in err
    assert "VKNN_CACHE_DIR names another directory" in err
