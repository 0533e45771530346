"""OpenVINO IR on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.openvino_writer import Net

from vknn.cli.main import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    net = Net()
    x = net.input("data", (1, 3, 4, 5))
    net.layer("ReLU", [x], [(1, 3, 4, 5)], {"negative_slope": 2}, name="y")
    return net.save(tmp_path)


def test_pictures_get_the_batch_axis(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = path.with_suffix(".png")
    pytest.importorskip("PIL.Image").new("RGB", (9, 7), (10, 20, 30)).save(picture)
    result = path.with_suffix(".npz")
    given = ["run", str(path), "--device", "numpy", "--input", f"data={picture}", "--mean", "15"]
    assert main([*given, "--output", str(result)]) == 0
    capsys.readouterr()
    with np.load(result) as found:
        assert found["y"].shape == (1, 3, 4, 5)
        assert found["y"][0, :, 0, 0].tolist() == [-10, 5, 15]


@pytest.mark.device
def test_verify(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(path), "--json"]) == 0
    assert "LeakyRelu" in capsys.readouterr().out


def test_info_and_errors(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"] == {"ReLU": 1}
    path.write_text(
        path.read_text(encoding="utf-8").replace('version="7"', 'version="11"'), encoding="utf-8"
    )
    assert main(["info", str(path)]) == 2
    assert "IR version 11" in capsys.readouterr().err
