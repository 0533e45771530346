"""Execution of a lab's dispatch: run, timed, and what it wrote read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vknn.kernel_lab.lab_plan import LabPlan
from vknn.profiling import ASSUMPTIONS, StaticEntry, static_analysis
from vknn.runtime import Device, Executable, WeightPool

Shaders = Callable[[str, tuple[tuple[str, str], ...]], bytes]


@dataclass(frozen=True, eq=False)
class Execution:
    """A dispatch as it ran.

    Attributes:
        written: Bytes (uint8) of each binding that is written, with those watched behind it.
        times: Microseconds of each timed run by the device's timestamps; none where it has none.
        compiled: What the driver made of the kernel.
    """

    written: dict[int, np.ndarray]
    times: tuple[float, ...]
    compiled: StaticEntry


def execute(
    device: Device, lab: LabPlan, spirv: bytes, pool: WeightPool | None, runs: int
) -> Execution:
    """A run whose result is read, and ``runs`` that are timed.

    Raises what :class:`vknn.runtime.Executable` and its ``run`` raise.
    """
    with Executable(device, lab.plan, pool, shaders=lambda kernel, variant: spirv) as executable:
        executable.run({})
        written = {b: executable.read(lab.buffers[b]) for b in lab.watched}
        times = []
        if "timestamps" in device.limits.features:
            for _ in range(runs):
                begin, end = executable.profile({}).spans[-1]
                times.append(float(end - begin) / 1e3)
        made = static_analysis.compiled(executable, device.limits, texts=False)
        entry = static_analysis.entry(made[-1], device.limits, ASSUMPTIONS)
    return Execution(written, tuple(times), entry)
