"""Drivers that are not wholly Vulkan's (MoltenVK): the loader is asked for them."""

from __future__ import annotations

import pytest

from vknn.runtime.snapshot import Snapshot
from vknn.runtime.vulkan import instance
from vknn.runtime.vulkan.core import _device_info
from vknn.runtime.vulkan.vulkan_api import ffi

pytestmark = pytest.mark.device

SUBSET = "VK_KHR_portability_subset"


def _names(count: int, names: object) -> list[str]:
    return [ffi.string(names[i]).decode() for i in range(count)]  # type: ignore[index]


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("validate", [0, 1, 2])
@pytest.mark.parametrize("known", [True, False])
def test_the_instance_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, validate: int, known: bool, labelled: bool
) -> None:
    """Only of loaders that know the extension: others would refuse."""
    offered = {"VK_KHR_portability_enumeration"} if known else {"VK_KHR_surface"}
    monkeypatch.setattr(instance, "_extensions", lambda layer=None: offered)
    info = instance._create_info(validate, labelled)
    assert info.flags == int(known)
    names = _names(info.enabledExtensionCount, info.ppEnabledExtensionNames)
    assert ("VK_KHR_portability_enumeration" in names) == known
    assert ("VK_EXT_debug_utils" in names) == bool(validate or labelled)
    assert info.enabledLayerCount == bool(validate)


def test_such_a_device_is_told_that_it_is_known() -> None:
    for extensions in (frozenset(), frozenset((SUBSET,))):
        info = _device_info((0,), frozenset(), Snapshot(extensions=extensions))
        names = _names(info.enabledExtensionCount, info.ppEnabledExtensionNames)
        assert names == sorted(extensions)
