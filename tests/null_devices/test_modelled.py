"""benchmarks/modelled.py: both engines counted on a null device by way of the layer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.counting import layer
from tests.null_devices.jobs import start

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched

ROOT = Path(__file__).resolve().parents[2]
PARAM = """7767517
4 4
Input data 0 1 data 0=37 1=41 2=3
Convolution c1 1 1 data a 0=29 1=3 4=1 5=1 6=783 9=1
Convolution c2 1 1 a b 0=31 1=1 5=1 6=899
ReLU r 1 1 b c
"""


@pytest.fixture(scope="module")
def prepared() -> None:
    pytest.importorskip("ncnn")
    start("navi21", ["-c", "pass"])  # skips where there are no null devices
    try:
        layer.built(ROOT / ".cache")
    except layer.Unbuildable as error:
        pytest.skip(str(error))


def test_both_engines_are_counted(prepared: None, tmp_path: Path) -> None:
    """blazeface stands for any network: the file is another one, of three layers."""
    (tmp_path / "blazeface.param").write_text(PARAM.replace("0=37 1=41", "0=128 1=128"))
    program = [sys.executable, str(ROOT / "benchmarks" / "modelled.py"), "navi21", "--save"]
    program += ["--networks", "blazeface", "--folder", str(tmp_path), "--runs", "2"]
    program += ["--results", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "navi21" / "compared-fp16.json").read_text())
    assert "NAVI21" in kept["device"]
    sides = kept["networks"]["blazeface"]
    for side in sides.values():
        assert side["dispatches"] == sum(row[-1] for row in side["rows"]) >= 2
        assert side["submits"] >= 1
        assert side["barriers"] >= 1
        assert side["most_registers"] > 0
        assert side["host_us"] > 0
        assert side["peak_mb"] > 0
    macs = 128 * 128 * (783 + 899)
    assert macs <= sides["vknn"]["macs"] < 1.3 * macs
    assert "| blazeface |" in done.stdout
