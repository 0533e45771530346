"""What tests need of the machine: a Vulkan device, a GLSL compiler. Looked for once a process."""

from __future__ import annotations

import functools
import os
import sys
from types import SimpleNamespace
from typing import NoReturn

import pytest

#: Set to 1 by tools/test, which has installed both: what is missing is then an error, not a skip.
REQUIRE = "VKNN_TEST_REQUIRE_DEVICE"
#: Set to 1 by tools/test --quick: tests find neither a loader nor a compiler, as on a bare machine.
BARE = "VKNN_TEST_BARE"


def hide() -> None:
    """Makes this process one of a machine without Vulkan's loader and a GLSL compiler.

    Tests that need either and are not marked then fail where they are written, not only elsewhere.
    """
    sys.modules["vulkan"] = None  # type: ignore[assignment]
    from vknn.runtime.spirv import shaderc

    shaderc._LIBRARIES = ()
    shaderc.shutil = SimpleNamespace(which=lambda program: None)  # type: ignore[attr-defined]


def required() -> bool:
    """Whether this machine was prepared for every test."""
    return os.environ.get(REQUIRE, "") == "1"


@functools.cache
def missing_compiler() -> str | None:
    """Why GLSL cannot be compiled here; None where it can."""
    from vknn.errors import ShaderError
    from vknn.runtime.spirv import shaderc

    try:
        shaderc.compiler()
    except ShaderError as error:
        return f"needs a GLSL compiler: {error}"
    return None


@functools.cache
def missing_device() -> str | None:
    """Why tests cannot run on a Vulkan device here; None where they can.

    Running anything in a checkout takes a GLSL compiler too; an installed vknn has its modules.
    """
    from vknn.errors import DeviceError
    from vknn.runtime import devices
    from vknn.runtime.device_selection import choose
    from vknn.runtime.spirv.glsl import checkout_root

    try:
        choose(devices())
    except DeviceError as error:
        return f"needs a Vulkan device: {error}"
    return missing_compiler() if checkout_root() is not None else None


def need_device() -> None:
    """Skips the test, or fails it, where there is no device."""
    reason = missing_device()
    if reason is not None:
        refuse(reason)


def device_is_there() -> bool:
    """Whether to compare with the device too; fails the test where there must be one."""
    reason = missing_device()
    if reason is not None and required():
        refuse(reason)
    return reason is None


#: Marker -> why the tests that have it cannot run, None where they can.
NEEDS = {"device": missing_device, "glsl": missing_compiler}


def refuse(reason: str) -> NoReturn:
    """Skips the test, or fails it where the machine was prepared to run it."""
    if required():
        pytest.fail(f"{REQUIRE}=1, but the test {reason}", pytrace=False)
    pytest.skip(reason)
