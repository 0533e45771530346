"""Lists of boxes sorted and suppressed on the device: what detection layers end with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.emitter import Bound, Emitter, Ref, ceil_div, read1, read4, update, write
from vknn.lowering.grids import fits, fits_buffer, fits_loops, lane_count, spread
from vknn.plan import DeviceLimits

#: The bits of the score that no box has, as NONE in shaders/detection/list.glsl.
_NONE = int(np.array(np.finfo(np.float32).min).view(np.int32))
#: As in suppress.comp: boxes that a lane compares in one round.
_AT_ONCE = 4

#: What a row of a result holds (FORM of merge.comp).
DETECTION, BOX, SCORE = range(3)


@dataclass(frozen=True)
class BoxLists:
    """Groups of boxes among which the best suppress others.

    ``entries``: boxes of a group before they are sorted. ``most``: how many of them are looked at,
    best first. ``limit``: how many stay at the most, in all groups. ``shared_rows``: all groups
    have the same boxes and differ in scores; then a group's label is its number, and from
    ``skipped`` on one more.
    """

    groups: int
    entries: int
    most: int
    limit: int
    threshold: float
    shared_rows: bool = False
    skipped: int = 0

    @property
    def stride(self) -> int:
        """Scores of a group lie so far apart: whole vec4s."""
        return 4 * ceil_div(self.entries, 4)

    @property
    def _rows(self) -> int:
        return self.entries * (1 if self.shared_rows else self.groups)

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device can sort and suppress so many."""
        listed = self.groups * self.most
        buffers = (8 * self._rows, 8 * listed, listed + self.groups, self.groups * self.stride)
        halvings = self.most.bit_length() + 1
        return (
            all(fits_buffer(limits, n) for n in buffers)
            and fits(ceil_div(self.groups * self.entries, lane_count(limits)), limits)
            and fits(max(self.groups, ceil_div(listed, lane_count(limits))), limits)
            and fits_loops(limits, ceil_div(self.entries, 4))
            and fits_loops(limits, self.groups, 1 + halvings)
            and 2 * self._rounds(limits) <= limits.max_loop_rounds
        )

    def _lanes(self, limits: DeviceLimits) -> int:
        return min(128, limits.max_group_invocations, limits.max_group_size[0])

    def _rounds(self, limits: DeviceLimits) -> int:
        """Of a lane that compares one box with those behind it."""
        return 1 + ceil_div(self.most, self._lanes(limits) * _AT_ONCE)

    def new_scores(self, emitter: Emitter) -> Ref:
        """Scratch for scores [groups, stride], in which no box is there yet."""
        scores = emitter.scratch("scores", self.groups * self.stride)
        emitter.fill(scores, _NONE)
        return scores

    def new_rows(self, emitter: Emitter) -> Ref:
        """Scratch for boxes, two vec4s each (shaders/detection/list.glsl)."""
        return emitter.scratch("rows", 8 * self._rows)

    def select(
        self, emitter: Emitter, scores: Ref, rows: Ref, results: Sequence[tuple[int, Ref, Ref]]
    ) -> None:
        """Writes what stays to ``results``: what a row holds, its buffer, that of the count."""
        ordered = self._sort(emitter, scores, rows)
        kept = self._suppress(emitter, ordered)
        for form, y, count in results:
            over_lanes(
                emitter,
                "merge",
                [read4(ordered), read1(kept), write(y), update(count)],
                self.groups * self.most,
                [self.groups, self.most, self.limit],
                {10: form},
            )

    def _sort(self, emitter: Emitter, scores: Ref, rows: Ref) -> Ref:
        ordered = emitter.scratch("sorted", 8 * self.groups * self.most)
        emitter.fill(ordered, _NONE)
        over_lanes(
            emitter,
            "rank",
            [read4(scores), read4(rows), write(ordered)],
            self.groups * self.entries,
            [self.groups, self.entries, self.stride, self.most, self.skipped],
            {10: int(self.shared_rows)},
        )
        return ordered

    def _suppress(self, emitter: Emitter, ordered: Ref) -> Ref:
        limits = emitter.problem.limits
        lanes = self._lanes(limits)
        gone = emitter.scratch("gone", self.groups * self.most, dtype=DType.INT32)
        kept = emitter.scratch("kept", self.groups * (1 + self.most), dtype=DType.INT32)
        emitter.fill(gone)
        emitter.fill(kept)
        chunk = max(1, limits.max_loop_rounds // 2 // self._rounds(limits))
        for first in range(0, self.most, chunk):
            push = [self.groups, self.most, self.limit, first, min(first + chunk, self.most)]
            emitter.dispatch(
                "detection/suppress",
                [read4(ordered), update(gone), update(kept)],
                groups=spread(self.groups, limits),
                local=(lanes, 1, 1),
                push=[*push, float(np.float32(self.threshold))],
                label=f"{emitter.problem.op.type_name} suppress",
            )
        return kept


def over_lanes(
    emitter: Emitter,
    kernel: str,
    bindings: Sequence[Bound],
    count: int,
    push: Sequence[int | float],
    spec: Mapping[int, int | float] | None = None,
) -> None:
    """A dispatch of shaders/detection/<kernel>.comp with a lane for each of ``count`` items."""
    limits = emitter.problem.limits
    lanes = lane_count(limits)
    emitter.dispatch(
        f"detection/{kernel}",
        bindings,
        groups=spread(ceil_div(count, lanes), limits),
        local=(lanes, 1, 1),
        push=push,
        spec=spec,
        label=f"{emitter.problem.op.type_name} {kernel}",
    )
