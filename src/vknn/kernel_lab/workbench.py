"""Workbench: a lab's kernel compiled, run, timed and checked on devices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from vknn.errors import VknnError
from vknn.kernel_lab.comparison import OutputCheck
from vknn.kernel_lab.description import LabDescription
from vknn.kernel_lab.execution import LoadedKernel, timed_in_turn
from vknn.kernel_lab.inputs import read_memories
from vknn.kernel_lab.kernel_source import FOLDER, CompiledKernel, KernelSource, read_source
from vknn.kernel_lab.lab_plan import lab_plan
from vknn.kernel_lab.report import LabRun
from vknn.kernel_lab.request import requested
from vknn.kernel_lab.verdicts import Verdicts
from vknn.runtime import Device, WeightPool, open_device

DESCRIPTION = "lab.json"
RUNS = 20


@dataclass(frozen=True, eq=False)
class Version:
    """A version of a lab's kernel, ready on a device. A context manager.

    Attributes:
        description: The dispatch that it was made ready for.
        kernel: The kernel on the device.
        notes: Remarks on names that its shader lacks.
    """

    description: LabDescription
    kernel: LoadedKernel
    notes: tuple[str, ...]

    def close(self) -> None:
        """Release of what it holds on the device; may be called twice."""
        self.kernel.close()

    def __enter__(self) -> Version:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


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
        self.verdicts = Verdicts(folder, description)

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
        check_runs(runs)
        with self.version(device) as version:
            return self.measured(version, runs, tolerance)

    def version(self, device: str = "auto") -> Version:
        """The kernel as it is now, compiled and made ready on a device; close it."""
        compiled = self.compiled(self.source(), self.description.variant)
        return self.loaded(self.description, compiled, device)

    def device(self, selector: str = "auto") -> tuple[Device, WeightPool]:
        """The device of a selector, and the pool of the lab's inputs on it; opened once."""
        if selector not in self._opened:
            device = self._undo.enter_context(open_device(selector))
            pool = WeightPool(device)
            self._undo.callback(pool.close)
            self._opened[selector] = device, pool
        return self._opened[selector]

    def compiled(self, source: KernelSource, variant: Mapping[str, str]) -> CompiledKernel:
        """The module of a source's variant."""
        return source.compile(self.folder / FOLDER, variant)

    def loaded(
        self, description: LabDescription, compiled: CompiledKernel, selector: str
    ) -> Version:
        """A compiled kernel made ready, as a description (this lab's, or one much like it) says."""
        device, pool = self.device(selector)
        file = str(self.folder / DESCRIPTION)
        request = requested(description, compiled, device.limits, file)
        plan = lab_plan(
            str(self.folder), description.memories, self.data(), description.bindings,
            request.dispatch, device.limits,
        )  # fmt: skip
        kernel = LoadedKernel(device, plan, compiled.spirv, pool)
        return Version(description, kernel, request.notes)

    def measured(
        self,
        version: Version,
        runs: int,
        tolerance: float | None = None,
        first: Version | None = None,
        seconds: float = math.inf,
    ) -> LabRun:
        """The run of a version, timed in turn with ``first``, for about so many seconds at most."""
        device, kernel, description = version.kernel.device, version.kernel, version.description
        notes = [*version.notes, *self._device_notes(device)]
        checks: tuple[OutputCheck, ...] = ()
        times: list[tuple[float, ...]] = [(), ()]
        if device.snapshot.is_null:
            notes.append("a null device computes nothing: neither timed nor checked")
        else:
            checks = self.verdicts.checks(kernel.lab, kernel.written(), tolerance)
            both = [kernel] if first is None else [kernel, first.kernel]
            times = [*timed_in_turn(both, runs, seconds), ()]
        return LabRun(
            folder=str(self.folder),
            kernel=description.kernel,
            layers=description.layers,
            device=device.snapshot.name,
            driver=f"{device.snapshot.driver_name} {device.snapshot.driver_info}".strip(),
            local=description.local,
            groups=description.groups,
            times=times[0],
            first=times[1],
            outputs=checks,
            compiled=kernel.compiled(),
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

    def describe(self, description: LabDescription) -> None:
        """Another description, with which the folder's arrays are read anew."""
        self.description, self._data = description, None
        self.verdicts = Verdicts(self.folder, description)

    def _device_notes(self, device: Device) -> list[str]:
        """Notes where the device is not what the kernel was chosen for."""
        made = self.description.device
        if made.subgroup_size == device.limits.subgroup_size:
            return []
        crosses = any(name.startswith("subgroup") for name in self.description.needs)
        return [
            f"extracted on {made.name} with subgroups of {made.subgroup_size} lanes; "
            f"{device.snapshot.name} has {device.limits.subgroup_size}"
            + (": the kernel exchanges values in subgroups, and may need those" if crosses else "")
        ]


def check_runs(runs: int) -> None:
    """Check that there is something to time; raises VknnError."""
    if runs < 1:
        raise VknnError(f"runs={runs}: at least one run is needed")
