"""Statistics of compiled pipelines: what the driver's compiler made of a shader, in its own words.

By VK_KHR_pipeline_executable_properties. A pipeline is compiled anew for this, past all caches,
with the flags that make a driver keep its statistics; the pipelines that run are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from vknn.errors import DeviceError
from vknn.plan import Dispatch
from vknn.runtime.pipelines import PipelineKey, Pipelines
from vknn.runtime.refusals import refusal
from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.core import Core, Native
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

T = TypeVar("T")

#: The feature that a device needs.
FEATURE = "pipeline_statistics"

# VkPipelineExecutableStatisticFormatKHR -> member of VkPipelineExecutableStatisticValueKHR
_MEMBERS = {0: "b32", 1: "i64", 2: "u64", 3: "f64"}


@dataclass(frozen=True)
class CompiledPipeline:
    """A pipeline as the driver compiled it.

    Attributes:
        subgroup_size: Lanes of a subgroup (a wave, a warp); 0 where the driver does not say.
        statistics: The driver's numbers by the names that it gives them.
        texts: The compiler's intermediate forms and the machine code by name, where asked for.
        refusal: How the driver ended when it compiled the pipeline; "" where it has.
    """

    subgroup_size: int
    statistics: dict[str, float]
    texts: dict[str, str]
    refusal: str = ""


def compiled(
    core: Core,
    pipelines: Pipelines,
    keys: Sequence[PipelineKey],
    dispatches: Sequence[Dispatch],
    *,
    texts: bool = False,
) -> list[CompiledPipeline]:
    """The pipeline of each dispatch, compiled with statistics; equal keys are compiled once.

    ``texts``: with the compiler's texts. Raises DeviceError where the driver does not tell.
    """
    if FEATURE not in core.limits.features:
        raise DeviceError(
            f"{core.snapshot.name} does not say what its compiler made of shaders "
            "(VK_KHR_pipeline_executable_properties)"
        )
    flags = vk.VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
    if texts:
        flags |= vk.VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR
    named = dict(zip(keys, dispatches, strict=True))
    found = {}
    for key, dispatch in named.items():
        if why := refusal(dispatch):
            found[key] = CompiledPipeline(0, {}, {}, why)
            continue
        with pipelines.compiling(dispatch):
            pipeline = Native(core, "pipeline", pipelines.compile_apart(key, dispatch, flags))
            try:
                found[key] = _read(core, pipeline.handle, texts)
            finally:
                pipeline.destroy()
    return [found[key] for key in keys]


def _read(core: Core, pipeline: Any, texts: bool) -> CompiledPipeline:
    info = structs.make("VkPipelineInfoKHR", pipeline=pipeline)
    properties = "VkPipelineExecutablePropertiesKHR"
    sizes = _listed(core, properties, info, lambda entry: entry.subgroupSize)
    if len(sizes) != 1:
        raise DeviceError(f"a compute pipeline of {len(sizes)} executables")
    executable = structs.make("VkPipelineExecutableInfoKHR", pipeline=pipeline, executableIndex=0)
    numbers = _listed(core, "VkPipelineExecutableStatisticKHR", executable, _statistic)
    return CompiledPipeline(sizes[0], dict(numbers), _texts(core, executable) if texts else {})


def _statistic(entry: Any) -> tuple[str, float]:
    return _text(entry.name), float(getattr(entry.value, _MEMBERS[entry.format]))


def _texts(core: Core, executable: structs.Struct) -> dict[str, str]:
    name = "VkPipelineExecutableInternalRepresentationKHR"
    sizes = _listed(core, name, executable, lambda entry: entry.dataSize)
    # A second call fills the memory that the first one has told the sizes of.
    memory = [structs.out("char", max(1, size)) for size in sizes]
    entries = structs.array(
        name, [structs.make(name, dataSize=s, pData=m) for s, m in zip(sizes, memory, strict=True)]
    )
    count = structs.out("uint32_t")
    count[0] = len(memory)
    code = _function(core, name)(core.device, executable.ptr, count, entries.ptr)
    core.check(code, "reading compiled code")
    return {
        _text(entry.name): ffi.string(ffi.cast("char *", entry.pData), entry.dataSize).decode(
            errors="replace"
        )
        for entry in entries.ptr
        if entry.isText
    }


def _listed(core: Core, name: str, info: structs.Struct, read: Callable[[Any], T]) -> list[T]:
    """What ``read`` makes of the structs ``name`` that are known of a pipeline or executable."""
    call = partial(_function(core, name), core.device, info.ptr)
    code, found = structs.listed(name, call, read)
    core.check(code, "reading statistics of a pipeline")
    return found


def _function(core: Core, struct: str) -> Callable[..., int]:
    """The extension's function that lists a struct; the loader does not export it."""
    name = f"vkGet{struct.removeprefix('Vk').removesuffix('KHR').removesuffix('s')}sKHR"
    address = lib.vkGetDeviceProcAddr(core.device, name.encode())
    return ffi.cast(f"PFN_{name}", address)  # type: ignore[no-any-return]


def _text(characters: Any) -> str:
    return str(ffi.string(characters).decode(errors="replace"))
