"""Proof that a plan is safe: every read finds the bytes meant for it, every hazard has a barrier.

Independent of the planner and the scheduler on purpose: it starts from the finished plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.plan import Barrier, Command, Copy, DeviceLimits, Plan, Role, Touch, touches

#: Fewer bytes than this in a row may be nobody's, behind the end of a tensor or of rows that are
#: copied side by side: sizes are rounded up to it, and no other buffer is as small.
SLACK = 16


class PlanError(AssertionError):
    """Error of a plan that would compute on the wrong bytes."""


def check_plan(plan: Plan, limits: DeviceLimits | None = None) -> None:
    """Check of a plan; raises PlanError. With ``limits`` also of the buffers' places."""
    for buffer in plan.buffers:
        if buffer.role is Role.WEIGHT:
            continue
        if buffer.offset + buffer.nbytes > plan.arenas[buffer.role]:
            raise PlanError(f"buffer {buffer.name!r} ends behind its arena")
        if limits is not None and buffer.offset % limits.alignment:
            raise PlanError(f"buffer {buffer.name!r} begins where the device cannot bind it")
    _check_contents(plan)
    _check_barriers(plan)
    ends = plan.submits
    covered = bool(ends) and ends[-1] == len(plan.steps) and list(ends) == sorted(set(ends))
    if plan.steps and not covered:
        raise PlanError(f"submits {ends} do not cover {len(plan.steps)} steps")


@dataclass(frozen=True)
class _Bytes:
    """Bytes of an arena, the end exclusive, that are touched as ``buffer``."""

    role: Role
    start: int
    end: int
    buffer: int

    def meets(self, other: _Bytes) -> bool:
        return self.role is other.role and self.start < other.end and other.start < self.end

    def same(self, other: _Bytes) -> bool:
        return (self.start, self.end) == (other.start, other.end)


def _whole(plan: Plan, index: int) -> _Bytes:
    buffer = plan.buffers[index]
    return _Bytes(buffer.role, buffer.offset, buffer.offset + buffer.nbytes, index)


def _bytes(plan: Plan, touch: Touch) -> _Bytes:
    buffer = plan.buffers[touch.buffer]
    start, end = buffer.offset + touch.start, buffer.offset + buffer.nbytes
    if touch.nbytes is not None:
        if start + touch.nbytes > end:
            raise PlanError(f"a copy goes beyond the end of {buffer.name!r}")
        end = start + touch.nbytes
    return _Bytes(buffer.role, start, end, touch.buffer)


def _touched(plan: Plan, command: Command) -> tuple[list[_Bytes], list[_Bytes]]:
    """Ranges that a command reads and those that it writes, without weights, which never change."""
    found = [t for t in touches(command) if plan.buffers[t.buffer].role is not Role.WEIGHT]
    reads = [_bytes(plan, t) for t in found if t.access.reads]
    return reads, [_bytes(plan, t) for t in found if t.access.writes]


class _Contents:
    """Owners of bytes: ranges with the buffer that they were last written as.

    A part or view of a buffer has that one's name before its own, a window onto a tensor a "+"
    behind that one's. A read must find data of its own buffer, or of parts of the same one, in all
    of its bytes.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ranges: list[_Bytes] = []
        for port in plan.inputs.values():
            self.write(_whole(plan, port.buffer), "input")

    def name(self, index: int) -> str:
        return self.plan.buffers[index].name

    def tensor(self, index: int) -> str:
        """The name without that of a window."""
        return self.name(index).partition("//+")[0]

    def kin(self, one: int, other: int) -> bool:
        """True for parts and views of one buffer."""
        return self.name(one).split("//")[0] == self.name(other).split("//")[0]

    def write(self, new: _Bytes, label: str) -> None:
        kept = []
        for old in self.ranges:
            if not old.meets(new):
                kept.append(old)
                continue
            if self.tensor(old.buffer) != self.tensor(new.buffer) and self.kin(
                old.buffer, new.buffer
            ):
                # Whoever writes a part writes all of it, once; nothing else lies there.
                names = f"{self.name(new.buffer)!r} is written over {self.name(old.buffer)!r}"
                raise PlanError(f"{label}: {names}")
            if old.start < new.start:
                kept.append(_Bytes(old.role, old.start, new.start, old.buffer))
            if old.end > new.end:
                kept.append(_Bytes(old.role, new.end, old.end, old.buffer))
        self.ranges = [*kept, new]

    def hold(self, wanted: _Bytes) -> bool:
        reached = wanted.start
        for own in sorted(self.ranges, key=lambda r: r.start):
            if not own.meets(wanted) or not self.kin(own.buffer, wanted.buffer):
                continue
            if own.start - reached >= SLACK:
                return False
            reached = max(reached, own.end)
        return reached > wanted.start and wanted.end - reached < SLACK

    def written(self, buffer: int) -> bool:
        """True where any bytes are this buffer's."""
        return any(r.buffer == buffer for r in self.ranges)


def _check_contents(plan: Plan) -> None:
    """Walks the steps with the owner of each byte: a read must find what was written there."""
    contents = _Contents(plan)
    for command in plan.commands:
        reads, writes = _touched(plan, command)
        for read in reads:
            # A binding that no step of an epilogue reads may be bound to the output.
            idle = any(w.buffer == read.buffer for w in writes) and not contents.written(
                read.buffer
            )
            if not idle and not contents.hold(read):
                name = contents.name(read.buffer)
                raise PlanError(f"{command.label}: {name!r} was overwritten or never written")
            _check_in_place(plan, command, read, writes)
        for write in writes:
            contents.write(write, command.label)
    for name, port in plan.outputs.items():
        for held in (port.buffer, port.count):
            if held is None or plan.buffers[held].role is Role.WEIGHT:
                continue
            if not contents.hold(_whole(plan, held)):
                raise PlanError(f"output {name!r} was overwritten or never written")


def _check_in_place(plan: Plan, command: Command, read: _Bytes, writes: list[_Bytes]) -> None:
    """Bytes that a command writes over while it reads them must be written lane by lane."""
    for write in writes:
        if read.meets(write) and (isinstance(command, Copy) or not read.same(write)):
            names = f"{plan.buffers[read.buffer].name!r} and {plan.buffers[write.buffer].name!r}"
            raise PlanError(f"{command.label}: {names} share some bytes, read and written at once")


def _check_barriers(plan: Plan) -> None:
    """Every pair of conflicting commands has a barrier between them."""
    open_reads: list[tuple[_Bytes, str]] = []
    open_writes: list[tuple[_Bytes, str]] = []
    for step in plan.steps:
        if isinstance(step, Barrier):
            open_reads, open_writes = [], []
            continue
        reads, writes = _touched(plan, step)
        hazards = [(mine, other) for mine in writes for other in (*open_reads, *open_writes)]
        hazards += [(mine, other) for mine in reads for other in open_writes]
        for mine, (other, label) in hazards:
            if mine.meets(other):
                name = plan.buffers[mine.buffer].name
                raise PlanError(f"no barrier between {label} and {step.label} on {name!r}")
        open_reads += [(r, step.label) for r in reads]
        open_writes += [(w, step.label) for w in writes]
