"""Workbench: a lab's kernel compiled, run, timed and checked on devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.kernel_lab.arrays import floats, read_array, storage
from vknn.kernel_lab.comparison import Expected, OutputCheck, check_output
from vknn.kernel_lab.description import (
    LabDescription,
    LabOutput,
    packed_count,
)
from vknn.kernel_lab.execution import Execution, execute
from vknn.kernel_lab.inputs import read_memories
from vknn.kernel_lab.kernel_source import FOLDER, CompiledKernel, KernelSource, read_source
from vknn.kernel_lab.lab_plan import POISON, LabPlan, lab_plan
from vknn.kernel_lab.report import LabRun
from vknn.kernel_lab.request import requested
from vknn.runtime import Device, WeightPool, open_device

DESCRIPTION = "lab.json"
RUNS = 20
#: Modules that are kept: versions and variants.
MOST_MODULES = 64


class Workbench:
    """A lab's folder and what was opened for it; the base of :class:`vknn.kernel_lab.Lab`.

    Attributes:
        folder: The folder.
        description: What lab.json says, a :class:`vknn.kernel_lab.LabDescription`.
    """

    def __init__(self, folder: Path, description: LabDescription) -> None:
        self.folder, self.description = folder, description
        self._undo = ExitStack()
        self._opened: dict[str, tuple[Device, WeightPool]] = {}
        self._data: list[np.ndarray | None] | None = None
        self._expected: dict[int, Expected] | None = None
        self._compiled: dict[tuple[Any, ...], CompiledKernel] = {}

    def source(self) -> KernelSource:
        """The GLSL as it is now in the folder."""
        return read_source(self.folder, self.description.kernel)

    def run(
        self, device: str = "auto", *, runs: int = RUNS, tolerance: float | None = None
    ) -> LabRun:
        """The kernel compiled as it is now, run, timed and checked.

        Args:
            device: As for :class:`vknn.Session`.
            runs: Timed runs.
            tolerance: Error allowed to every output as a share of its largest number, in place of
                what the operator's arithmetic explains.

        Raises:
            vknn.ShaderError: The GLSL does not compile, or its buffers are not the folder's.
            vknn.DeviceError: The device has not what the kernel needs.
        """
        if runs < 1:
            raise VknnError(f"runs={runs}: at least one run is needed")
        opened, pool = self.device(device)
        compiled = self.compiled(self.source(), self.description.variant)
        return self.ran(self.description, compiled, opened, pool, runs, tolerance)

    def device(self, selector: str = "auto") -> tuple[Device, WeightPool]:
        """The device of a selector, and the pool of the lab's inputs on it; opened once."""
        if selector not in self._opened:
            device = self._undo.enter_context(open_device(selector))
            pool = WeightPool(device)
            self._undo.callback(pool.close)
            self._opened[selector] = device, pool
        return self._opened[selector]

    def compiled(self, source: KernelSource, variant: Mapping[str, str]) -> CompiledKernel:
        """The module of a source; each is compiled once."""
        key = (tuple(source.texts.items()), tuple(sorted(variant.items())))
        if key not in self._compiled:
            self._compiled[key] = source.compile(self.folder / FOLDER, variant)
            if len(self._compiled) > MOST_MODULES:
                del self._compiled[next(iter(self._compiled))]
        return self._compiled[key]

    def ran(
        self,
        description: LabDescription,
        compiled: CompiledKernel,
        device: Device,
        pool: WeightPool,
        runs: int,
        tolerance: float | None = None,
    ) -> LabRun:
        """The run of a compiled kernel, as a description (this lab's, or one much like it) says."""
        file = str(self.folder / DESCRIPTION)
        request = requested(description, compiled, device.limits, file)
        null = device.snapshot.is_null
        plan = lab_plan(
            str(self.folder), description.memories, self.data(), description.bindings,
            request.dispatch, device.limits,
        )  # fmt: skip
        done = execute(device, plan, compiled.spirv, pool, 0 if null else runs)
        checks = () if null else self._checks(plan, done, tolerance)
        notes = [*request.notes, *self._device_notes(device)]
        if null:
            notes.append("a null device computes nothing: neither timed nor checked")
        return LabRun(
            folder=str(self.folder),
            kernel=description.kernel,
            layers=description.layers,
            device=device.snapshot.name,
            driver=f"{device.snapshot.driver_name} {device.snapshot.driver_info}".strip(),
            local=description.local,
            groups=description.groups,
            times=done.times,
            outputs=checks,
            compiled=done.compiled,
            notes=tuple(notes),
        )

    def data(self) -> list[np.ndarray | None]:
        """Bytes of the memories, read once."""
        if self._data is None:
            self._data = read_memories(self.description, self.folder)
        return self._data

    def close(self) -> None:
        """Release of devices; may be called twice."""
        self._opened.clear()
        self._undo.close()

    def forget(self) -> None:
        """End of what was read of the folder's arrays: they are read anew."""
        self._data = self._expected = None

    def _checks(
        self, plan: LabPlan, done: Execution, tolerance: float | None
    ) -> tuple[OutputCheck, ...]:
        checks = []
        for output in self.description.outputs:
            number = output.binding
            binding = self.description.bindings[number]
            raw, watched = done.written[number], plan.watched[number]
            behind = raw[binding.nbytes :]
            fill = np.full(len(behind) // 4, POISON, np.uint32).view(np.uint8)
            sentinels = int((behind != fill).sum()) if watched else None
            kind, end = storage(binding.dtype), self._end(output)
            actual = raw[: binding.nbytes].view(kind)[:end]
            untouched = None
            if number in plan.filled:
                poison = np.full(binding.nbytes // 4, POISON, np.uint32).view(kind)[:end]
                untouched = _same_bytes(actual, poison)
            expected = self._expectation(output, tolerance)
            checks.append(
                check_output(number, binding.name, actual, expected, untouched, sentinels)
            )
        return tuple(checks)

    def _end(self, output: LabOutput) -> int:
        """Elements that are compared: those of the tensor, or of the whole buffer."""
        if output.tensor is not None:
            return packed_count(output.tensor)
        binding = self.description.bindings[output.binding]
        return binding.nbytes // storage(binding.dtype).itemsize

    def _expectation(self, output: LabOutput, tolerance: float | None) -> Expected:
        if self._expected is None:
            self._expected = {}
        if output.binding not in self._expected:
            self._expected[output.binding] = self._read_expectation(output)
        found = self._expected[output.binding]
        if tolerance is None:
            return found
        return dataclasses.replace(found, allowed=_share(found.right, tolerance))

    def _read_expectation(self, output: LabOutput) -> Expected:
        binding = self.description.bindings[output.binding]
        kind, end = storage(binding.dtype), self._end(output)
        count = binding.nbytes // kind.itemsize
        device = read_array(self.folder, output.device, kind, count)[:end]
        if output.reference is not None and output.allowed is not None:
            of = np.dtype("float32" if kind.kind == "f" or binding.dtype == "bfloat16" else "int32")
            right = read_array(self.folder, output.reference, of, end)
            allowed = read_array(self.folder, output.allowed, np.dtype("float32"), end)
            against = "numpy"
        else:
            right, against = floats(device, binding.dtype), "device"
            allowed = _share(right, output.tolerance)
        written = None
        if output.written is not None:
            written = read_array(self.folder, output.written, np.dtype(bool), count)[:end]
        return Expected(right, allowed, device, against, written, output.tensor, binding.dtype)

    def _device_notes(self, device: Device) -> list[str]:
        """Notes where the device is not what the kernel was chosen for."""
        made = self.description.device
        if made.subgroup_size == device.limits.subgroup_size:
            return []
        return [
            f"extracted on {made.name} with subgroups of {made.subgroup_size} lanes; "
            f"{device.snapshot.name} has {device.limits.subgroup_size}"
        ]


def _share(right: np.ndarray, share: float) -> np.ndarray:
    """An allowance for all elements: a share of the largest finite number; none for integers."""
    if right.dtype.kind != "f":
        return np.zeros(1, np.float32)
    size = np.abs(right.astype(np.float64))
    return np.array([share * float(np.max(size, initial=0.0, where=np.isfinite(size)))])


def _same_bytes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = a.dtype.itemsize
    left, right = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (a, b))
    return np.asarray((left == right).all(axis=1))
