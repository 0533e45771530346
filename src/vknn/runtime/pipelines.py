"""Compute pipelines and their layouts, each made once a device."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vknn import forks
from vknn.errors import DeviceError, ShaderError
from vknn.plan import Dispatch, View
from vknn.runtime import cachefile, driver_watch, refusals
from vknn.runtime.spirv.cooperative import has_matrices
from vknn.runtime.spirv.specialize import specialized
from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.core import Core, Native
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

Shaders = Callable[[str, tuple[tuple[str, str], ...]], bytes]
#: A module and the constants (id, value) of a pipeline -> what these leave of it.
Cut = Callable[[bytes, Sequence[tuple[int, int | float]]], bytes]
#: id and bytes: 1, 1.0 and True (and 0.0 and -0.0) are different constants though they are equal.
Constants = tuple[tuple[int, bytes], ...]

#: View -> VkDescriptorType
DESCRIPTOR_TYPES = {View.TEXEL: 4, View.IMAGE: 5, View.STORAGE: 7}
#: At most so many threads compile pipelines, each at least so many of them.
MAX_THREADS, THREAD_SHARE = 8, 2
#: So many pipelines that nothing uses are kept for the next plan: on llvmpipe, where one has one
#: or two megabytes of machine code, some hundred megabytes.
MOST_UNUSED = 128
_SPIRV_MAGIC = b"\x03\x02\x23\x07"
# VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
_FULL_SUBGROUPS = 2


@dataclass(frozen=True)
class PipelineKey:
    """Key of a pipeline: equal keys mean one pipeline. ``views``, ``push`` (bytes): its layout."""

    spirv: bytes
    constants: Constants
    views: tuple[View, ...]
    push: int


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A pipeline and what is needed to bind it."""

    native: Native
    layout: Any
    set_layout: Any

    @property
    def handle(self) -> Any:
        """The VkPipeline."""
        return self.native.handle


def shipped(kernel: str, variant: tuple[tuple[str, str], ...]) -> bytes:
    """The SPIR-V of a variant of vknn's own kernels."""
    from vknn.runtime.spirv.modules import spirv  # needed only where a plan has dispatches

    return spirv(kernel, variant)


def pipeline_keys(
    dispatches: Sequence[Dispatch], shaders: Shaders, cut: Cut | None = None
) -> list[PipelineKey]:
    """The key of each dispatch's pipeline, its module cut to what the constants leave of it.

    ``cut``: in place of ``specialized``.
    """
    spirv = {key: _module_of(key, shaders) for key in {_kernel(d) for d in dispatches}}
    folded: dict[tuple[_Kernel, Constants], bytes] = {}
    return [_pipeline_key(d, spirv[_kernel(d)], folded, cut or specialized) for d in dispatches]


