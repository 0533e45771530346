"""The guard of the validation layer: who opens or closes a device is alone."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from vknn.runtime.vulkan.layer_guard import LayerGuard


class Calls:
    """Functions that note which others are under way while they are."""

    def __init__(self) -> None:
        self.active: list[str] = []
        self.together: set[frozenset[str]] = set()

    def function(self, name: str) -> Any:
        def call(number: int) -> int:
            self.active.append(name)
            time.sleep(0.002)
            self.together.add(frozenset(self.active))
            self.active.remove(name)
            return number

        return call

    def library(self) -> Any:
        names = ("vkCreateDevice", "vkDestroyDevice", "vkCreateFence", "vkQueueSubmit")
        return SimpleNamespace(**{name: self.function(name) for name in names})


def run_together(library: Any) -> None:
    def repeat(name: str) -> None:
        for number in range(30):
            assert getattr(library, name)(number) == number

    threads = [threading.Thread(target=repeat, args=[name]) for name in vars(Calls().library())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_devices_come_and_go_alone() -> None:
    calls = Calls()
    run_together(LayerGuard(calls.library()))
    beside = {names for names in calls.together if len(names) > 1}
    assert beside == {frozenset({"vkCreateFence", "vkQueueSubmit"})}


def test_without_a_guard_they_do_not() -> None:
    calls = Calls()
    run_together(calls.library())
    assert any({"vkCreateDevice", "vkCreateFence"} <= names for names in calls.together)


def test_an_error_ends_a_call() -> None:
    def fails() -> None:
        raise ZeroDivisionError

    guard = LayerGuard(SimpleNamespace(vkCreateFence=fails, vkCreateDevice=lambda: 3))
    with pytest.raises(ZeroDivisionError):
        guard.vkCreateFence()
    assert guard.vkCreateDevice() == 3


@pytest.mark.device
def test_calls_are_guarded_under_validation() -> None:
    from vknn.runtime.vulkan.vulkan_api import lib

    assert isinstance(lib, LayerGuard)
