"""Run of a plan between arrays on its device: inputs copied from there, outputs copied to there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from vknn.runtime.device_array import DeviceArray
from vknn.runtime.recorded_run import RecordedRun
from vknn.runtime.recorder import Place, submit_ranges
from vknn.runtime.tensor_pool import TensorMemory
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import Barriers, CommandPool
from vknn.runtime.vulkan.structs import Struct


class DeviceRun:
    """Commands of a plan without copies to and from the host, between copies recorded each time.

    It works on the buffers of ``run``, whose steps it records once more.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._core, self._host_io = run.core, run.host_io
        self._barriers = Barriers()
        with ExitStack() as undo:
            self._pool = CommandPool(run.core)
            undo.callback(self._pool.destroy)
            steps = []
            for part in submit_ranges(run.plan):
                steps.append(self._pool.allocate())
                run.recorder.record(steps[-1], part)
            self._into, self._out = self._pool.allocate(), self._pool.allocate()
            self._submits = [commands.submit_info(c) for c in (self._into, *steps, self._out)]
            undo.pop_all()

    def submits(
        self, sources: Mapping[str, DeviceArray], targets: Mapping[str, TensorMemory]
    ) -> list[Struct]:
        """Submits of a run that takes inputs from ``sources``, and copies outputs to ``targets``.

        The other inputs and outputs are the host's. No earlier run is under way.
        """
        commands.begin(self._core, self._into, once=True)
        self._barriers.device(self._into)
        self._host_io.copy_in(self._into, without=sources)
        for name, array in sources.items():
            place = self._host_io.input_place(name)
            memory = array.memory
            start = Place(memory.block.memory, memory.offset, array.nbytes)
            _copy(self._into, start, place, array.nbytes)
        commands.end(self._core, self._into)
        commands.begin(self._core, self._out, once=True)
        self._barriers.device(self._out)
        self._host_io.copy_out(self._out, without=targets)
        for name, memory in targets.items():
            place = self._host_io.output_place(name)
            end = Place(memory.block.memory, memory.offset, memory.nbytes)
            _copy(self._out, place, end, memory.nbytes)
        self._barriers.host(self._out)
        commands.end(self._core, self._out)
        return self._submits

    def destroy(self) -> None:
        self._pool.destroy()


def _copy(target: Any, source: Place, goal: Place, nbytes: int) -> None:
    if nbytes:
        region = (source.offset, goal.offset, -(-nbytes // 4) * 4)
        commands.copy(target, source.memory.handle, goal.memory.handle, [region])
