"""One device for many models, by both ways to its memory: a pipeline is made once for all of them.

What the validation layer and the compiler do to pipelines is most of a model's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vknn import environment
from vknn.runtime import Device, open_device, pipelines
from vknn.runtime.quirks import device_limits

SWITCH = "unified"


@contextmanager
def held(name: str) -> Iterator[Device]:
    """A device, kept open for sessions, whose transfers are all staged and beside its work.

    It keeps all pipelines until it closes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VKNN_DISABLE", ",".join(sorted({SWITCH, *environment.disabled()})))
        patch.setattr(pipelines, "MOST_UNUSED", 1 << 16)
        with open_device(name) as device:
            yield device


@contextmanager
def staged(device: Device) -> Iterator[None]:
    """Sessions as the device is held."""
    yield


@contextmanager
def mapped(device: Device) -> Iterator[None]:
    """Sessions that work in the device's memory directly, as far as it lets the host."""
    core = device.shared.core
    disabled = core.disabled - {SWITCH}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "disabled", disabled)
        patch.setattr(core, "limits", device_limits(core.snapshot, disabled))
        yield


PATHS = {"mapped": mapped, "staged": staged}
