"""Models whose outputs are text, in the tools: compared, printed, and written without pickles."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets

import vknn
from vknn.cli.main import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """found, size = what a table of text has for the int64 keys q."""
    path = tmp_path / "table.tflite"
    path.write_bytes(nets.looked_up([([1, 2], ["one", "zwölf"])], nets.INT64).file())
    np.save(tmp_path / "q.npy", np.int64([1, 7, 2, 1]))
    return path


def test_text_is_verified(model: Path) -> None:
    report = vknn.verify(model, device="numpy")
    assert report.ok


@pytest.mark.parametrize("command", ["run", "dump"])
def test_text_is_written(command: str, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    options = ["--input", f"q={tmp_path / 'q.npy'}", "--output", str(out), "--device", "numpy"]
    assert main([command, str(model), *options]) == 0
    with np.load(out, allow_pickle=False) as found:
        assert found["found"].tolist() == [b"one", b"none", "zwölf".encode(), b"one"]


def test_bytes_that_no_file_holds(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.write_bytes(nets.looked_up([([1, 2], ["a\0", "b"])], nets.INT64).file())
    out = tmp_path / "out.npz"
    options = ["--input", f"q={tmp_path / 'q.npy'}", "--output", str(out), "--device", "numpy"]
    assert main(["run", str(model), *options]) != 0
    assert "'found' holds objects, which are not written" in capsys.readouterr().err
    assert not out.exists()


def test_text_that_disagrees_is_kept_without_pickles(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.npz"
    text = np.array([b"one", b"none"], object)
    report = vknn.verify(model, device="numpy")
    dataclasses.replace(report, arrays={"found": text}).dump(out)
    with np.load(out, allow_pickle=False) as found:
        assert found["found"].tolist() == text.tolist()
