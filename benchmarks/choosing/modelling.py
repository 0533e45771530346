"""Modelled time of a candidate: all its dispatches by their code, and each one's own cost."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from vknn.lowering import Layout, lower
from vknn.lowering.kit.weight_cache import WeightCache
from vknn.plan import Dispatch
from vknn.profiling import static_analysis as analysis
from vknn.profiling.modelled import ASSUMPTIONS, ModelledTime, gpu_machine
from vknn.runtime import Device
from vknn.runtime.pipeline_statistics import CompiledPipeline, compiled
from vknn.runtime.pipelines import PipelineKey, pipeline_keys, shipped
from vknn.tuning.jobs import LAYER, Job


class Modeller:
    """Times of dispatches on an open device, each distinct one compiled and counted once.

    ``path``: a file that keeps them from run to run, by all that they depend on.
    """

    def __init__(self, device: Device, path: Path | None = None) -> None:
        self._device, self._path = device, path
        self._pipelines: dict[PipelineKey, CompiledPipeline] = {}
        self._times: dict[str, float | None] = {}
        if path is not None and path.exists():
            self._times = json.loads(path.read_text())

    def candidate(self, job: Job, layout: Layout, name: str) -> list[float | None]:
        """Modelled microseconds of the dispatches of a candidate that gives this layout, without
        what a dispatch itself costs; None for one whose time is not known."""
        options = dataclasses.replace(job.options, algorithm=name, layout=layout)
        plan = lower(job.graph(), self._device.limits, options, WeightCache())
        own = [d for d in plan.dispatches if LAYER in d.nodes]
        keys = pipeline_keys(own, shipped)
        return [self._time(d, key) for d, key in zip(own, keys, strict=True)]

    def save(self) -> None:
        """Writing of the file of times."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._times))

    def _time(self, dispatch: Dispatch, key: PipelineKey) -> float | None:
        about = (key.constants, dispatch.push, dispatch.groups, dispatch.nbytes)
        digest = hashlib.sha256(key.spirv + repr(about).encode()).hexdigest()[:32]
        if digest not in self._times:
            time = self._modelled(dispatch, key)
            self._times[digest] = None if time is None else round(time.busy, 3)
        return self._times[digest]

    def _modelled(self, dispatch: Dispatch, key: PipelineKey) -> ModelledTime | None:
        limits = self._device.limits
        if key not in self._pipelines:
            shared = self._device.shared
            machine = gpu_machine(limits)
            texts = machine is not None and machine.reads_code
            (found,) = compiled(shared.core, shared.pipelines, [key], [dispatch], texts=texts)
            self._pipelines[key] = found
        made = analysis.Compiled(dispatch, key.spirv, self._pipelines[key], 0)
        counts, _ = analysis.counted(made, limits)
        return analysis.modelled(made, counts, limits, ASSUMPTIONS)
