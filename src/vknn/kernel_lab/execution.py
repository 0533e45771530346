"""Execution of a lab's dispatch: run, timed, and what it wrote read back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

import numpy as np

from vknn.kernel_lab.lab_plan import LabPlan
from vknn.profiling import ASSUMPTIONS, StaticEntry, static_analysis
from vknn.runtime import Device, Executable, WeightPool

#: Runs that are timed however long they take.
LEAST_RUNS = 3


class LoadedKernel:
    """A lab's kernel made ready on a device, until it is closed. A context manager.

    Raises what :class:`vknn.runtime.Executable` and its ``run`` raise.
    """

    def __init__(
        self, device: Device, lab: LabPlan, spirv: bytes, pool: WeightPool | None = None
    ) -> None:
        self.device, self.lab = device, lab
        self._executable = Executable(device, lab.plan, pool, shaders=lambda kernel, variant: spirv)

    def written(self) -> dict[int, np.ndarray]:
        """Bytes (uint8) of each binding that is written, with those watched behind it, of a run."""
        self._executable.run({})
        return {b: self._executable.read(self.lab.buffers[b]) for b in self.lab.watched}

    def time(self) -> float:
        """Microseconds of the dispatch in a run, by the device's timestamps."""
        begin, end = self._executable.profile({}).spans[-1]
        return float(end - begin) / 1e3

    def compiled(self) -> StaticEntry:
        """The driver's numbers of the kernel, where it tells."""
        limits = self.device.limits
        made = static_analysis.compiled(self._executable, limits, texts=False)
        return static_analysis.entry(made[-1], limits, ASSUMPTIONS)

    def close(self) -> None:
        """Release of its memory and pipeline; may be called twice."""
        self._executable.close()

    def __enter__(self) -> LoadedKernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def timed_in_turn(
    kernels: Sequence[LoadedKernel], runs: int, seconds: float
) -> list[tuple[float, ...]]:
    """Microseconds of each kernel's runs, a run of each a round: what disturbs one disturbs all.

    ``seconds``: after so many, and LEAST_RUNS rounds, no further round begins. None has any where a
    device has no timestamps.
    """
    found: list[list[float]] = [[] for _ in kernels]
    if all("timestamps" in kernel.device.limits.features for kernel in kernels):
        end = time.perf_counter() + seconds
        for number in range(runs):
            if number >= LEAST_RUNS and time.perf_counter() > end:
                break
            for times, kernel in zip(found, kernels, strict=True):
                times.append(kernel.time())
    return [tuple(times) for times in found]
