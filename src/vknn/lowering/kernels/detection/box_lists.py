"""Box lists, sorted and suppressed on the device, with which detection layers end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, read4, update, write
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.parameters import Push, Spec
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_lanes,
    fits_loops,
    lane_count,
    spread,
)
from vknn.plan import DeviceLimits

#: The bits of the score that no box has, as NONE in shaders/detection/list.glsl.
_NONE = int(np.array(np.finfo(np.float32).min).view(np.int32))
#: As in suppress.comp: boxes that a lane compares in one round.
_AT_ONCE = 4
#: Dispatches that a heap sort may be cut into.
_MOST_PASSES = 256

#: Contents of a row of a result (FORM of merge.comp).
DETECTION, BOX, SCORE = range(3)


@dataclass(frozen=True)
class BoxLists:
    """Groups of boxes among which the best suppress others.

    ``entries``: boxes of a group before they are sorted. ``most``: how many of them are looked at,
    best first. ``limit``: how many stay at the most, in all groups. ``shared_rows``: all groups
    have the same boxes and differ in scores; then a group's label is its number, and from
    ``skipped`` on one more.

    ``classes``: groups of an image, where images have boxes of their own: ``lists`` lists, one or
    one for each class. ``labelled``: an image is one group and its boxes have labels (behind their
    scores); only those of one label suppress each other. ``extra``, ``products``: see
    :func:`vknn.ops.detection.yolo.suppress`. Of equal scores the first come first, with
    ``last_first`` the last, with ``heap`` as :func:`vknn.ops.detection.heap.heap_order` has it.
    """

    groups: int
    entries: int
    most: int
    limit: int
    threshold: float
    shared_rows: bool = False
    skipped: int = 0
    classes: int = 0
    lists: int = 1
    labelled: bool = False
    extra: float = 0.0
    products: bool = False
    last_first: bool = False
    heap: bool = False

    @property
    def stride(self) -> int:
        """Scores of a group lie so far apart: whole vec4s."""
        return 4 * ceil_div(self.entries, 4)

    @property
    def _rows(self) -> int:
        if self.classes:
            return self.entries * self.lists * (self.groups // self.classes)
        return self.entries * (1 if self.shared_rows else self.groups)

    @property
    def _scores(self) -> int:
        return self.groups * self.stride * (2 if self.labelled else 1)

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device can sort and suppress so many."""
        listed = self.groups * self.most
        buffers = (8 * self._rows, 8 * listed, listed + self.groups, self._scores)
        halvings = self.most.bit_length() + 1
        return (
            all(fits_buffer(limits, n) for n in buffers)
            and fits_lanes(self.groups * self.entries, limits)
            and fits(max(self.groups, ceil_div(listed, lane_count(limits))), limits)
            and fits_loops(limits, ceil_div(self.entries, 4))
            and fits_loops(limits, self.groups, 1 + halvings)
            and 2 * self._rounds(limits) <= limits.max_loop_rounds
            and (not self.heap or self._heap_passes(limits) <= _MOST_PASSES)
        )

    def _lanes(self, limits: DeviceLimits) -> int:
        return min(128, limits.max_group_invocations, limits.max_group_size[0])

    def _rounds(self, limits: DeviceLimits) -> int:
        """Loop rounds of a lane that compares one box with those behind it."""
        return 1 + ceil_div(self.most, self._lanes(limits) * _AT_ONCE)

    def new_scores(self, emitter: Emitter) -> Ref:
        """Scratch for scores [groups, stride], in which no box is there yet."""
        scores = emitter.scratch("scores", self._scores)
        emitter.fill(scores, _NONE)
        return scores

    def new_rows(self, emitter: Emitter) -> Ref:
        """Scratch for boxes, two vec4s each (shaders/detection/list.glsl)."""
        return emitter.scratch("rows", 8 * self._rows)

    def select(
        self, emitter: Emitter, scores: Ref, rows: Ref, results: Sequence[tuple[int, Ref, Ref]]
    ) -> None:
        """Boxes that stay, written to ``results``: row contents, rows' buffer, count's buffer."""
        ordered, kept = self.choose(emitter, scores, rows)
        for form, y, count in results:
            over_lanes(
                emitter,
                "merge",
                [read4(ordered), read1(kept), write(y), update(count)],
                self.groups * self.most,
                {"groups": self.groups, "most": self.most, "limit": self.limit},
                {"FORM": form},
            )

    def choose(self, emitter: Emitter, scores: Ref, rows: Ref) -> tuple[Ref, Ref]:
        """The boxes in order, and which stay: [groups, 1 + most], their number, then places."""
        ordered = self._sort(emitter, scores, rows)
        return ordered, self._suppress(emitter, ordered)

    def _sort(self, emitter: Emitter, scores: Ref, rows: Ref) -> Ref:
        ordered = emitter.scratch("sorted", 8 * self.groups * self.most)
        emitter.fill(ordered, _NONE)
        form = 3 if self.labelled else 2 if self.classes else int(self.shared_rows)
        bindings, heap = [read4(scores), read4(rows), write(ordered)], None
        if self.heap:
            heap = emitter.scratch("heap", self.groups * (1 + self.most), dtype=DType.INT32)
            over_lanes(
                emitter,
                "heap_start",
                [write(heap)],
                self.groups * (1 + self.most),
                {"groups": self.groups, "most": self.most},
            )
            bindings.append(update(heap))
        over_lanes(
            emitter,
            "rank",
            bindings,
            self.groups * self.entries,
            {
                **self._sizes,
                "skipped": self.skipped,
                "classes": max(self.classes, 1),
                "lists": self.lists,
            },
            {"ROWS": form, "LAST_FIRST": int(self.last_first)},
            {"TIES": int(self.heap)},
        )
        if heap is not None:
            self._as_heap(emitter, scores, rows, heap, ordered)
        return ordered

    @property
    def _sizes(self) -> dict[str, int]:
        """Push constants that the sorting kernels have in common."""
        return {
            "groups": self.groups,
            "count": self.entries,
            "stride": self.stride,
            "most": self.most,
        }

    def _heap_steps(self, limits: DeviceLimits) -> int:
        """Steps of a heap sort that a lane may take in one dispatch."""
        depth = self.most.bit_length() + 2
        return max(1, limits.max_loop_rounds // (2 * depth + 3))

    def _heap_passes(self, limits: DeviceLimits) -> int:
        return ceil_div(self._heap_total, self._heap_steps(limits))

    @property
    def _heap_total(self) -> int:
        return self.most // 2 + self.entries - self.most + self.most - 1

    def _as_heap(self, emitter: Emitter, scores: Ref, rows: Ref, heap: Ref, ordered: Ref) -> None:
        """Boxes in another order where equal scores are among them."""
        steps = self._heap_steps(emitter.problem.limits)
        for first in range(0, self._heap_total, steps):
            last = min(first + steps, self._heap_total)
            bindings = [read1(scores), update(heap)]
            push = self._sizes | {"first": first, "last": last}
            over_lanes(emitter, "heap", bindings, self.groups, push)
        bindings = [read1(heap), read1(scores), read4(rows), write(ordered)]
        over_lanes(emitter, "heap_rows", bindings, self.groups * self.most, self._sizes)

    def _suppress(self, emitter: Emitter, ordered: Ref) -> Ref:
        limits = emitter.problem.limits
        lanes = self._lanes(limits)
        gone = emitter.scratch("gone", self.groups * self.most, dtype=DType.INT32)
        kept = emitter.scratch("kept", self.groups * (1 + self.most), dtype=DType.INT32)
        emitter.fill(gone)
        emitter.fill(kept)
        chunk = max(1, limits.max_loop_rounds // 2 // self._rounds(limits))
        for first in range(0, self.most, chunk):
            emitter.dispatch(
                "detection/suppress",
                [read4(ordered), update(gone), update(kept)],
                groups=spread(self.groups, limits),
                local=(lanes, 1, 1),
                push={
                    "groups": self.groups,
                    "most": self.most,
                    "limit": self.limit,
                    "first": first,
                    "last": min(first + chunk, self.most),
                    "threshold": float(np.float32(self.threshold)),
                    "extra": float(self.extra),
                },
                spec={"PRODUCTS": int(self.products), "LABELLED": int(self.labelled)},
                label=f"{emitter.problem.op.type_name} suppress",
            )
        return kept


def over_lanes(
    emitter: Emitter,
    kernel: str,
    bindings: Sequence[BoundBuffer],
    count: int,
    push: Push,
    spec: Spec | None = None,
    defines: Mapping[str, int] | None = None,
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
        defines=defines,
        label=f"{emitter.problem.op.type_name} {kernel}",
    )
