"""DynamicUpdateSlice: a block written where data say."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kernels.movement.gather import by_field
from vknn.lowering.kernels.movement.rule import SCALAR_PENALTY
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, storage_bytes, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.movement.rearrange import DynamicUpdateSlice

_AXES = 6
#: The number of an axis that has no start.
_NONE = 15


@dataclass(frozen=True)
class _Side:
    """An axis: the tensor's size, the block's, what a step of the start moves by, whose start."""

    size: int
    extent: int
    unit: int
    axis: int

    def joined(self, inner: int) -> _Side:
        """This axis and one of size ``inner`` behind it, all of which the block covers."""
        return _Side(self.size * inner, self.extent * inner, self.unit * inner, self.axis)

    def in_vectors(self) -> _Side | None:
        """The axis counted in vec4s; None where the block may cut through some."""
        if self.size % 4 or self.extent % 4 or (self.unit % 4 and self.extent != self.size):
            return None
        unit = max(self.unit // 4, 1)
        return _Side(self.size // 4, self.extent // 4, unit, self.axis)


@lowers(DynamicUpdateSlice)
def update_at(problem: Problem) -> Sequence[Candidate]:
    """One dispatch that looks at every element of the output."""
    x, update, machine = problem.input(0), problem.input(1), problem.machine
    if 0 in (x.size, update.size) or not 1 <= x.rank < _NONE:
        return []
    box = _box(x, update)
    if len(box) > _AXES:
        return []
    last = box[-1].in_vectors()
    wide = last is not None
    if last is not None:
        box = (*box[:-1], last)
    emit = functools.partial(_emit, x=x, box=box, wide=wide)
    moved = storage_bytes(x, Layout.LINEAR) * machine.byte * 2
    cost = machine.dispatch + moved * (1.0 if wide else SCALAR_PENALTY)
    layouts = (Layout.LINEAR,) * 3
    return [Candidate("overlay", layouts, layouts[:1], emit, cost, inplace=(0,))]


def _box(x: TensorType, update: TensorType) -> tuple[_Side, ...]:
    """The axes, neighbours joined where the block covers the inner one."""
    sides: list[_Side] = []
    for axis, (size, extent) in enumerate(zip(x.dims, update.dims, strict=True)):
        if sides and size == extent:
            sides[-1] = sides[-1].joined(size)
        else:
            sides.append(_Side(size, extent, 1, axis))
    return tuple(sides)


def _emit(emitter: Emitter, x: TensorType, box: tuple[_Side, ...], wide: bool) -> None:
    sides = (_Side(1, 1, 1, _NONE),) * (_AXES - len(box)) + box
    count = vector_count(x, Layout.LINEAR)
    update, target = emitter.input(1), emitter.output()
    source = read4(update) if wide else read1(update)
    emitter.dispatch_items(
        "movement/overlay_at",
        [read4(emitter.input(0)), source, read1(emitter.input(2)), write(target)],
        grid(emitter.problem.limits, count, count if wide else x.size),
        push={
            "count": count,
            "elements": x.size,
            "axes": sum(side.axis << (4 * place) for place, side in enumerate(sides)),
            **by_field(sides, "size", "extent", "unit"),
        },
        defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
    )
