"""Barriers and submits.

A barrier stands only where a hazard is: a command reads or writes bytes that an earlier command,
not yet behind a barrier, wrote (RAW, WAW), or writes bytes that one read (WAR). Bytes count, not
buffers, so that memory shared by aliasing is seen too. Commands between two barriers may overlap.
"""

from __future__ import annotations

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

    def meets(self, other: _Range) -> bool:
        return self.role is other.role and self.start < other.end and other.start < self.end


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
    read: list[_Range] = []
    written: list[_Range] = []
    for command in commands:
        reads, writes = byte_ranges(command, buffers)
        conflicts = {a.buffer for a in reads for b in written if a.meets(b)}
        conflicts |= {a.buffer for a in writes for b in written + read if a.meets(b)}
        if conflicts:
            steps.append(Barrier(tuple(sorted(conflicts))))
            read, written = [], []
        steps.append(command)
        read += reads
        written += writes
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
