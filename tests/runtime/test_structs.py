"""Structs keep their parts alive."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.vk_result import INCOMPLETE, SUCCESS
from vknn.runtime.vulkan.vulkan_api import ffi, vk


def churn() -> list[bytes]:
    """Reuses whatever native memory was freed."""
    gc.collect()
    return [bytes([i % 251]) * size for i in range(2000) for size in (8, 24, 40, 64)]


def stage(entries: int) -> structs.Struct:
    special = {
        "mapEntryCount": entries,
        "pMapEntries": [{"constantID": i, "offset": 4 * i, "size": 4} for i in range(entries)],
        "dataSize": 4 * entries,
        "pData": structs.block(np.arange(entries, dtype=np.int32).tobytes()),
    }
    return structs.make(
        "VkComputePipelineCreateInfo",
        stage={"stage": 32, "pName": "main_entry", "pSpecializationInfo": special},
    )


@pytest.mark.device
def test_nested_parts_survive_churn() -> None:
    infos = [structs.array("VkComputePipelineCreateInfo", [stage(9), stage(3)]) for _ in range(50)]
    _kept = churn()
    for info in infos:
        for element, entries in zip(info.ptr, (9, 3), strict=True):
            assert element.stage.sType == vk.VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO
            assert ffi.string(element.stage.pName) == b"main_entry"
            special = element.stage.pSpecializationInfo
            offsets = [special.pMapEntries[i].offset for i in range(entries)]
            assert offsets == [4 * i for i in range(entries)]
            data = ffi.cast("int32_t *", special.pData)
            assert [data[i] for i in range(entries)] == list(range(entries))


@pytest.mark.device
def test_chain_survives_churn() -> None:
    names = ["VkPhysicalDeviceFeatures2", "VkPhysicalDevice16BitStorageFeatures"]
    heads = [
        structs.make("VkDeviceCreateInfo", pNext=structs.chain(*map(structs.make, names)))
        for _ in range(50)
    ]
    _kept = churn()
    for head in heads:
        second = ffi.cast("VkPhysicalDeviceFeatures2 *", head.ptr.pNext)
        assert second.sType == vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
        third = ffi.cast("VkPhysicalDevice16BitStorageFeatures *", second.pNext)
        assert third.sType == vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES


@pytest.mark.device
def test_strings_and_none() -> None:
    info = structs.make(
        "VkInstanceCreateInfo",
        pNext=None,
        enabledLayerCount=2,
        ppEnabledLayerNames=["first", "second"],
        ppEnabledExtensionNames=[],
    )
    churn()
    assert [ffi.string(info.ppEnabledLayerNames[i]) for i in range(2)] == [b"first", b"second"]
    assert info.pNext == ffi.NULL
    assert info.ppEnabledExtensionNames == ffi.NULL


@pytest.mark.device
def test_whole_size_fits() -> None:
    assert structs.make("VkMappedMemoryRange", size=structs.WHOLE_SIZE).size == 2**64 - 1


@pytest.mark.device
def test_unknown_field() -> None:
    with pytest.raises(KeyError):
        structs.make("VkBufferCreateInfo", length=4)


@pytest.mark.device
@pytest.mark.parametrize("shortfalls", [0, 1, structs.LISTING_TRIES])
def test_a_list_that_grows_while_it_is_read_is_read_again(shortfalls: int) -> None:
    """VK_INCOMPLETE means that entries came after the count was told: nothing is wrong."""
    left = shortfalls

    def call(count: Any, entries: Any) -> int:
        nonlocal left
        if entries == ffi.NULL:
            count[0] = 1 if left else 2
            return SUCCESS
        for index in range(count[0]):
            entries[index].size = 10 + index
        left -= 1
        return INCOMPLETE if left >= 0 else SUCCESS

    code, found = structs.listed("VkMemoryHeap", call, lambda heap: heap.size)
    exhausted = shortfalls == structs.LISTING_TRIES
    assert (code, found) == ((INCOMPLETE, []) if exhausted else (SUCCESS, [10, 11]))


@pytest.mark.device
def test_a_list_of_structs_with_types_and_an_error() -> None:
    def call(count: Any, entries: Any) -> int:
        if entries != ffi.NULL:
            assert entries[0].sType == structs.structure_type("VkMemoryBarrier")
            return -1
        count[0] = 1
        return SUCCESS

    assert structs.listed("VkMemoryBarrier", call, lambda entry: entry.sType) == (-1, [])


def test_no_other_module_makes_native_memory() -> None:
    from pathlib import Path

    for path in Path(structs.__file__).parent.glob("*.py"):
        if path.name not in ("structs.py", "shaderc.py"):  # shaderc is another library
            text = path.read_text()
            assert "ffi.new(" not in text, path.name
            assert "vk.Vk" not in text, path.name
