"""Plans of a model compiled and looked at, not run: what the driver made of each pipeline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import vknn.compile
from vknn.plan import Dispatch, Plan
from vknn.profiling.static_entry import NAMES
from vknn.profiling.static_floors import flags
from vknn.runtime import Device
from vknn.runtime.machines import is_rdna
from vknn.runtime.pipeline_statistics import FEATURE, CompiledPipeline, compiled
from vknn.runtime.pipelines import PipelineKey, pipeline_keys
from vknn.runtime.spirv.modules import spirv

#: The driver's numbers that are told of a dispatch.
FOUND = ("kernel", "registers", "spills", "scratch", "shared", "waves", "code")


def below_floors(device: Device, told: Iterator[tuple[Dispatch, CompiledPipeline]]) -> set[str]:
    """Floors that compiled dispatches are below, as "kernel label: flag (numbers)"."""
    below, rdna = set(), is_rdna(device.limits.name)
    for dispatch, pipeline in told:
        statistics = pipeline.statistics
        numbers = {
            name: next((int(statistics[key]) for key in keys if key in statistics), None)
            for name, keys in NAMES.items()
        }
        for flag in flags(numbers, statistics, pipeline.subgroup_size, rdna=rdna):
            shown = {n: v for n, v in numbers.items() if n in FOUND and v}
            below.add(f"{dispatch.kernel} {dispatch.label}: {flag} {shown}")
    return below


class Compiling:
    """Stands for the executables of plans: has the pipelines compiled, and gives zeros as results.

    A pipeline is compiled once, for the first plan that has it, with the driver's numbers alone:
    no memory, no commands. ``below``: the floors that those compiled are below.
    """

    def __init__(self) -> None:
        self.below: set[str] = set()
        self.dispatches = 0
        self._seen: set[PipelineKey] = set()

    @contextmanager
    def instead(self) -> Iterator[None]:
        """Replaces executables while sessions compile their models."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vknn.compile, "Executable", self._executable)
            yield

    def _executable(self, device: Device, plan: Plan, *_: Any, **__: Any) -> _Zeros:
        dispatches = plan.dispatches
        self.dispatches += len(dispatches)
        keys = dict(zip(pipeline_keys(dispatches, spirv), dispatches, strict=True))
        new = {key: dispatch for key, dispatch in keys.items() if key not in self._seen}
        self._seen |= new.keys()
        if FEATURE in device.limits.features:
            shared = device.shared
            told = compiled(shared.core, shared.pipelines, [*new], [*new.values()])
            self.below |= below_floors(device, zip(new.values(), told, strict=True))
        return _Zeros(plan)


class _Zeros:
    """An executable whose results are zeros, and counts of none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def run(self, feeds: Mapping[str, Any], kept: Collection[str] = ()) -> dict[str, np.ndarray]:
        found = {}
        for name, port in self.plan.outputs.items():
            dims = list(port.type.dims)
            if port.count is not None:
                dims[port.open_axis] = 0
            found[name] = np.zeros(dims, port.type.dtype.numpy)
        return found

    def close(self) -> None:
        pass
