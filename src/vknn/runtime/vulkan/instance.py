"""The Vulkan instance: one a process, made when first needed, released with its last user."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from vknn import environment, forks
from vknn.errors import DeviceError
from vknn.runtime.vulkan import drivers, labels, live_objects, messages, structs
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vk_result import INITIALIZATION_FAILED, check
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
#: What newer validation layers have instead of leaving it to the environment.
LAYER_SETTINGS = "VK_EXT_layer_settings"
#: Layers do not look at what shaders read and write unless asked (Vulkan-ValidationLayers' pull
#: request 8279 of July 2024), and then no missing barrier between dispatches is ever told; and
#: they fall silent behind ten messages of a kind. What a layer does not know it says and ignores.
SETTINGS = {"syncval_shader_accesses_heuristic": True, "enable_message_limit": False}
#: Without it loaders leave out drivers that are not wholly Vulkan's (MoltenVK, on Metal).
PORTABILITY = "VK_KHR_portability_enumeration"
ENUMERATE_PORTABILITY = 1  # VkInstanceCreateFlagBits
API_VERSION = 1 << 22 | 1 << 12  # 1.1

_lock = forks.hold(threading.RLock())
_current: Instance | None = None
_users = 0


class Instance:
    """A VkInstance; with ``validate`` (VKNN_VALIDATE) it has the validation layer and listens.

    ``labelled``: whether its devices' objects and commands are to have names for other tools.
    """

    def __init__(self, validate: int, labelled: bool = False) -> None:
        self.validate = validate
        self.labelled = labelled and labels.EXTENSION in _extensions()
        if validate and VALIDATION_LAYER not in _layers():
            raise DeviceError(
                "VKNN_VALIDATE is set but there is no validation layer; install it "
                "(Debian: apt-get install vulkan-validationlayers) or unset VKNN_VALIDATE"
            )
        handle = structs.out("VkInstance")
        info = _create_info(validate, self.labelled)
        code = lib.vkCreateInstance(info.ptr, ffi.NULL, handle)
        if code:  # the loader's message about it must not be raised by whoever asks next
            messages.pending()
        _check(code, "creating the Vulkan instance")
        self.handle = handle[0]
        live_objects.created("instance")
        self._messenger: Any = None
        try:
            self._messenger = self._listen() if validate else None
        except BaseException:
            self.destroy()
            raise

    def physical_devices(self) -> list[Any]:
        """The VkPhysicalDevice handles, in the loader's order."""
        code, handles = structs.listed("VkPhysicalDevice", self._enumerate, lambda handle: handle)
        if code == INITIALIZATION_FAILED:  # what loaders answer where no driver works
            return []
        check(code, "listing the Vulkan devices")
        return handles

    def destroy(self) -> None:
        """Release of the instance; every device made from it must be gone."""
        if self._messenger is not None:
            self.function("vkDestroyDebugUtilsMessengerEXT")(self.handle, self._messenger, ffi.NULL)
            live_objects.destroyed("messenger")
        lib.vkDestroyInstance(self.handle, ffi.NULL)
        live_objects.destroyed("instance")

    def _enumerate(self, count: Any, handles: Any) -> int:
        return int(lib.vkEnumeratePhysicalDevices(self.handle, count, handles))

    def _listen(self) -> Any:
        handle = structs.out("VkDebugUtilsMessengerEXT")
        create = self.function("vkCreateDebugUtilsMessengerEXT")
        info = messages.messenger_info()
        check(create(self.handle, info.ptr, ffi.NULL, handle), "creating the debug messenger")
        live_objects.created("messenger")
        return handle[0]

    def function(self, name: str) -> Any:
        """An extension's function, which the loader does not export."""
        address = lib.vkGetInstanceProcAddr(self.handle, name.encode())
        return ffi.cast(f"PFN_{name}", address)


def acquire() -> Instance:
    """The process's instance; pair each call with :func:`release`."""
    global _current, _users
    with _lock:
        if _current is None:
            env = environment.read()
            _current = Instance(env.validate, bool(env.debug) or labels.wanted())
        _users += 1
        return _current


def in_use() -> bool:
    """Whether the process's instance is there, so that what it was made with stands."""
    with _lock:
        return _current is not None


def release() -> None:
    """Release of what :func:`acquire` gave; the last one destroys the instance."""
    global _current, _users
    with _lock:
        _users -= 1
        if _users == 0 and _current is not None:
            instance, _current = _current, None
            instance.destroy()


def abandon() -> None:
    """Loss of the instance without a call to the driver (in a forked child)."""
    global _current, _users
    _current, _users = None, 0


def _create_info(validate: int, labelled: bool) -> Struct:
    application = structs.make(
        "VkApplicationInfo", pApplicationName="vknn", pEngineName="vknn", apiVersion=API_VERSION
    )
    portable = PORTABILITY in _extensions()
    wanted = [PORTABILITY] * portable + [labels.EXTENSION] * bool(validate or labelled)
    layers = [VALIDATION_LAYER] * bool(validate)
    info = structs.make(
        "VkInstanceCreateInfo",
        flags=ENUMERATE_PORTABILITY if portable else 0,
        pApplicationInfo=application,
        enabledLayerCount=len(layers),
        ppEnabledLayerNames=layers,
        enabledExtensionCount=len(wanted),
        ppEnabledExtensionNames=wanted,
    )
    if not validate:
        return info
    # Listening through pNext covers the creation and destruction of the instance itself.
    links = [info, messages.messenger_info()]
    if LAYER_SETTINGS in _extensions(VALIDATION_LAYER):
        links.append(_settings())
    if validate >= 2:
        synchronization = vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
        links.append(
            structs.make(
                "VkValidationFeaturesEXT",
                enabledValidationFeatureCount=1,
                pEnabledValidationFeatures=[synchronization],
            )
        )
    return structs.chain(*links)


def _settings() -> Struct:
    """Settings of the validation layer, for the creation of the instance."""
    settings = [
        {
            "pLayerName": VALIDATION_LAYER,
            "pSettingName": name,
            "type": vk.VK_LAYER_SETTING_TYPE_BOOL32_EXT,
            "valueCount": 1,
            "pValues": structs.array("VkBool32", [value]),
        }
        for name, value in SETTINGS.items()
    ]
    return structs.make(
        "VkLayerSettingsCreateInfoEXT", settingCount=len(settings), pSettings=settings
    )


def _extensions(layer: str | None = None) -> set[str]:
    """Extensions of the loader and its drivers, or of a layer."""
    code, names = structs.listed(
        "VkExtensionProperties",
        partial(lib.vkEnumerateInstanceExtensionProperties, layer.encode() if layer else ffi.NULL),
        lambda extension: ffi.string(extension.extensionName).decode(),
    )
    _check(code, "listing the Vulkan instance's extensions")
    return set(names)


def _check(code: int, what: str) -> None:
    """Check of a step of the loader's, whose own codes blame memory for a manifest in shreds."""
    if code and (error := drivers.explained(what)) is not None:
        raise error
    check(code, what)


def _layers() -> set[str]:
    code, names = structs.listed(
        "VkLayerProperties",
        lib.vkEnumerateInstanceLayerProperties,
        lambda layer: ffi.string(layer.layerName).decode(),
    )
    check(code, "listing the Vulkan layers")
    return set(names)
