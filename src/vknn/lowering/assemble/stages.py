"""Stages: commands that may run side by side, between two barriers.

GPUs wait at every barrier until all that is running has ended, so commands that do not depend on
each other belong between the same two: branches of a network, say. The stage of a command is the
earliest that its hazards allow; buffers are compared before they have places, so that only the
data's own order counts, not that of memory shared by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vknn.lowering.assemble.pending import PendingCommand
from vknn.lowering.kit.emitter import Ref
from vknn.plan import Role, Touch, touches


@dataclass
class _Touched:
    """Bytes of one buffer that commands have touched so far: (start, end, stage)."""

    read: list[tuple[int, int, int]] = field(default_factory=list)
    written: list[tuple[int, int, int]] = field(default_factory=list)

    def behind(self, start: int, end: int, *, writes: bool) -> int:
        """The first stage in which these bytes may be read, or written."""
        entries = self.written + self.read if writes else self.written
        return max((s + 1 for low, high, s in entries if low < end and start < high), default=0)


def stages(commands: Sequence[PendingCommand]) -> list[int]:
    """The stage of each command, from 0 on without gaps."""
    touched: dict[Ref, _Touched] = {}
    found = []
    for item in commands:
        places = [
            (touched.setdefault(item.refs[t.buffer].root, _Touched()), *_range(item, t), t.access)
            for t in touches(item.command)
            if item.refs[t.buffer].root.role is not Role.WEIGHT
        ]
        stage = max((of.behind(a, b, writes=how.writes) for of, a, b, how in places), default=0)
        for of, start, end, access in places:
            if access.reads:
                of.read.append((start, end, stage))
            if access.writes:
                of.written.append((start, end, stage))
        found.append(stage)
    return found


def _range(item: PendingCommand, touch: Touch) -> tuple[int, int]:
    """The bytes within their root, in whole 32-bit words as barriers count them."""
    ref = item.refs[touch.buffer]
    start = ref.root_offset + touch.start
    end = ref.root_offset + ref.nbytes if touch.nbytes is None else start + touch.nbytes
    return start // 4 * 4, -(-end // 4) * 4
