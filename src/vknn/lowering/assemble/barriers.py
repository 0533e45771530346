"""Barriers and submits.

A barrier stands only where a hazard is: a command reads or writes bytes that an earlier command,
not yet behind a barrier, wrote (RAW, WAW), or writes bytes that one read (WAR). Bytes count, not
buffers, so that memory shared by aliasing is seen too. Commands between two barriers may overlap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.plan import Barrier, Buffer, Command, Dispatch, Role, Step, Touch, touches

#: Work in one submit, by kind of device, as (FLOPs, bytes): about a tenth of the shortest watchdog
#: (2 s, Windows) at the throughput that a slow device of the kind reaches.
SUBMIT_BOUNDS = {
    "discrete": (200e9, 20e9),
    "integrated": (20e9, 4e9),
    "virtual": (20e9, 4e9),
    "cpu": (10e9, 4e9),
    "other": (4e9, 1e9),
}


@dataclass(frozen=True)
class _Range:
    role: Role
    start: int
    end: int
    buffer: int


class _Ranges:
    """The bytes of many ranges, as ranges in their order of which no two meet."""

    def __init__(self) -> None:
        self._starts: dict[Role, list[int]] = defaultdict(list)
        self._ends: dict[Role, list[int]] = defaultdict(list)

    def meet(self, other: _Range) -> bool:
        """Whether one of them has bytes of the other range."""
        first, behind = self._met(other)
        return first < behind

    def add(self, other: _Range) -> None:
        """Another range; those that it meets become one with it."""
        first, behind = self._met(other)
        starts, ends = self._starts[other.role], self._ends[other.role]
        start = min([other.start, *starts[first:behind]])
        end = max([other.end, *ends[first:behind]])
        starts[first:behind], ends[first:behind] = [start], [end]

    def _met(self, other: _Range) -> tuple[int, int]:
        """The number of the first range that meets the other, and of the one behind the last."""
        first = bisect_right(self._ends[other.role], other.start)
        return first, bisect_left(self._starts[other.role], other.end)


def byte_ranges(command: Command, buffers: Sequence[Buffer]) -> tuple[list[_Range], list[_Range]]:
    """The ranges that a command reads and those that it writes. Weights never change: left out."""
    reads, writes = [], []
    for touch in touches(command):
        buffer = buffers[touch.buffer]
        if buffer.role is Role.WEIGHT:
            continue
        range_ = _range(touch, buffer)
        if touch.access.reads:
            reads.append(range_)
        if touch.access.writes:
            writes.append(range_)
    return reads, writes


def _range(touch: Touch, buffer: Buffer) -> _Range:
    """The bytes in whole 32-bit words: two copies into halves of one word are a hazard too."""
    start = buffer.offset + touch.start
    end = buffer.offset + buffer.nbytes if touch.nbytes is None else start + touch.nbytes
    return _Range(buffer.role, start // 4 * 4, -(-end // 4) * 4, touch.buffer)


def add_barriers(commands: Sequence[Command], buffers: Sequence[Buffer]) -> list[Step]:
    """The commands with the barriers that they need, and no others."""
    steps: list[Step] = []
    read, written = _Ranges(), _Ranges()
    for command in commands:
        reads, writes = byte_ranges(command, buffers)
        conflicts = {a.buffer for a in reads if written.meet(a)}
        conflicts |= {a.buffer for a in writes if written.meet(a) or read.meet(a)}
        if conflicts:
            steps.append(Barrier(tuple(sorted(conflicts))))
            read, written = _Ranges(), _Ranges()
        steps.append(command)
        for range_ in reads:
            read.add(range_)
        for range_ in writes:
            written.add(range_)
    return steps


def cut_submits(steps: Sequence[Step], kind: str) -> tuple[int, ...]:
    """Ends of the submits: each at a barrier, before the work in it exceeds the bound."""
    max_flops, max_bytes = SUBMIT_BOUNDS.get(kind, SUBMIT_BOUNDS["other"])
    ends: list[int] = []
    flops = moved = 0.0
    for index, step in enumerate(steps):
        if isinstance(step, Barrier):
            if flops > max_flops or moved > max_bytes:
                ends.append(index)
                flops = moved = 0.0
        elif isinstance(step, Dispatch):
            flops += step.flops
            moved += step.nbytes
    return (*ends, len(steps))