class Pipelines:
    """All pipelines of a device, made in batches through one cache that is kept on disk.

    Whoever had pipelines made releases them; of those that nothing uses the MOST_UNUSED that were
    released last are kept.
    """

    def __init__(self, core: Core, cache_folder: Path | None) -> None:
        self._core = core
        self._lock = threading.Lock()
        forks.renew(self)
        self._natives: list[Native] = []
        self._set_layouts: dict[tuple[View, ...], Any] = {}
        self._layouts: dict[tuple[tuple[View, ...], int], Any] = {}
        self._pipelines: dict[PipelineKey, Pipeline] = {}
        self._users: Counter[PipelineKey] = Counter()
        #: The pipelines without users, those released first in front.
        self._unused: dict[PipelineKey, None] = {}
        self._path = cachefile.cache_file(cache_folder, core.snapshot) if cache_folder else None
        self._cache: Native | None = None
        self._stored = b""

    def __len__(self) -> int:
        return len(self._pipelines)

    def made(self, keys: Sequence[PipelineKey], dispatches: Sequence[Dispatch]) -> list[Pipeline]:
        """The pipeline of each dispatch, by its key; those missing are made in one go.

        They last until :meth:`release` with the same keys.
        """
        with self._lock:
            named = dict(zip(keys, dispatches, strict=True))
            missing = [key for key in named if key not in self._pipelines]
            if missing:
                self._make(missing, [named[key] for key in missing])
            for key in named:
                self._users[key] += 1
                self._unused.pop(key, None)
            return [self._pipelines[key] for key in keys]

    def release(self, keys: Iterable[PipelineKey]) -> None:
        """End of a use of the pipelines of ``keys``; the device is done with them."""
        with self._lock:
            for key in dict.fromkeys(keys):
                if key not in self._users:  # behind destroy()
                    continue
                self._users[key] -= 1
                if not self._users[key]:
                    del self._users[key]
                    self._unused[key] = None
            while len(self._unused) > MOST_UNUSED:
                oldest = next(iter(self._unused))
                del self._unused[oldest]
                self._pipelines.pop(oldest).native.destroy()

    @contextmanager
    def lent(self, key: PipelineKey, dispatch: Dispatch) -> Iterator[Pipeline]:
        """The pipeline of a dispatch, to be used within the context."""
        [pipeline] = self.made([key], [dispatch])
        try:
            yield pipeline
        finally:
            self.release([key])

    def compile_apart(self, key: PipelineKey, dispatch: Dispatch, flags: int) -> Any:
        """Handle of a new pipeline with VkPipelineCreateFlags, past the cache; the caller's own."""
        handle = structs.out("VkPipeline")
        create = lib.vkCreateComputePipelines
        with self._modules([key], [dispatch]) as modules:
            with self._lock:
                layout = self._layout(key.views, key.push)
            info = _pipeline_info(modules[key.spirv], key, layout, flags)
            code = create(self._core.device, ffi.NULL, 1, info.ptr, ffi.NULL, handle)
        self._core.check(code, f"creating the pipeline of {dispatch.kernel}")
        return handle[0]

    def compiling(self, dispatch: Dispatch) -> AbstractContextManager[None]:
        """A watched call of the driver's compiler."""
        return driver_watch.at(self._core.snapshot.name, refusals.compiling(dispatch))

    def destroy(self) -> None:
        """Release of everything; saves the cache."""
        with self._lock:
            if self._cache is not None and self._core.lost is None:
                self._save(self._cache)
            for pipeline in self._pipelines.values():
                pipeline.native.destroy()
            for native in reversed(self._natives):
                native.destroy()
            for table in (self._pipelines, self._users, self._unused, self._layouts):
                table.clear()  # type: ignore[attr-defined]
            self._set_layouts.clear()
            self._natives.clear()

    def _make(self, keys: Sequence[PipelineKey], dispatches: Sequence[Dispatch]) -> None:
        layouts = [self._layout(key.views, key.push) for key in keys]
        asked = refusals.asked(keys, dispatches)
        with self._modules(asked, dispatches) as modules:
            pairs = zip(asked, layouts, strict=True)
            infos = [_pipeline_info(modules[key.spirv], key, layout) for key, layout in pairs]
            handles = structs.out("VkPipeline", len(infos))
            try:
                if failed := next(filter(None, self._compile(infos, handles, dispatches)), 0):
                    names = ", ".join(sorted({d.kernel for d in dispatches}))
                    self._core.check(failed, f"creating the pipelines of {names}")
                for place, (key, layout) in enumerate(zip(keys, layouts, strict=True)):
                    native = Native(self._core, "pipeline", handles[place])
                    handles[place] = ffi.NULL
                    native.called(dispatches[place].kernel)
                    self._pipelines[key] = Pipeline(native, layout, self._set_layouts[key.views])
            except BaseException:  # an interrupt comes when they are made
                for handle in handles:
                    if handle != ffi.NULL:
                        Native(self._core, "pipeline", handle).destroy()
                raise

    def _compile(
        self, infos: Sequence[Struct], handles: Any, dispatches: Sequence[Dispatch]
    ) -> list[int]:
        """A VkResult a batch; puts handles in order. Drivers compile a batch in one thread."""
        cache = self._disk_cache()

        def batch(start: int) -> int:
            part = infos[start : start + size]
            native = structs.array("VkComputePipelineCreateInfo", part)
            with self.compiling(dispatches[start]):
                code: int = lib.vkCreateComputePipelines(
                    self._core.device, cache, len(part), native.ptr, ffi.NULL, handles + start
                )
            return code

        alone = "threads" in self._core.disabled or refusals.one_at_a_time
        able = 1 if alone else os.cpu_count() or 1
        threads = min(able, MAX_THREADS, -(-len(infos) // THREAD_SHARE))
        # Whoever watches is to know which one it is that a driver crashes at.
        size = 1 if driver_watch.watcher is not None else -(-len(infos) // threads)
        starts = range(0, len(infos), size)
        if threads == 1 or len(starts) == 1:
            return [batch(start) for start in starts]
        running: list[Future[int]] = []
        # RuntimeError: the process is at its end.
        with ThreadPoolExecutor(threads) as executor, contextlib.suppress(RuntimeError):
            for start in starts:
                running.append(executor.submit(batch, start))  # noqa: PERF401
        codes = [run.result() for run in running]
        return codes + [batch(start) for start in starts[len(running) :]]

    def _create(self, kind: str, info: Struct) -> Any:
        native = self._core.create(kind, info)
        self._natives.append(native)
        return native.handle

    @contextmanager
    def _modules(
        self, keys: Iterable[PipelineKey], dispatches: Iterable[Dispatch]
    ) -> Iterator[dict[bytes, Any]]:
        """Handles of shader modules by their SPIR-V, while pipelines are made of them."""
        with ExitStack() as undo:
            handles = {}
            named = {key.spirv: d.kernel for key, d in zip(keys, dispatches, strict=True)}
            for spirv, kernel in named.items():
                words = structs.block(spirv)
                info = structs.make("VkShaderModuleCreateInfo", codeSize=len(spirv), pCode=words)
                with driver_watch.at(self._core.snapshot.name, refusals.reading(kernel)):
                    module = self._core.create("shader module", info)
                undo.callback(module.destroy)
                handles[spirv] = module.handle
            yield handles

    def _layout(self, views: tuple[View, ...], push: int) -> Any:
        if (views, push) not in self._layouts:
            ranges = [{"stageFlags": vk.VK_SHADER_STAGE_COMPUTE_BIT, "size": push}] if push else []
            info = structs.make(
                "VkPipelineLayoutCreateInfo",
                setLayoutCount=1,
                pSetLayouts=[self._set_layout(views)],
                pushConstantRangeCount=len(ranges),
                pPushConstantRanges=ranges,
            )
            self._layouts[views, push] = self._create("pipeline layout", info)
        return self._layouts[views, push]

    def _set_layout(self, views: tuple[View, ...]) -> Any:
        if views not in self._set_layouts:
            bindings = [
                {
                    "binding": number,
                    "descriptorType": DESCRIPTOR_TYPES[view],
                    "descriptorCount": 1,
                    "stageFlags": vk.VK_SHADER_STAGE_COMPUTE_BIT,
                }
                for number, view in enumerate(views)
            ]
            info = structs.make(
                "VkDescriptorSetLayoutCreateInfo",
                bindingCount=len(bindings),
                pBindings=bindings,
            )
            self._set_layouts[views] = self._create("set layout", info)
        return self._set_layouts[views]

    def _disk_cache(self) -> Any:
        if self._cache is None:
            data = cachefile.read(self._path) if self._path else b""
            try:
                self._cache = self._core.create("pipeline cache", _cache_info(data))
            except DeviceError:
                if not data or self._core.lost:
                    raise
                data = b""  # the driver does not like what it wrote itself
                self._cache = self._core.create("pipeline cache", _cache_info(data))
            self._stored = data
            self._natives.append(self._cache)
        return self._cache.handle

    def _save(self, cache: Native) -> None:
        if self._path is None:
            return
        size = structs.out("size_t")
        get = lib.vkGetPipelineCacheData
        if get(self._core.device, cache.handle, size, ffi.NULL) or not size[0]:
            return
        data = structs.out("char", size[0])
        if get(self._core.device, cache.handle, size, data) == 0:
            fresh = bytes(ffi.buffer(data, size[0]))
            if fresh != self._stored:
                cachefile.write(self._path, fresh)


#: A module's origin: kernel, variant, and the source where that is the user's own.
_Kernel = tuple[str, tuple[tuple[str, str], ...], str | None]


def _kernel(dispatch: Dispatch) -> _Kernel:
    return dispatch.kernel, dispatch.variant, dispatch.source


def _module_of(key: _Kernel, shaders: Shaders) -> bytes:
    kernel, variant, source = key
    if source is None:
        return _checked(kernel, shaders(kernel, variant))
    from vknn.runtime.spirv import modules as sources
    from vknn.runtime.spirv import shaderc  # needed for shaders of the user's own

    try:
        shaderc.compiler()
    except ShaderError as error:
        name = kernel.rpartition("/")[2]
        message = f"the shader of layer {name}: {error}; or register the layer without a shader"
        raise ShaderError(message) from error
    return _checked(kernel, sources.compile_glsl(source, dict(variant), f"{kernel}.comp"))


def _checked(kernel: str, spirv: bytes) -> bytes:
    if len(spirv) % 4 or spirv[:4] != _SPIRV_MAGIC:
        raise ShaderError(f"the module of {kernel} is not SPIR-V")
    return spirv


def _pipeline_key(
    dispatch: Dispatch, spirv: bytes, folded: dict[tuple[_Kernel, Constants], bytes], cut: Cut
) -> PipelineKey:
    """The key of a dispatch's pipeline; ``folded`` keeps modules that were specialized before."""
    views = tuple(b.view for b in dispatch.bindings)
    constants = tuple((number, _word(value)) for number, value in dispatch.specialization)
    made_of = (_kernel(dispatch), constants)
    if made_of not in folded:
        folded[made_of] = cut(spirv, dispatch.specialization)
    return PipelineKey(folded[made_of], constants, views, len(dispatch.push))


def _word(value: int | float) -> bytes:
    """A specialization constant: float32, or int32 (which is also how a VkBool32 looks)."""
    if isinstance(value, (float, np.floating)):
        return struct.pack("<f", value)
    return struct.pack("<i" if value < 1 << 31 else "<I", int(value))


def _pipeline_info(module: Any, key: PipelineKey, layout: Any, flags: int = 0) -> Struct:
    data = b"".join(word for _, word in key.constants)
    entries = [
        {"constantID": number, "offset": 4 * place, "size": 4}
        for place, (number, _) in enumerate(key.constants)
    ]
    special = structs.make(
        "VkSpecializationInfo",
        mapEntryCount=len(entries),
        pMapEntries=entries,
        dataSize=len(data),
        pData=structs.block(data),
    )
    stage = structs.make(
        "VkPipelineShaderStageCreateInfo",
        # What cooperative matrices are spread over has to be whole.
        flags=_FULL_SUBGROUPS if has_matrices(key.spirv) else 0,
        stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
        module=module,
        pName="main",
        pSpecializationInfo=special,
    )
    return structs.make("VkComputePipelineCreateInfo", flags=flags, stage=stage, layout=layout)


def _cache_info(data: bytes) -> Struct:
    return structs.make(
        "VkPipelineCacheCreateInfo",
        initialDataSize=len(data),
        pInitialData=structs.block(data) if data else None,
    )
