"""Plan of a lab: its dispatch over memory of its own, filled anew before each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.kernel_lab.description import LabBinding, LabMemory
from vknn.plan import (
    Barrier,
    Binding,
    Buffer,
    Copy,
    DeviceLimits,
    Dispatch,
    Fill,
    Plan,
    Role,
    Step,
)

#: Bytes watched behind each buffer that is written.
SENTINEL = 256
#: Word of memory that was not written: NaN as a float32, as two float16 and as two bfloat16.
POISON = 0x7FC17FC1


@dataclass(frozen=True)
class LabPlan:
    """A plan of one dispatch.

    Attributes:
        plan: The plan; the dispatch is its last command.
        buffers: The plan's buffer of each binding.
        watched: Of each binding that is written, the bytes behind its end that its buffer has
            more; 0 where there is no room for any.
        filled: Bindings whose memory held only the fill before the dispatch.
    """

    plan: Plan
    buffers: tuple[int, ...]
    watched: Mapping[int, int]
    filled: frozenset[int]


class _Builder:
    """The buffers, arenas and steps of a plan while it is made."""

    def __init__(self, limits: DeviceLimits) -> None:
        self.alignment = max(limits.alignment, 256)
        self.most = limits.max_storage_buffer_range
        self.buffers: list[Buffer] = []
        self.constants: dict[int, np.ndarray] = {}
        self.steps: list[Step] = []
        self.end = 0
        self.weights = 0

    def weight(self, name: str, data: np.ndarray, nbytes: int) -> int:
        self.buffers.append(Buffer(name, Role.WEIGHT, self.weights, nbytes))
        self.constants[len(self.buffers) - 1] = data
        self.weights += self._aligned(nbytes)
        return len(self.buffers) - 1

    def room(self, name: str, nbytes: int) -> int:
        """A buffer that can be written."""
        buffer = self.part(name, self.end, nbytes)
        self.end += self._aligned(nbytes)
        return buffer

    def part(self, name: str, offset: int, nbytes: int) -> int:
        self.buffers.append(Buffer(name, Role.ACTIVATION, offset, nbytes))
        return len(self.buffers) - 1

    def _aligned(self, nbytes: int) -> int:
        return -(-nbytes // self.alignment) * self.alignment


def lab_plan(
    name: str,
    memories: Sequence[LabMemory],
    data: Sequence[np.ndarray | None],
    bindings: Sequence[LabBinding],
    dispatch: Dispatch,
    limits: DeviceLimits,
    fill: int = POISON,
) -> LabPlan:
    """The plan of a dispatch, whose bindings' buffers are put in here.

    ``data``: bytes (uint8) of each memory before the dispatch; None: it is filled with ``fill``.
    Memory that is written is made anew before each run, with words of ``fill`` behind it.
    """
    made = _Builder(limits)
    buffers: dict[int, int] = {}
    watched: dict[int, int] = {}
    for number, memory in enumerate(memories):
        mine = {i: b for i, b in enumerate(bindings) if b.memory == number}
        whole = all(not b.access.writes and b.offset == 0 for b in mine.values())
        known = data[number]
        if whole and known is not None:
            weight = made.weight(f"memory {number}", known, memory.nbytes)
            buffers.update(dict.fromkeys(mine, weight))
        elif mine:
            _written(made, number, memory, known, mine, fill, buffers, watched)
    if made.steps:
        made.steps.append(Barrier(tuple(buffers.values())))
    bound = tuple(Binding(buffers[i], b.access, b.view, b.format) for i, b in enumerate(bindings))
    made.steps.append(_with(dispatch, bound))
    plan = Plan(
        name=name,
        buffers=tuple(made.buffers),
        arenas={Role.ACTIVATION: made.end, Role.WEIGHT: made.weights},
        steps=tuple(made.steps),
        submits=(len(made.steps),),
        inputs={},
        outputs={},
        constants=made.constants,
    )
    filled = frozenset(i for i, b in enumerate(bindings) if data[b.memory] is None)
    return LabPlan(plan, tuple(buffers[i] for i in range(len(bindings))), watched, filled)


def _written(
    made: _Builder,
    number: int,
    memory: LabMemory,
    data: np.ndarray | None,
    mine: Mapping[int, LabBinding],
    fill: int,
    buffers: dict[int, int],
    watched: dict[int, int],
) -> None:
    """Buffers over memory that is filled before each run.

    Bindings that are written and end where the memory does reach SENTINEL bytes further, so that
    drivers which keep shaders within their buffers let them write there, too.
    """
    name, start = f"memory {number}", made.end
    whole = made.room(name, memory.nbytes + SENTINEL)
    made.steps.append(Fill(whole, fill))
    if data is not None:
        initial = made.weight(f"{name} before", data, memory.nbytes)
        made.steps += [Barrier((whole,)), Copy(initial, whole, memory.nbytes)]
    for index, b in mine.items():
        at_end = b.access.writes and b.offset + b.nbytes == memory.nbytes
        more = SENTINEL if at_end and b.nbytes + SENTINEL <= made.most else 0
        buffers[index] = made.part(f"{name} {index}", start + b.offset, b.nbytes + more)
        if b.access.writes:
            watched[index] = more


def _with(dispatch: Dispatch, bindings: tuple[Binding, ...]) -> Dispatch:
    return Dispatch(
        kernel=dispatch.kernel,
        variant=dispatch.variant,
        specialization=dispatch.specialization,
        push=dispatch.push,
        bindings=bindings,
        groups=dispatch.groups,
        nodes=dispatch.nodes,
        label=dispatch.label,
        flops=dispatch.flops,
        nbytes=dispatch.nbytes,
    )
