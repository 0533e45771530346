"""Settings of the validation layer: for layers that take some, and no error for unknown ones."""

from __future__ import annotations

import pytest

from vknn.runtime.vulkan import instance, messages, structs
from vknn.runtime.vulkan.vulkan_api import ffi, vk

pytestmark = pytest.mark.device


@pytest.mark.parametrize("validate", [0, 1, 2])
@pytest.mark.parametrize("taken", [True, False])
def test_a_layer_that_takes_settings_gets_them(
    monkeypatch: pytest.MonkeyPatch, validate: int, taken: bool
) -> None:
    of_layer = {"VK_EXT_layer_settings"} if taken else set()
    monkeypatch.setattr(instance, "_extensions", lambda layer=None: of_layer if layer else set())
    info = instance._create_info(validate, False)
    assert found(info) == (instance.SETTINGS if validate and taken else None)


def found(info: structs.Struct) -> dict[str, bool] | None:
    """The settings in the chain behind a VkInstanceCreateInfo."""
    link = ffi.cast("VkBaseInStructure *", info.pNext)
    while link != ffi.NULL:
        if link.sType == vk.VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT:
            whole = ffi.cast("VkLayerSettingsCreateInfoEXT *", link)
            settings = [whole.pSettings[i] for i in range(whole.settingCount)]
            assert {ffi.string(s.pLayerName).decode() for s in settings} == {
                instance.VALIDATION_LAYER
            }
            return {
                ffi.string(s.pSettingName).decode(): bool(ffi.cast("VkBool32 *", s.pValues)[0])
                for s in settings
            }
        link = ffi.cast("VkBaseInStructure *", link.pNext)
    return None


@pytest.mark.parametrize(
    ("text", "collected"),
    [
        ('- The setting "enable_message_limit" was not recognized by the layer', False),
        ("- Shader validation (check_shaders) is disabled", True),
    ],
)
def test_a_setting_that_an_older_layer_does_not_know(text: str, collected: bool) -> None:
    messages.pending()
    kind = vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
    told = structs.make(
        "VkDebugUtilsMessengerCallbackDataEXT", pMessageIdName="VALIDATION-SETTINGS", pMessage=text
    )
    messages._on_message(0, kind, told.ptr, None)
    assert bool(messages.pending()) == collected
