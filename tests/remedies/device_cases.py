"""Remedies about Vulkan: loader, drivers, devices, validation, compiler."""

from __future__ import annotations

import dataclasses
import runpy
import shutil
from collections.abc import Callable

from tests.remedies.case import DEVICE, Case, Place, on_the_reference, raised, without

from vknn import environment
from vknn.runtime import open_device
from vknn.runtime.device_selection import choose
from vknn.runtime.spirv import modules, shaderc
from vknn.runtime.vulkan import instance, vk_result, vulkan_api
from vknn.runtime.vulkan.instance import Instance

NAMED = dataclasses.replace(DEVICE, uuid=b"\xab" * 16, pci="0000:3b:00.0")
GLSL = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"


def no_loader(place: Place) -> None:
    """Imports the module of Vulkan's functions where the binding finds no loader."""
    without("vulkan")(place)
    functions = runpy.run_path(vulkan_api.__file__)["lib"]
    _ = functions.vkCreateInstance


def no_compiler(place: Place) -> None:
    def no_library(name: str) -> None:
        raise OSError(name)

    place.set(shaderc, Libshaderc=no_library)
    place.set(shutil, which=lambda _: None)
    shaderc.compiler.cache_clear()
    modules.compile_glsl(GLSL)


def with_compiler(_: Place) -> None:
    shaderc.compiler.cache_clear()
    assert modules.compile_glsl(GLSL)


def closed_device(_: Place) -> None:
    device = open_device()
    device.close()
    _ = device.shared


def opened_device(_: Place) -> None:
    with open_device() as device:
        assert device.shared


def instance_without_layer(validate: int) -> Callable[[Place], None]:
    def made(place: Place) -> None:
        place.set(instance, VALIDATION_LAYER="VK_LAYER_of_nobody")
        Instance(validate).destroy()

    return made


CASES = [
    Case(
        vulkan_api.NO_LOADER,
        no_loader,
        on_the_reference,
    ),
    Case(
        "no usable Vulkan device was found; install a driver (Debian: apt-get install "
        "mesa-vulkan-drivers), check VK_DRIVER_FILES, or use device='cpu'",
        lambda p: choose([]),
        on_the_reference,
    ),
    Case(
        "no Vulkan driver is installed (Debian: apt-get install mesa-vulkan-drivers) or "
        "VK_DRIVER_FILES names none; device='cpu' runs without one",
        raised(vk_result.result_error(-9, "creating the Vulkan instance")),
        on_the_reference,
    ),
    Case("the device {} was closed; open it again", closed_device, opened_device, needs="device"),
    Case(
        "VKNN_VALIDATE is set but there is no validation layer; install it "
        "(Debian: apt-get install vulkan-validationlayers) or unset VKNN_VALIDATE",
        instance_without_layer(1),
        instance_without_layer(environment.read({}).validate),
        needs="device",
    ),
    Case(
        "there is no device vulkan:{}; there are {}",
        lambda p: choose([DEVICE], "vulkan:7"),
        lambda p: choose([DEVICE], "vulkan:0"),
    ),
    Case(
        "there is no device {}; there are {}",
        lambda p: choose([NAMED], "uuid:" + "0" * 32),
        lambda p: choose([NAMED], "uuid:" + "ab" * 16),
    ),
    Case(
        "device={}: write it as {}; `vknn devices` lists them",
        lambda p: choose([NAMED], "pci:59:0:0"),
        lambda p: choose([NAMED], "pci:0000:3b:00.0"),
    ),
    Case(
        "no device matches {}; there are {}",
        lambda p: choose([DEVICE], "radeon"),
        lambda p: choose([DEVICE], "llvmpipe"),
    ),
    Case(
        "compiling GLSL needs shaderc, and neither a usable library libshaderc.so.1 nor the "
        "program glslc was found (Debian, Ubuntu: apt install glslc)",
        no_compiler,
        with_compiler,
        needs="glsl",
    ),
    Case(
        "set VKNN_DISABLE=texel",
        raised(vk_result.result_error(-11, "creating a view")),
        lambda p: environment.read({"VKNN_DISABLE": "texel"}),
    ),
]
