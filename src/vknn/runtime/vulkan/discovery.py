"""Discovery of a physical device's properties and features: VkPhysicalDevice -> Snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from vknn.plan import CooperativeMatrix
from vknn.runtime.snapshot import KINDS, MemoryType, QueueFamily, Snapshot
from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.vk_result import check
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

FLOAT16 = "VK_KHR_shader_float16_int8"
DRIVER_PROPERTIES = "VK_KHR_driver_properties"
PCI_BUS = "VK_EXT_pci_bus_info"
INTEGER_DOT = "VK_KHR_shader_integer_dot_product"
FLOAT_DOT = "VK_VALVE_shader_mixed_float_dot_product"
COOPERATIVE = "VK_KHR_cooperative_matrix"
MEMORY_MODEL = "VK_KHR_vulkan_memory_model"
SUBGROUP_SIZE = "VK_EXT_subgroup_size_control"
#: Of a driver that is not wholly Vulkan's; who uses such a device has to switch it on.
PORTABILITY_SUBSET = "VK_KHR_portability_subset"
PIPELINE_STATISTICS = "VK_KHR_pipeline_executable_properties"
PERFORMANCE_QUERY = "VK_KHR_performance_query"
CALIBRATED = "VK_EXT_calibrated_timestamps"
PERFORMANCE_FEATURES = "VkPhysicalDevicePerformanceQueryFeaturesKHR"
#: Structs that tell of a GPU's processors -> their extensions.
_UNIT_PROPERTIES = {
    "VkPhysicalDeviceShaderCorePropertiesAMD": "VK_AMD_shader_core_properties",
    "VkPhysicalDeviceShaderCoreProperties2AMD": "VK_AMD_shader_core_properties2",
    "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV": "VK_NV_shader_sm_builtins",
    "VkPhysicalDeviceShaderCorePropertiesARM": "VK_ARM_shader_core_properties",
    "VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM": "VK_ARM_shader_core_builtins",
}
#: What kernels with cooperative matrices need: extension -> its struct of features, and features.
#: With the Vulkan memory model on, atomics of any kernel (of device scope) need its second feature.
COOPERATIVE_NEEDS = {
    COOPERATIVE: ("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", ("cooperativeMatrix",)),
    MEMORY_MODEL: (
        "VkPhysicalDeviceVulkanMemoryModelFeatures",
        ("vulkanMemoryModel", "vulkanMemoryModelDeviceScope"),
    ),
    SUBGROUP_SIZE: ("VkPhysicalDeviceSubgroupSizeControlFeatures", ("computeFullSubgroups",)),
}

_PCI_PROPERTIES = "VkPhysicalDevicePCIBusInfoPropertiesEXT"
_DOT_PROPERTIES = "VkPhysicalDeviceShaderIntegerDotProductProperties"

#: VkComponentTypeKHR -> what the components of a matrix are
_COMPONENTS = {0: "float16", 1: "float32", 2: "float64", 3: "int8", 5: "int32", 7: "uint8"}
_SCOPE_SUBGROUP = 3


#: VkStructureType of VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE, a struct that the
#: binding does not know. It has four VkBool32, as has one that it knows; the first is for pairs of
#: float16 with sums in float32.
_FLOAT_DOT_TYPE = 1000673000
FLOAT_DOT_FIELD = "storageBuffer16BitAccess"


def float_dot_features(**fields: int) -> structs.Struct:
    """The struct of features of VK_VALVE_shader_mixed_float_dot_product."""
    name = "VkPhysicalDevice16BitStorageFeatures"
    return structs.make(name, sType=_FLOAT_DOT_TYPE, **fields)


def snapshot(index: int, device: Any, function: Callable[[str], Any]) -> Snapshot:
    """The snapshot of a physical device. ``function`` gives functions of extensions by name."""
    extensions = _extensions(device)
    first = structs.out("VkPhysicalDeviceProperties")
    lib.vkGetPhysicalDeviceProperties(device, first)
    version = _version(first.apiVersion)
    name = ffi.string(first.deviceName).decode(errors="replace").strip()  # NVK's may end blank
    if version < (1, 1):
        return Snapshot(index, name, KINDS.get(first.deviceType, "other"), version)
    properties, parts = _properties(device, extensions)
    limits, subgroup = properties.limits, parts["VkPhysicalDeviceSubgroupProperties"]
    families = _queue_families(device)
    memory_types, heaps = _memory(device)
    driver = parts.get("VkPhysicalDeviceDriverProperties")
    features = _features(device, extensions, subgroup, families)
    dots = parts.get(_DOT_PROPERTIES)
    if dots and "integer_dot" in features:
        features |= _fast_dots(dots)
    cooperative = _cooperative(device, function) if "cooperative_matrix" in features else ()
    kind = KINDS.get(properties.deviceType, "other")
    units = _units(parts)
    return Snapshot(
        index=index,
        name=name,
        kind=kind,
        api_version=version,
        vendor_id=properties.vendorID,
        device_id=properties.deviceID,
        driver=driver.driverID if driver else 0,
        driver_name=ffi.string(driver.driverName).decode() if driver else "",
        driver_info=ffi.string(driver.driverInfo).decode() if driver else "",
        driver_version=properties.driverVersion,
        uuid=bytes(parts["VkPhysicalDeviceIDProperties"].deviceUUID),
        pci=pci_address(parts.get(_PCI_PROPERTIES)),
        extensions=extensions,
        features=features,
        memory_types=memory_types,
        heaps=heaps,
        queue_families=families,
        max_storage_buffer_range=limits.maxStorageBufferRange,
        max_texel_buffer_elements=limits.maxTexelBufferElements,
        storage_alignment=limits.minStorageBufferOffsetAlignment,
        texel_alignment=limits.minTexelBufferOffsetAlignment,
        max_push_constants=limits.maxPushConstantsSize,
        max_storage_buffers=limits.maxPerStageDescriptorStorageBuffers,
        max_group_count=tuple(limits.maxComputeWorkGroupCount),
        max_group_size=tuple(limits.maxComputeWorkGroupSize),
        max_group_invocations=limits.maxComputeWorkGroupInvocations,
        shared_memory=limits.maxComputeSharedMemorySize,
        subgroup_size=subgroup.subgroupSize,
        max_allocation=parts["VkPhysicalDeviceMaintenance3Properties"].maxMemoryAllocationSize,
        non_coherent_atom=limits.nonCoherentAtomSize,
        performance_queries=_performance_queries(device, extensions),
        timestamp_period=limits.timestampPeriod,
        pipeline_cache_uuid=bytes(properties.pipelineCacheUUID),
        cooperative=cooperative,
        unit_count=units[0],
        unit_lanes=units[1],
        unit_subgroups=units[2],
        is_null=kind != "cpu" and _has_no_gpu(),
    )


def pci_address(bus: Any) -> str | None:
    """The address as Linux writes it; None where it is not told, or is none that can be."""
    if bus is None or bus.pciBus > 0xFF or bus.pciDevice > 0x1F or bus.pciFunction > 7:
        return None
    return f"{bus.pciDomain:04x}:{bus.pciBus:02x}:{bus.pciDevice:02x}.{bus.pciFunction}"


def _fast_dots(dots: Any) -> set[str]:
    """Features of a device with integer dot products that it computes by itself."""
    if dots.integerDotProduct4x8BitPackedSignedAccelerated:
        return {"integer_dot_fast"}
    if dots.integerDotProduct4x8BitPackedMixedSignednessAccelerated:
        return {"integer_dot_fast", "integer_dot_mixed"}
    return set()


def _has_no_gpu() -> bool:
    """True where this process's drivers run without their GPUs.

    Mesa's drm-shims are libraries that answer in place of the kernel; RADV_FORCE_FAMILY makes RADV
    a compiler for a GPU that is not there.
    """
    if "RADV_FORCE_FAMILY" in os.environ:
        return True
    try:
        return "_drm_shim.so" in Path("/proc/self/maps").read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:  # not Linux: there are no drm-shims
        return False


def _version(packed: int) -> tuple[int, int, int]:
    return (packed >> 22 & 0x7F, packed >> 12 & 0x3FF, packed & 0xFFF)


def _properties(device: Any, extensions: frozenset[str]) -> tuple[Any, dict[str, Any]]:
    names = [
        "VkPhysicalDeviceSubgroupProperties",
        "VkPhysicalDeviceIDProperties",
        "VkPhysicalDeviceMaintenance3Properties",
    ]
    if DRIVER_PROPERTIES in extensions:
        names.append("VkPhysicalDeviceDriverProperties")
    if PCI_BUS in extensions:
        names.append(_PCI_PROPERTIES)
    if INTEGER_DOT in extensions:
        names.append(_DOT_PROPERTIES)
    names += [name for name, extension in _UNIT_PROPERTIES.items() if extension in extensions]
    links = {name: structs.make(name) for name in names}
    head = structs.chain(structs.make("VkPhysicalDeviceProperties2"), *links.values())
    lib.vkGetPhysicalDeviceProperties2(device, head.ptr)
    # The struct's memory belongs to ``head``; a copy of the part outlives it.
    properties = structs.out("VkPhysicalDeviceProperties")
    properties[0] = head.ptr.properties
    return properties, {name: link.ptr for name, link in links.items()}


def _units(parts: dict[str, Any]) -> tuple[int, int, int]:
    """Compute units, multiply-adds of one a clock, its most subgroups; 0 for what is not told."""
    if cores := parts.get("VkPhysicalDeviceShaderCoreProperties2AMD"):
        first = parts.get("VkPhysicalDeviceShaderCorePropertiesAMD")
        waves = first.simdPerComputeUnit * first.wavefrontsPerSimd if first else 0
        return cores.activeComputeUnitCount, 0, waves
    if multiprocessors := parts.get("VkPhysicalDeviceShaderSMBuiltinsPropertiesNV"):
        return multiprocessors.shaderSMCount, 0, multiprocessors.shaderWarpsPerSM
    rates = parts.get("VkPhysicalDeviceShaderCorePropertiesARM")
    cores = parts.get("VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM")
    if cores:
        return cores.shaderCoreCount, rates.fmaRate if rates else 0, cores.shaderWarpsPerCore
    return 0, 0, 0


def _features(
    device: Any, extensions: frozenset[str], subgroup: Any, families: tuple[QueueFamily, ...]
) -> frozenset[str]:
    storage = structs.make("VkPhysicalDevice16BitStorageFeatures")
    links = [structs.make("VkPhysicalDeviceFeatures2"), storage]
    arithmetic = None
    if FLOAT16 in extensions:
        arithmetic = structs.make("VkPhysicalDeviceShaderFloat16Int8Features")
        links.append(arithmetic)
    dot = None
    if INTEGER_DOT in extensions:
        dot = structs.make("VkPhysicalDeviceShaderIntegerDotProductFeatures")
        links.append(dot)
    float_dot = None
    if FLOAT_DOT in extensions:
        float_dot = float_dot_features()
        links.append(float_dot)
    statistics = None
    if PIPELINE_STATISTICS in extensions:
        statistics = structs.make("VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR")
        links.append(statistics)
    needs = []
    if extensions >= COOPERATIVE_NEEDS.keys():
        needs = [(structs.make(name), fields) for name, fields in COOPERATIVE_NEEDS.values()]
        links += [struct for struct, _ in needs]
    head = structs.chain(*links)
    lib.vkGetPhysicalDeviceFeatures2(device, head.ptr)
    in_compute = subgroup.supportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
    operations = subgroup.supportedOperations if in_compute else 0
    present = {
        "int64": head.ptr.features.shaderInt64,
        "fp16_storage": storage.ptr.storageBuffer16BitAccess,
        "fp16_arithmetic": arithmetic is not None and arithmetic.ptr.shaderFloat16,
        "int8_arithmetic": arithmetic is not None and arithmetic.ptr.shaderInt8,
        "integer_dot": dot is not None and dot.ptr.shaderIntegerDotProduct,
        "float_dot": float_dot is not None and getattr(float_dot.ptr, FLOAT_DOT_FIELD),
        "cooperative_matrix": needs
        and all(getattr(struct.ptr, field) for struct, fields in needs for field in fields),
        "subgroup_shuffle": operations & vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT,
        "subgroup_arithmetic": operations & vk.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT,
        "pipeline_statistics": statistics is not None and statistics.ptr.pipelineExecutableInfo,
        "timestamps": any(f.timestamp_bits for f in families),
    }
    return frozenset(name for name, there in present.items() if there)


def _performance_queries(device: Any, extensions: frozenset[str]) -> bool:
    if PERFORMANCE_QUERY not in extensions:
        return False
    features = structs.make(PERFORMANCE_FEATURES)
    lib.vkGetPhysicalDeviceFeatures2(
        device, structs.chain(structs.make("VkPhysicalDeviceFeatures2"), features).ptr
    )
    return bool(features.ptr.performanceCounterQueryPools)


def _cooperative(device: Any, function: Callable[[str], Any]) -> tuple[CooperativeMatrix, ...]:
    """The products that a subgroup can compute, factors of one kind each, sums of one kind."""
    enumerate_ = function("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
    code, found = structs.listed(
        "VkCooperativeMatrixPropertiesKHR", partial(enumerate_, device), _cooperative_matrix
    )
    check(code, "listing the device's cooperative matrices")
    return tuple(matrix for matrix in found if matrix is not None)


def _cooperative_matrix(entry: Any) -> CooperativeMatrix | None:
    alike = entry.AType == entry.BType and entry.CType == entry.ResultType
    known = entry.AType in _COMPONENTS and entry.CType in _COMPONENTS
    usable = alike and known and not entry.saturatingAccumulation
    if not usable or entry.scope != _SCOPE_SUBGROUP:
        return None
    kinds = _COMPONENTS[entry.AType], _COMPONENTS[entry.CType]
    return CooperativeMatrix(entry.MSize, entry.NSize, entry.KSize, *kinds)


def _queue_families(device: Any) -> tuple[QueueFamily, ...]:
    properties = partial(lib.vkGetPhysicalDeviceQueueFamilyProperties, device)
    _, families = structs.listed(
        "VkQueueFamilyProperties",
        properties,
        lambda f: QueueFamily(f.queueFlags, f.timestampValidBits, f.queueCount),
    )
    return tuple(families)


def _memory(device: Any) -> tuple[tuple[MemoryType, ...], tuple[int, ...]]:
    memory = structs.out("VkPhysicalDeviceMemoryProperties")
    lib.vkGetPhysicalDeviceMemoryProperties(device, memory)
    types = tuple(
        MemoryType(memory.memoryTypes[i].propertyFlags, memory.memoryTypes[i].heapIndex)
        for i in range(memory.memoryTypeCount)
    )
    return types, tuple(memory.memoryHeaps[i].size for i in range(memory.memoryHeapCount))


def _extensions(device: Any) -> frozenset[str]:
    extensions = partial(lib.vkEnumerateDeviceExtensionProperties, device, ffi.NULL)
    code, names = structs.listed(
        "VkExtensionProperties",
        extensions,
        lambda entry: ffi.string(entry.extensionName).decode(),
    )
    check(code, "listing the device's extensions")
    return frozenset(names)
