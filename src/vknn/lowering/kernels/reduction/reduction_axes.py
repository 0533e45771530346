"""Rows of a tensor along any axes, as shaders/reduction/reduction_axes.glsl reads them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vknn.graph import TensorType
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.emitter import BoundBuffer, Ref, read1, read4
from vknn.lowering.kit.grid_loop import FEW
from vknn.lowering.kit.layouts import Layout, allows, ceil_div
from vknn.plan import DeviceLimits

#: Axes of each kind (kept, reduced) that the shaders have room for.
MAX_AXES = 3


@dataclass(frozen=True)
class ReductionAxis:
    """``size`` steps of ``step`` vec4s (or scalars, where rows are not wide)."""

    size: int
    step: int


@dataclass(frozen=True)
class ChannelBlocks:
    """The axes of a C4 tensor that say which lanes are padding.

    ``plane``: vec4s from one block of four channels to the next. ``rows``: rows of a block.
    """

    plane: int
    blocks: int
    channels: int
    rows: int = 1


@dataclass(frozen=True)
class ReductionAxes:
    """A tensor as rows that are reduced: the axes that lead from row to row, and those of a row.

    A row has ``count`` items: vec4s if ``wide``, otherwise four scalars one after the other.
    ``across``: a row runs through the lanes of its items; otherwise a vec4 holds elements of four
    neighbouring rows. ``channels``: in C4.
    """

    kept: tuple[ReductionAxis, ...]
    reduced: tuple[ReductionAxis, ...]
    wide: bool
    across: bool
    channels: ChannelBlocks | None = None

    @property
    def rows(self) -> int:
        """Number of rows, or of vec4s of four neighbouring rows."""
        return math.prod(a.size for a in self.kept)

    @property
    def extent(self) -> int:
        """Vec4s of a row where ``wide``, otherwise scalars."""
        return math.prod(a.size for a in self.reduced)

    @property
    def count(self) -> int:
        """Items of a row."""
        return self.extent if self.wide else ceil_div(self.extent, 4)

    @property
    def has_padding_lanes(self) -> bool:
        """True where lanes lie behind the last channel."""
        return self.channels is not None and self.channels.channels % 4 != 0

    def shape(self, limits: DeviceLimits) -> RowShape:
        """Workgroups for the rows."""
        apart = bool(self.reduced) and self.reduced[-1].step > 1
        return row_shape(self.rows, self.count, limits, apart=apart)

    def read(self, x: Ref) -> BoundBuffer:
        """The binding of a buffer of the rows' items."""
        return read4(x) if self.wide else read1(x)

    def push(self) -> dict[str, int]:
        """Push constants of AXES_MEMBERS by name."""
        channels = self.channels or ChannelBlocks(1, 1, 1)
        return {
            "rows": self.rows,
            "count": self.count,
            **_axes_push("kept", self.kept),
            **_axes_push("reduced", self.reduced),
            "extent": self.extent,
            "plane": channels.plane,
            "blocks": channels.blocks,
            "channels": channels.channels,
        }

    def spec(self, shape: RowShape) -> dict[str, int]:
        """Specialization constants of reduction_axes.glsl and common/indexing.glsl by name."""
        size = self.rows * self.extent * (4 if self.wide else 1)
        return {
            **shape.spec,
            "KEPT": max(1, len(self.kept)),
            "REDUCED": max(1, len(self.reduced)),
            "ACROSS": int(self.across),
            "PADDING_LANES": int(self.has_padding_lanes),
            "FEW_ITEMS": int(size < FEW),
        }


def _axes_push(kind: str, axes: Sequence[ReductionAxis]) -> dict[str, int]:
    """Sizes of the inner two of three axes, steps of all; axes that are missing come first."""
    padded = [*[ReductionAxis(1, 0)] * (MAX_AXES - len(axes)), *axes]
    sizes = {f"{kind}{i}": padded[i].size for i in range(1, MAX_AXES)}
    return sizes | {f"{kind}_step{i}": axis.step for i, axis in enumerate(padded)}


def along_axes(x: TensorType, axes: Sequence[int], layout: Layout) -> ReductionAxes | None:
    """``x`` reduced along ``axes`` together; None where they are too many for the shaders."""
    if not allows(x, layout):
        return None
    return _of_sizes(x.dims, [a in axes for a in range(x.rank)], layout)


def along_groups(x: TensorType, groups: int, layout: Layout) -> ReductionAxes | None:
    """``x`` reduced in each of ``groups`` runs of channels, with all their spatial elements.

    None as in :func:`along_axes`, and where blocks of C4 belong to several groups.
    """
    n, channels, *spatial = x.dims
    size = channels // groups
    spatial_too = [False, False, True, *[True] * len(spatial)]
    if layout is Layout.LINEAR:
        return _of_sizes((n, groups, size, *spatial), spatial_too, layout)
    if groups == 1:
        return _of_sizes(x.dims, [False, *[True] * (x.rank - 1)], layout)
    if groups == channels:
        return _of_sizes(x.dims, [False, False, *[True] * len(spatial)], layout)
    if size % 4:
        return None
    return _merged((n, groups, size // 4, *spatial), spatial_too, wide=True, across=True)


def _of_sizes(
    sizes: Sequence[int], reduced: Sequence[bool], layout: Layout
) -> ReductionAxes | None:
    """Rows of a tensor of these sizes, along the axes that are ``reduced``."""
    if layout is Layout.C4:
        return _of_channel_blocks(sizes, reduced)
    last = next((a for a in reversed(range(len(sizes))) if sizes[a] != 1), None)
    if last is None or sizes[last] == 0:
        return _merged(sizes, reduced, wide=False, across=True)
    # Neighbours of one kind are one axis, so that vec4s may reach over them.
    inner = last
    while inner > 0 and (reduced[inner - 1] == reduced[last] or sizes[inner - 1] == 1):
        inner -= 1
    run = math.prod(sizes[inner : last + 1])
    if run % 4:
        return _merged(sizes, reduced, wide=False, across=True)
    in_fours = (*sizes[:inner], run // 4)
    kinds = [*reduced[:inner], reduced[last]]
    return _merged(in_fours, kinds, wide=True, across=reduced[last])


def _of_channel_blocks(sizes: Sequence[int], reduced: Sequence[bool]) -> ReductionAxes | None:
    n, channels, *spatial = sizes
    blocks = ceil_div(channels, 4)
    made = _merged((n, blocks, *spatial), reduced, wide=True, across=reduced[1])
    rows = math.prod(d for d, r in zip(spatial, reduced[2:], strict=True) if not r)
    in_c4 = ChannelBlocks(math.prod(spatial), blocks, channels, rows)
    return made and replace(made, channels=in_c4)


def _merged(
    sizes: Sequence[int], reduced: Sequence[bool], *, wide: bool, across: bool
) -> ReductionAxes | None:
    """Axes of size 1 dropped, neighbours of one kind joined."""
    steps = [math.prod(sizes[a + 1 :]) for a in range(len(sizes))]
    axes = [
        (r, ReductionAxis(n, s)) for r, n, s in zip(reduced, sizes, steps, strict=True) if n != 1
    ]
    found: dict[bool, list[ReductionAxis]] = {False: [], True: []}
    for kind, run in itertools.groupby(axes, key=lambda pair: pair[0]):
        members = [axis for _, axis in run]
        found[kind].append(ReductionAxis(math.prod(a.size for a in members), members[-1].step))
    if max(map(len, found.values())) > MAX_AXES:
        return None
    return ReductionAxes(tuple(found[False]), tuple(found[True]), wide, across)
