"""Guard of the validation layer: devices come and go while no other call is under way.

Layers up to 1.3.239 (Debian 12) keep instances and devices in a table without a lock
(Vulkan-ValidationLayers 1.3.239, layers/vk_layer_data.h, GetLayerDataPtr). A call that looks its
device up while another thread opens or closes one may find that other device, and the layer then
reports objects that it never saw. Only calls under validation are guarded; drivers need none of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

#: What changes the layer's table.
_ALONE = {"vkCreateInstance", "vkDestroyInstance", "vkCreateDevice", "vkDestroyDevice"}


class LayerGuard:
    """cffi's ``lib`` with each function guarded."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self._changed = threading.Condition()
        self._under_way = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._lib, name)
        guarded = self._alone(function) if name in _ALONE else self.guarded(function)
        setattr(self, name, guarded)
        return guarded

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls wait for those that come alone."""

        def call(*args: Any) -> Any:
            with self._changed:
                self._under_way += 1
            try:
                return function(*args)
            finally:
                with self._changed:
                    self._under_way -= 1
                    if not self._under_way:
                        self._changed.notify_all()

        return call

    def _alone(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with self._changed:
                self._changed.wait_for(lambda: not self._under_way)
                return function(*args)

        return call

    def _in_child(self) -> None:
        """End of the calls of other threads, which the forked child does not have."""
        self._changed = threading.Condition()
        self._under_way = 0
