"""Devices that the driver calls lost while a model is reduced, by tests/runtime/fault_layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.counting.layer import Layer, Unbuildable, built
from tests.reduction.networks import FAULTY, write_network

import vknn
from vknn.reduction import reduce

pytestmark = pytest.mark.device
ROOT = Path(__file__).resolve().parents[2]
LAYER = Layer("VK_LAYER_VKNN_faults", ROOT / "tests/runtime/fault_layer", "lets native calls fail")
#: Modes of the layer.
CHANNEL, LOST = 1, 9


@pytest.fixture
def _layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started have the layer between vknn and the driver."""
    try:
        folder = built(ROOT / ".cache", LAYER)
    except Unbuildable as error:
        pytest.skip(f"needs the layer of faults: {error}")
    for name, value in {
        "VK_ADD_LAYER_PATH": str(folder),
        "VK_INSTANCE_LAYERS": LAYER.name,
        "NODEVICE_SELECT": "1",  # Mesa's own layer
        "VKNN_VALIDATE": "0",
        "FAULT_LAYER": str(folder / LAYER.library),
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_layer")
def test_a_layer_that_loses_the_device_is_named(tmp_path: Path) -> None:
    small = tmp_path / "small"
    report = reduce(write_network(tmp_path, LOST), output=small, layers=[FAULTY])
    assert (report.failure.kind, report.failure.detail) == ("error", "DeviceLostError")
    assert report.operators == (("middle", "Faulty"),) and report.after.elements == 2
    assert report.last is not None and report.last.detail == "DeviceLostError"
    assert report.facts["driver"]
    text = (small / "README.md").read_text()
    assert "An error was raised" in text and str(report.facts["device"]) in text


@pytest.mark.slow
@pytest.mark.usefixtures("_layer")
def test_a_device_that_is_lost_once_does_not_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first candidate, the wrong layer alone, loses it; the network itself is wrong."""
    lose = tmp_path / "lose"
    seen: list[str] = []

    def tell(done: int, total: int, what: str) -> None:
        if done == 1 and not seen:
            lose.touch()
            seen.append(what)

    monkeypatch.setenv("LOSE_DEVICE", str(lose))
    small = tmp_path / "small"
    report = reduce(write_network(tmp_path, CHANNEL), output=small, layers=[FAULTY], progress=tell)
    assert seen and not lose.exists()  # the device was lost
    assert report.failure.kind == "wrong" and report.failure.layers == "middle"
    assert report.operators == (("middle", "Faulty"),)
    again = vknn.verify(small)
    assert not again.ok and again.first_failure is not None
