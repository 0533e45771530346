"""Tensors as lines: elements that are reduced together (shaders/reduction/reduction_axes.glsl)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vknn.graph import TensorType
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.layouts import Layout, allows
from vknn.lowering.kit.workgroups import lane_count
from vknn.plan import DeviceLimits

#: Axes of each kind that the shaders have room for.
MAX_AXES = 3
#: Specialization constants of shaders/reduction/reduction_axes.glsl and common/indexing.glsl.
LANES, ROWS, _KEPT, _FOLDED, _ACROSS, _TAIL, _FEW_ITEMS = 10, 11, 12, 13, 14, 15, 99
_FEW = 1 << 20


@dataclass(frozen=True)
class Axis:
    """``size`` steps of ``step`` vec4s (or scalars, of lines that are not wide)."""

    size: int
    step: int


@dataclass(frozen=True)
class Lines:
    """``lines`` of ``count`` items: vec4s, or four scalars along the line if not ``wide``.

    ``across``: the line runs through the lanes of the items; otherwise four lines lie side by side
    in a vec4. ``extent``: scalars of a line where not ``wide``. ``block``: vec4s from one block of
    channels to the next, blocks and channels, in C4; ``within``: lines of a block.
    """

    kept: tuple[Axis, ...]
    folded: tuple[Axis, ...]
    wide: bool
    across: bool
    block: tuple[int, int, int] | None = None
    within: int = 1

    @property
    def lines(self) -> int:
        return math.prod(a.size for a in self.kept)

    @property
    def extent(self) -> int:
        return math.prod(a.size for a in self.folded)

    @property
    def count(self) -> int:
        return self.extent if self.wide else -(-self.extent // 4)

    @property
    def tail(self) -> bool:
        """True where lanes lie behind the last channel."""
        return self.block is not None and self.block[2] % 4 != 0

    def shape(self, limits: DeviceLimits) -> RowShape:
        """How many lanes share a line."""
        apart = bool(self.folded) and self.folded[-1].step > 1
        alone = RowShape(1, lane_count(limits))
        many = limits.kind != "cpu" and apart and self.lines >= 4096
        if many and alone.fits(self.lines, self.count, limits):
            return alone
        return row_shape(self.lines, self.count, limits)

    def push(self) -> list[int]:
        """LINES_MEMBERS."""
        kept, folded = _padded(self.kept), _padded(self.folded)
        sizes = [[a.size for a in axes[1:]] for axes in (kept, folded)]
        steps = [[a.step for a in axes] for axes in (kept, folded)]
        plane, blocks, channels = self.block or (1, 1, 1)
        return [
            *(self.lines, self.count, *sizes[0], *steps[0], *sizes[1], *steps[1]),
            *(self.extent, plane, blocks, channels),
        ]

    def spec(self, shape: RowShape) -> dict[int, int]:
        """Specialization constants."""
        size = self.lines * self.extent * (4 if self.wide else 1)
        return {
            LANES: shape.lanes,
            ROWS: shape.rows,
            _KEPT: max(1, len(self.kept)),
            _FOLDED: max(1, len(self.folded)),
            _ACROSS: int(self.across),
            _TAIL: int(self.tail),
            _FEW_ITEMS: int(size < _FEW),
        }


def lines_of(x: TensorType, axes: Sequence[int], layout: Layout) -> Lines | None:
    """``x`` as lines along ``axes`` together; None where they are too many for the shaders."""
    if not allows(x, layout):
        return None
    return lines_of_sizes(x.dims, [a in axes for a in range(x.rank)], layout)


def lines_of_groups(x: TensorType, groups: int, layout: Layout) -> Lines | None:
    """As :func:`lines_of`, each of ``groups`` runs of channels with all its spatial elements."""
    n, channels, *spatial = x.dims
    within = channels // groups
    if layout is Layout.LINEAR:
        return lines_of_sizes((n, groups, within, *spatial), _group_axes(spatial), layout)
    if groups == 1:
        return lines_of_sizes(x.dims, [False, *[True] * (x.rank - 1)], layout)
    if groups == channels:
        return lines_of_sizes(x.dims, [False, False, *[True] * len(spatial)], layout)
    if within % 4:
        return None
    sizes = (n, groups, within // 4, *spatial)
    return _merged(sizes, _group_axes(spatial), wide=True, across=True)


def _group_axes(spatial: Sequence[int]) -> list[bool]:
    return [False, False, True, *[True] * len(spatial)]


def lines_of_sizes(sizes: Sequence[int], folded: Sequence[bool], layout: Layout) -> Lines | None:
    """Lines of a tensor of these sizes, along the axes that are ``folded``."""
    if layout is Layout.C4:
        n, channels, *spatial = sizes
        blocks = -(-channels // 4)
        made = _merged((n, blocks, *spatial), folded, wide=True, across=folded[1])
        within = math.prod(d for d, f in zip(spatial, folded[2:], strict=True) if not f)
        block = (math.prod(spatial), blocks, channels)
        return made and replace(made, block=block, within=within)
    last = next((a for a in reversed(range(len(sizes))) if sizes[a] != 1), None)
    if last is None or sizes[last] == 0:
        return _merged(sizes, folded, wide=False, across=True)
    # Neighbours of one kind are one axis, so that vec4s may reach over them.
    inner = last
    while inner > 0 and (folded[inner - 1] == folded[last] or sizes[inner - 1] == 1):
        inner -= 1
    run = math.prod(sizes[inner : last + 1])
    if run % 4:
        return _merged(sizes, folded, wide=False, across=True)
    in_fours = (*sizes[:inner], run // 4)
    kinds = [*folded[:inner], folded[last]]
    return _merged(in_fours, kinds, wide=True, across=folded[last])


def _merged(
    sizes: Sequence[int],
    folded: Sequence[bool],
    *,
    wide: bool,
    across: bool,
) -> Lines | None:
    """Axes of size 1 dropped, neighbours of one kind joined."""
    steps = [math.prod(sizes[a + 1 :]) for a in range(len(sizes))]
    axes = [(f, Axis(n, s)) for f, n, s in zip(folded, sizes, steps, strict=True) if n != 1]
    found: dict[bool, list[Axis]] = {False: [], True: []}
    for kind, run in itertools.groupby(axes, key=lambda pair: pair[0]):
        members = [axis for _, axis in run]
        found[kind].append(Axis(math.prod(a.size for a in members), members[-1].step))
    if max(map(len, found.values())) > MAX_AXES:
        return None
    return Lines(tuple(found[False]), tuple(found[True]), wide, across)


def _padded(axes: Sequence[Axis]) -> list[Axis]:
    return [*[Axis(1, 0)] * (MAX_AXES - len(axes)), *axes]
