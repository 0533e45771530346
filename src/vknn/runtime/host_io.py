"""Input and output of a plan on the host: arrays copied and converted to and from buffers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from vknn import bfloat16
from vknn.errors import InputError
from vknn.plan import Plan, Port
from vknn.runtime.device_array import DeviceArray, storage_dtype
from vknn.runtime.recorder import Place
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import Barriers
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.memory import Allocation


class HostBuffers:
    """Buffers as the host sees them: in place where mapped, else in staging memory of their own."""

    def __init__(self, core: Core, places: Sequence[Place], purpose: str) -> None:
        self._places = places
        self._staging: Allocation | None = None
        self._offsets = [place.offset for place in places]
        if any(place.memory.mapped is None for place in places):
            sizes = [-(-place.nbytes // 16) * 16 for place in places]
            self._offsets = [sum(sizes[:i]) for i in range(len(sizes))]
            self._staging = Allocation(core, sum(sizes), purpose)
        memories = [self._staging or place.memory for place in places]
        #: Memories whose caches the host has to flush or invalidate.
        self.incoherent = list({id(m): m for m in memories if not m.coherent}.values())
        #: The bytes of each buffer.
        self.bytes = [
            _mapped(memory)[offset : offset + place.nbytes]
            for memory, offset, place in zip(memories, self._offsets, places, strict=True)
        ]

    def copy_in(self, target: Any, without: Collection[Place] = ()) -> None:
        """Recording of the copies from staging to device memory."""
        self._copy(target, True, without)

    def copy_out(self, target: Any, without: Collection[Place] = ()) -> None:
        """Recording of the copies from device to staging memory."""
        self._copy(target, False, without)

    def destroy(self) -> None:
        self.bytes = []
        if self._staging is not None:
            self._staging.destroy()

    @property
    def staged(self) -> bool:
        return self._staging is not None

    def _copy(self, target: Any, inwards: bool, without: Collection[Place]) -> None:
        if self._staging is None:
            return
        grouped: dict[int, tuple[Any, list[tuple[int, int, int]]]] = {}
        for place, staged in zip(self._places, self._offsets, strict=True):
            if place in without:
                continue
            ends = (staged, place.offset) if inwards else (place.offset, staged)
            entry = grouped.setdefault(id(place.memory), (place.memory.handle, []))
            entry[1].append((*ends, -(-place.nbytes // 4) * 4))
        for handle, regions in grouped.values():
            ends = (self._staging.handle, handle) if inwards else (handle, self._staging.handle)
            commands.copy(target, *ends, regions)


class HostIO:
    """The inputs and outputs of a plan: checks, copies in and out, converts."""

    def __init__(self, core: Core, plan: Plan, places: Sequence[Place]) -> None:
        self.plan = plan
        self._places = places
        self._barriers = Barriers()
        self._into = HostBuffers(core, [places[p.buffer] for p in plan.inputs.values()], "upload")
        counts = {p.count for p in plan.outputs.values() if p.count is not None}
        read = list(dict.fromkeys([p.buffer for p in plan.outputs.values()] + sorted(counts)))
        self._counted = {places[index] for index in counts}
        try:
            self._out = HostBuffers(core, [places[index] for index in read], "download")
        except BaseException:
            self._into.destroy()
            raise
        seen = dict(zip(read, self._out.bytes, strict=True))
        self._expected = [
            (name, port.type.shape, port.type.dtype.numpy) for name, port in plan.inputs.items()
        ]
        self._inputs = [
            (name, _tensor(port, raw), port.bfloat16)
            for (name, port), raw in zip(plan.inputs.items(), self._into.bytes, strict=True)
        ]
        self._narrows = any(tensor.dtype == np.float16 for _, tensor, _ in self._inputs)
        self._outputs = [
            (name, port, tensor, None if dtype == tensor.dtype else dtype)
            for name, port in plan.outputs.items()
            for tensor, dtype in [(_tensor(port, seen[port.buffer]), port.type.dtype.numpy)]
        ]
        self._counts = {index: seen[index][:4].view(np.int32) for index in counts}

    def before(self, target: Any) -> None:
        """Recording of what comes before the first step."""
        if self._into.staged:
            self._into.copy_in(target)
            self._barriers.device(target)

    def after(self, target: Any) -> None:
        """Recording of what comes behind the last step."""
        if self._out.staged:
            self._barriers.device(target)
            self._out.copy_out(target)
        self._barriers.host(target)

    @property
    def staged(self) -> tuple[bool, bool]:
        """Whether inputs and outputs are copied to and from staging memory."""
        return self._into.staged, self._out.staged

    def copy_in(self, target: Any, without: Collection[str] = ()) -> None:
        """Recording of the inputs' copies alone, but for those that come from elsewhere."""
        self._into.copy_in(target, {self.input_place(name) for name in without})

    def copy_out(self, target: Any, without: Collection[str] = ()) -> None:
        """Recording of the outputs' copies alone, but for those that nobody reads here."""
        read = {self.output_place(name) for name in self.plan.outputs if name not in without}
        unread = {self.output_place(name) for name in without} - read - self._counted
        self._out.copy_out(target, unread)
        self._barriers.copied(target)

    def input_place(self, name: str) -> Place:
        """Place of an input's buffer."""
        return self._places[self.plan.inputs[name].buffer]

    def output_place(self, name: str) -> Place:
        """Place of an output's buffer."""
        return self._places[self.plan.outputs[name].buffer]

    def check(self, feeds: Mapping[str, np.ndarray | DeviceArray]) -> list[str]:
        """Check that names, shapes and dtypes fit the plan; raises InputError if not.

        Returns the names of the arrays that lie on a device.
        """
        on_device = []
        if len(feeds) != len(self._expected):
            raise InputError(_name_mismatch(feeds, self.plan.inputs))
        for name, shape, dtype in self._expected:
            array = feeds.get(name)
            if array is None and name not in feeds:
                raise InputError(_name_mismatch(feeds, self.plan.inputs))
            if not isinstance(array, np.ndarray):
                if not isinstance(array, DeviceArray):
                    kind = type(array).__name__
                    raise InputError(f"input {name!r} is a {kind}, not a NumPy array")
                on_device.append(name)
            if array.shape != shape or array.dtype != dtype:
                given = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
                raise InputError(
                    f"input {name!r} is {given}, expected {self.plan.inputs[name].type}"
                )
        return on_device

    def store(self, feeds: Mapping[str, Any]) -> None:
        """Copy of inputs in, all or some of them, converted to the device's dtypes."""
        if self._narrows:  # numbers beyond float16's range become infinite, without a warning
            with np.errstate(all="ignore"):  # errstate takes longer than a small copy
                self._copy_in(feeds)
        else:
            self._copy_in(feeds)
        for memory in self._into.incoherent:
            memory.flush()

    def load(self, without: Collection[str] = ()) -> dict[str, np.ndarray]:
        """Copy of the outputs out, in the host's dtypes and cut to their counts."""
        for memory in self._out.incoherent:
            memory.invalidate()
        outputs = {}
        for name, port, tensor, dtype in self._outputs:
            if name in without:
                continue
            if port.count is not None:
                tensor = _cut(tensor, port.open_axis, int(self._counts[port.count][0]))
            if port.bfloat16:
                tensor = bfloat16.floats_of(tensor)
            # A plain copy takes a part of the time that astype takes.
            outputs[name] = tensor.copy() if dtype is None else tensor.astype(dtype, order="C")
        return outputs

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an output behind a run, and behind its :meth:`load`: cut to its count."""
        port = self.plan.outputs[name]
        if port.count is None:
            return port.type.dims
        return _cut_shape(port.type.dims, port.open_axis, int(self._counts[port.count][0]))

    def destroy(self) -> None:
        self._inputs, self._outputs, self._counts = [], [], {}
        self._out.destroy()
        self._into.destroy()

    def _copy_in(self, feeds: Mapping[str, Any]) -> None:
        for name, tensor, is_bfloat16 in self._inputs:
            if name in feeds:
                tensor[...] = bfloat16.bits_of(feeds[name]) if is_bfloat16 else feeds[name]


def _cut(tensor: np.ndarray, axis: int, count: int) -> np.ndarray:
    size = _cut_shape(tensor.shape, axis, count)[axis]
    return tensor[(slice(None),) * axis + (slice(size),)]


def _cut_shape(shape: tuple[int, ...], axis: int, count: int) -> tuple[int, ...]:
    return (*shape[:axis], max(0, min(count, shape[axis])), *shape[axis + 1 :])


def _name_mismatch(feeds: Mapping[str, object], ports: Mapping[str, Port]) -> str:
    missing = ", ".join(repr(name) for name in ports if name not in feeds)
    unknown = ", ".join(repr(name) for name in feeds if name not in ports)
    wrong = [f"missing input {missing}"] if missing else []
    wrong += [f"unknown input {unknown}"] if unknown else []
    expected = ", ".join(f"{name}: {port.type}" for name, port in ports.items()) or "none"
    return f"{'; '.join(wrong)} (expected {expected})"


def _tensor(port: Port, raw: np.ndarray) -> np.ndarray:
    storage = storage_dtype(port)
    return raw[: port.type.size * storage.itemsize].view(storage).reshape(port.type.dims)


def _mapped(memory: Allocation) -> np.ndarray:
    assert memory.mapped is not None, "unified and staging memory is always mapped"
    return memory.mapped
