"""Pipelines that nothing uses any longer are let go, those in use never."""

from __future__ import annotations

import pytest
from tests.runtime.chains import WEIGHT, check_chain
from tests.runtime.plans import chain_plan, shaders

from vknn.plan import View
from vknn.runtime import Device, Executable, live_objects, pipelines

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def _few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "MOST_UNUSED", 1)


def _chain(device: Device, view: View) -> Executable:
    return Executable(device, chain_plan(WEIGHT, view=view), shaders=shaders)


def _compiled(device: Device) -> tuple[int, int]:
    """Pipelines that the device holds, and those that there are natively (of all devices)."""
    return len(device.shared.pipelines), live_objects().get("pipeline", 0)


def test_those_in_use_stay(device: Device) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders):
        pass  # a plan of one pipeline: what else was unused is gone
    held, native = _compiled(device)
    assert held == 1
    with _chain(device, View.STORAGE) as first, _chain(device, View.IMAGE) as second:
        assert _compiled(device)[0] >= 2
        with _chain(device, View.TEXEL) as third, _chain(device, View.IMAGE) as again:
            assert _compiled(device) == (3, native + 2)
            check_chain(third)
            check_chain(again)
        assert _compiled(device) == (3, native + 2)
        check_chain(first)
        check_chain(second)
    assert _compiled(device) == (1, native)


def test_the_last_ones_are_used_again(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    for view in (View.STORAGE, View.IMAGE):
        _chain(device, view).close()

    def none(*_: object) -> None:
        raise AssertionError("a pipeline was made")

    monkeypatch.setattr(pipelines.Pipelines, "_make", none)
    with _chain(device, View.IMAGE) as executable:
        check_chain(executable)
    with pytest.raises(AssertionError, match="a pipeline was made"):
        _chain(device, View.STORAGE)


def test_modules_go_when_pipelines_are_made(device: Device) -> None:
    before = live_objects().get("shader module", 0)
    with _chain(device, View.TEXEL):
        assert live_objects().get("shader module", 0) == before
