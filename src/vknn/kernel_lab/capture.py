"""Capture of a dispatch: the bytes of its buffers before and behind it, in a run on the device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.errors import VknnError
from vknn.kernel_lab.choices import DispatchChoice
from vknn.plan import Access, Barrier, Buffer, Copy, Plan, Role, Step, accesses
from vknn.runtime import Device, Executable, WeightPool


@dataclass(frozen=True, eq=False)
class Region:
    """Bytes of an arena, or of a weight, that buffers of a dispatch lie in.

    Attributes:
        buffers: The plan's buffers in it, by index, with their offsets.
        nbytes: Its size.
        before: Its bytes before the dispatch; None where nothing reads them.
        after: Its bytes behind the dispatch; None where nothing writes them.
    """

    buffers: Mapping[int, int]
    nbytes: int
    before: np.ndarray | None
    after: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Captured:
    """Bytes of the regions of a dispatch, and of further buffers (by index) that were asked for."""

    regions: tuple[Region, ...]
    others: Mapping[int, np.ndarray]


@dataclass
class _Part:
    """A region while the plan is made: a buffer over it, and one for its bytes beforehand."""

    buffers: dict[int, int]
    whole: int
    nbytes: int
    reads: bool
    writes: bool
    kept: int | None = None


def capture(
    choice: DispatchChoice, wanted: Sequence[int], device: Device, pool: WeightPool | None
) -> Captured:
    """The bytes around a dispatch, of a run of the plan up to it.

    ``wanted``: further buffers, whose bytes are taken as the first command finds them that reads
    them; none reads those that are missing from the result.
    """
    maker = _Maker(choice)
    parts = [maker.region(group) for group in _groups(choice)]
    others = {b: kept for b in wanted if (kept := maker.keep_at_first_read(b)) is not None}
    plan = maker.plan(parts)
    with Executable(device, plan, pool) as executable:
        executable.run(choice.run.feeds)
        regions = tuple(
            Region(
                part.buffers,
                part.nbytes,
                _before(executable, part) if part.reads else None,
                executable.read(part.whole) if part.writes else None,
            )
            for part in parts
        )
        found = {b: executable.read(kept) for b, kept in others.items()}
    return Captured(regions, found)


def _before(executable: Executable, part: _Part) -> np.ndarray:
    return executable.read(part.whole if part.kept is None else part.kept)


def _groups(choice: DispatchChoice) -> list[dict[int, Access]]:
    """Buffers of a dispatch whose bytes overlap, together; weights each by itself."""
    buffers = choice.run.plan.buffers
    used: dict[int, Access] = {}
    for b in choice.dispatch.bindings:
        twice = b.buffer in used and used[b.buffer] is not b.access
        used[b.buffer] = Access.READ_WRITE if twice else b.access
    groups: list[dict[int, Access]] = []
    order = sorted(used, key=lambda i: (buffers[i].role.value, buffers[i].offset, i))
    for index in order:
        last = groups[-1] if groups else {}
        behind = max((buffers[i].offset + buffers[i].nbytes for i in last), default=0)
        same = any(buffers[i].role is buffers[index].role for i in last)
        if same and buffers[index].role is not Role.WEIGHT and buffers[index].offset < behind:
            last[index] = used[index]
        else:
            groups.append({index: used[index]})
    return groups


class _Maker:
    """The plan of a capture while it is made: the steps up to a dispatch, with copies between."""

    def __init__(self, choice: DispatchChoice) -> None:
        self.source, self.step = choice.run.plan, choice.step
        self.buffers = list(self.source.buffers)
        self.end = -(-self.source.arenas.get(Role.ACTIVATION, 0) // 256) * 256
        #: Index of a step -> copies before it.
        self.copies: dict[int, list[Copy]] = {}

    def region(self, group: Mapping[int, Access]) -> _Part:
        mine = [self.source.buffers[i] for i in group]
        start = min(b.offset for b in mine)
        nbytes = max(b.offset + b.nbytes for b in mine) - start
        places = {i: b.offset - start for i, b in zip(group, mine, strict=True)}
        reads = any(a.reads for a in group.values())
        writes = any(a.writes for a in group.values())
        if mine[0].role is Role.WEIGHT:
            if writes:
                raise VknnError(f"the dispatch writes to the weight {mine[0].name!r}")
            return _Part(places, next(iter(group)), nbytes, reads, writes)
        whole = self._add(Buffer("region", mine[0].role, start, nbytes))
        part = _Part(places, whole, nbytes, reads, writes)
        if reads and writes:
            part.kept = self._keep(whole, nbytes, self.step)
        return part

    def keep_at_first_read(self, buffer: int) -> int | None:
        """A buffer that gets the bytes which the first reader of another finds in it."""
        nbytes = self.source.buffers[buffer].nbytes
        for number, step in enumerate(self.source.steps[: self.step + 1]):
            if isinstance(step, Barrier):
                continue
            if any(i == buffer and access.reads for i, access in accesses(step)):
                return self._keep(buffer, nbytes, number)
        return None

    def plan(self, parts: Sequence[_Part]) -> Plan:
        steps: list[Step] = []
        submits = []
        for number, step in enumerate(self.source.steps[: self.step + 1]):
            if number in self.source.submits:
                submits.append(len(steps))
            copies = self.copies.get(number, [])
            if copies:
                touched = tuple(c.source for c in copies)
                steps += [Barrier(touched), *copies, Barrier(touched)]
            steps.append(step)
        return dataclasses.replace(
            self.source,
            buffers=tuple(self.buffers),
            arenas={**self.source.arenas, Role.ACTIVATION: self.end},
            steps=tuple(steps),
            submits=(*submits, len(steps)),
            outputs={},
            guards=(),
        )

    def _keep(self, buffer: int, nbytes: int, step: int) -> int:
        kept = self._add(Buffer("kept", Role.ACTIVATION, self.end, nbytes))
        self.end += -(-nbytes // 256) * 256
        self.copies.setdefault(step, []).append(Copy(buffer, kept, nbytes))
        return kept

    def _add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1
