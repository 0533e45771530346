"""Recorder: the steps of a plan as Vulkan commands over real buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from vknn.plan import Barrier, Binding, Copy, Dispatch, Fill, Plan, TexelFormat, View
from vknn.runtime.pipelines import DESCRIPTOR_TYPES, Pipeline
from vknn.runtime.vulkan import commands, structs
from vknn.runtime.vulkan.core import Core, Native
from vknn.runtime.vulkan.memory import Allocation
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

#: Format -> VkFormat
VK_FORMATS = {
    TexelFormat.R32_SFLOAT: 100,
    TexelFormat.RGBA32_SFLOAT: 109,
    TexelFormat.R32_SINT: 99,
    TexelFormat.RGBA32_SINT: 108,
    TexelFormat.R16_SFLOAT: 76,
    TexelFormat.RGBA16_SFLOAT: 97,
    TexelFormat.R16_UINT: 74,
    TexelFormat.RGBA16_UINT: 95,
}
BIND_COMPUTE = 1  # VK_PIPELINE_BIND_POINT_COMPUTE


@dataclass(frozen=True, eq=False)
class Place:
    """Place of a plan's buffer: ``nbytes`` from ``offset`` of a native buffer.

    ``name``: the buffer's, for other tools.
    """

    memory: Allocation
    offset: int
    nbytes: int
    name: str = ""


@dataclass(frozen=True, eq=False)
class _BoundDispatch:
    """A dispatch ready to be recorded."""

    pipeline: Pipeline
    sets: Any
    push: Any


class Marks:
    """Recording around commands, by their numbers in the plan, and around all of them."""

    def first(self, target: Any) -> None:
        """Recording in front of everything else."""

    def before(self, target: Any, number: int) -> None:
        """Recording in front of a command."""

    def behind(self, target: Any, number: int) -> None:
        """Recording behind a command."""

    def last(self, target: Any) -> None:
        """Recording behind everything else."""


class Recorder:
    """Recorder of a plan's commands, with its descriptor sets and buffer views."""

    def __init__(
        self, core: Core, plan: Plan, places: Sequence[Place], pipelines: Sequence[Pipeline]
    ) -> None:
        self.core, self.plan, self.places = core, plan, places
        self.barriers = commands.Barriers()
        self._natives: list[Native] = []
        self._views: dict[tuple[int, TexelFormat], Any] = {}
        self._push: dict[bytes, Any] = {}
        try:
            self._bound = self._bind(plan.dispatches, pipelines)
        except BaseException:
            self.destroy()
            raise

    def destroy(self) -> None:
        for native in reversed(self._natives):
            native.destroy()
        self._natives.clear()

    def record(
        self,
        target: Any,
        steps: tuple[int, int],
        before: Callable[[Any], None] | None = None,
        after: Callable[[Any], None] | None = None,
        marks: Marks | None = None,
    ) -> None:
        """Recording of ``steps`` (start, end); ``before`` and ``after`` add copies with barriers.

        ``marks`` are recorded around them, and around each command, numbered through the plan.
        """
        commands.begin(self.core, target)
        if marks is not None:
            marks.first(target)
        labels = self.core.labels
        if labels is not None:
            labels.begin(target, self.plan.name)
        # What earlier submits wrote (uploads, the last run) must be visible here.
        self.barriers.device(target)
        if before is not None:
            before(target)
        self._steps(target, steps, marks)
        if after is not None:
            after(target)
        if labels is not None:
            labels.end(target)
        if marks is not None:
            marks.last(target)
        commands.end(self.core, target)

    def _steps(self, target: Any, steps: tuple[int, int], marks: Marks | None) -> None:
        start, end = steps
        number = sum(1 for step in self.plan.steps[:start] if not isinstance(step, Barrier))
        bound = iter(self._bound[sum(isinstance(s, Dispatch) for s in self.plan.steps[:start]) :])
        labels = self.core.labels
        current: Pipeline | None = None
        for step in self.plan.steps[start:end]:
            if isinstance(step, Barrier):
                self.barriers.device(target)
                continue
            if labels is not None:
                labels.begin(target, ", ".join(step.nodes) or step.label)
            if marks is not None:
                marks.before(target, number)
            if isinstance(step, Dispatch):
                current = self._dispatch(target, step, next(bound), current)
            else:
                self._move(target, step)
            if marks is not None:
                marks.behind(target, number)
            if labels is not None:
                labels.end(target)
            number += 1

    def _dispatch(
        self, target: Any, step: Dispatch, bound: _BoundDispatch, current: Pipeline | None
    ) -> Pipeline:
        pipeline = bound.pipeline
        if pipeline is not current:
            lib.vkCmdBindPipeline(target, BIND_COMPUTE, pipeline.handle)
        lib.vkCmdBindDescriptorSets(
            target, BIND_COMPUTE, pipeline.layout, 0, 1, bound.sets, 0, ffi.NULL
        )
        if step.push:
            stage = vk.VK_SHADER_STAGE_COMPUTE_BIT
            size = len(step.push)
            lib.vkCmdPushConstants(target, pipeline.layout, stage, 0, size, bound.push)
        lib.vkCmdDispatch(target, *step.groups)
        return pipeline

    def _move(self, target: Any, step: Copy | Fill) -> None:
        if isinstance(step, Fill):
            place = self.places[step.buffer]
            commands.fill(target, place.memory.handle, place.offset, place.nbytes, step.word)
            return
        source, goal = self.places[step.source], self.places[step.target]
        region = (
            source.offset + step.source_offset,
            goal.offset + step.target_offset,
            step.nbytes,
        )
        commands.copy(target, source.memory.handle, goal.memory.handle, [region])

    def _bind(
        self, dispatches: Sequence[Dispatch], pipelines: Sequence[Pipeline]
    ) -> list[_BoundDispatch]:
        wanted: dict[tuple[Any, tuple[tuple[int, View, TexelFormat], ...]], Any] = {}
        keys = []
        for dispatch, pipeline in zip(dispatches, pipelines, strict=True):
            views = tuple((b.buffer, b.view, b.format) for b in dispatch.bindings)
            keys.append((pipeline.set_layout, views))
            wanted.setdefault(keys[-1], dispatch.bindings)
        sets = dict(zip(wanted, self._allocate(wanted), strict=True)) if wanted else {}
        self._write(wanted, sets)
        return [
            _BoundDispatch(pipeline, sets[key], self._push_block(dispatch.push))
            for key, dispatch, pipeline in zip(keys, dispatches, pipelines, strict=True)
        ]

    def _push_block(self, push: bytes) -> Any:
        if push not in self._push:
            self._push[push] = structs.block(push).ptr
        return self._push[push]

    def _allocate(self, wanted: Mapping[tuple[Any, Any], tuple[Binding, ...]]) -> list[Any]:
        """A descriptor set each, as the one-element arrays that binding takes."""
        bindings = [b for group in wanted.values() for b in group]
        sizes = [
            {"type": kind, "descriptorCount": count}
            for view, kind in DESCRIPTOR_TYPES.items()
            if (count := sum(b.view is view for b in bindings))
        ]
        info = structs.make(
            "VkDescriptorPoolCreateInfo",
            maxSets=len(wanted),
            poolSizeCount=len(sizes),
            pPoolSizes=sizes,
        )
        pool = self.core.create("descriptor pool", info)
        self._natives.append(pool)
        request = structs.make(
            "VkDescriptorSetAllocateInfo",
            descriptorPool=pool.handle,
            descriptorSetCount=len(wanted),
            pSetLayouts=[layout for layout, _ in wanted],
        )
        handles = structs.out("VkDescriptorSet", len(wanted))
        code = lib.vkAllocateDescriptorSets(self.core.device, request.ptr, handles)
        self.core.check(code, "allocating descriptor sets")
        return [structs.array("VkDescriptorSet", [handle]).ptr for handle in handles]

    def _write(self, wanted: Mapping[Any, tuple[Binding, ...]], sets: Mapping[Any, Any]) -> None:
        writes = [
            {
                "dstSet": sets[key][0],
                "dstBinding": number,
                "descriptorCount": 1,
                "descriptorType": DESCRIPTOR_TYPES[binding.view],
                **self._descriptor(binding),
            }
            for key, bindings in wanted.items()
            for number, binding in enumerate(bindings)
        ]
        if writes:
            native = structs.array("VkWriteDescriptorSet", writes)
            lib.vkUpdateDescriptorSets(self.core.device, len(writes), native.ptr, 0, ffi.NULL)

    def _descriptor(self, binding: Binding) -> dict[str, Any]:
        place = self.places[binding.buffer]
        if binding.view is not View.STORAGE:
            return {"pTexelBufferView": [self._view(binding.buffer, binding.format)]}
        info = {"buffer": place.memory.handle, "offset": place.offset, "range": place.nbytes}
        return {"pBufferInfo": [info]}

    def _view(self, buffer: int, format_: TexelFormat) -> Any:
        if (buffer, format_) not in self._views:
            place = self.places[buffer]
            info = structs.make(
                "VkBufferViewCreateInfo",
                buffer=place.memory.handle,
                format=VK_FORMATS[format_],
                offset=place.offset,
                range=place.nbytes,
            )
            native = self.core.create("buffer view", info).called(place.name)
            self._natives.append(native)
            self._views[buffer, format_] = native.handle
        return self._views[buffer, format_]


def submit_ranges(plan: Plan) -> list[tuple[int, int]]:
    """The (start, end) of each submit; a plan without steps has one, which is empty."""
    ends = [end for end in plan.submits if end > 0] or [len(plan.steps)]
    return list(pairwise([0, *ends]))
