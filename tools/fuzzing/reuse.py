"""Reuse: what a child process keeps from case to case, so that a case costs its own work alone.

None of it changes what is compared: modules are the same for the same kernel and constants, and
pipelines for the same modules. A device by itself keeps fewer pipelines that nothing uses.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import vknn.session
from vknn import environment
from vknn.formats import Model
from vknn.runtime import Device, pipelines
from vknn.runtime.spirv import modules

#: Pipelines without users that a device keeps.
PIPELINES = 1024
#: Modules, cut to their constants, that are kept.
MODULES = 4096


def keep_modules() -> None:
    """Keeping of modules as they are read and cut, and of more pipelines, in this process.

    Sources of shaders are not looked at again, so they must not change meanwhile.
    """
    modules.spirv = functools.cache(modules.spirv)
    pipelines.specialized = functools.lru_cache(MODULES)(pipelines.specialized)
    pipelines.MOST_UNUSED = PIPELINES
    environment.read = functools.cache(environment.read)


@contextlib.contextmanager
def loaded(model: Model) -> Iterator[None]:
    """A block in which sessions on a device that is open take this model for what they load."""

    def given(path: object, weights: object, device: Device) -> tuple[Model, Device]:
        return model, device

    before = vknn.session.load_and_open
    vknn.session.load_and_open = given  # type: ignore[assignment]
    try:
        yield
    finally:
        vknn.session.load_and_open = before
