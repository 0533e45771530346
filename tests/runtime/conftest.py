"""The device of the runtime's tests, opened once; what it leaves behind is checked after each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.needs import need_device

from vknn.runtime import Device, check_validation, open_device, quirks


@pytest.fixture(scope="session")
def device() -> Iterator[Device]:
    """An open device; its validation layer is on."""
    need_device()
    with open_device() as opened:
        yield opened


@pytest.fixture
def staged_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device whose memory the host cannot reach, as on a discrete GPU."""
    need_device()
    monkeypatch.setenv("VKNN_DISABLE", "unified")
    with open_device() as opened:
        assert not opened.limits.unified_memory
        yield opened


@pytest.fixture
def bar_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device into whose memory the host writes inputs and nothing else, as behind a BAR."""
    need_device()
    monkeypatch.setattr(quirks, "unified_memory", lambda snapshot, disabled=frozenset(): False)
    monkeypatch.setenv("VKNN_TIMEOUT", "299")  # a device of its own, not the one that is open
    with open_device() as opened:
        assert not opened.limits.unified_memory
        assert quirks.writes_inputs_directly(opened.snapshot)
        yield opened


@pytest.fixture
def copying_device(staged_device: Device) -> Device:
    """A staged device with a second queue; where the driver has one only, that stands for both."""
    return _with_copies(staged_device)


@pytest.fixture
def copying_bar_device(bar_device: Device) -> Device:
    """A device behind a BAR with a second queue."""
    return _with_copies(bar_device)


def _with_copies(device: Device) -> Device:
    core = device.shared.core
    core.copies = core.copies or core.queue
    return device


@pytest.fixture
def alone() -> dict[str, str]:
    """Environment for a process of its own, with the sources on the path."""
    paths = [os.path.join(os.path.dirname(__file__), "../../src"), os.path.dirname(__file__)]
    inherited = {k: v for k, v in os.environ.items() if k != "VKNN_DEVICE"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture(autouse=True)
def _no_messages(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    check_validation()
