"""Broadcasting of operands against the output: axes and strides (shaders/common/broadcast.glsl)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem

#: Axes that the shader has room for.
MAX_AXES = 6
#: A scalar at a time costs about this many times what whole vec4s cost.
SCALAR_PENALTY = 3.0


@dataclass(frozen=True)
class Operand:
    """Strides of an operand along the output's axes; ``splat``: one scalar for all four lanes."""

    strides: tuple[int, ...]
    direct: bool = False
    splat: bool = False


@dataclass(frozen=True)
class Broadcast:
    """Axes of the output and the operands, merged where they can be. Not ``wide``: in scalars."""

    sizes: tuple[int, ...]
    operands: tuple[Operand, ...]
    wide: bool

    @property
    def constants(self) -> dict[str, int]:
        """Specialization constants of a kernel with two operands, or with a condition as third."""
        one, other, *condition = self.operands
        spec = {
            "RANK": len(self.sizes),
            "DIRECT_X": int(one.direct),
            "DIRECT_W": int(other.direct),
            "SPLAT_X": int(one.splat),
            "SPLAT_W": int(other.splat),
        }
        for operand in condition:
            spec |= {"DIRECT_C": int(operand.direct), "SPLAT_C": int(operand.splat)}
        return spec

    @property
    def sizes_and_strides(self) -> dict[str, tuple[int, ...]]:
        """Push constants: sizes and the strides of the operands, along MAX_AXES axes."""
        lead = MAX_AXES - len(self.sizes)
        names = ("stride_x", "stride_w", "stride_c")
        strides = {n: (0,) * lead + o.strides for n, o in zip(names, self.operands, strict=False)}
        return {"size": (1,) * lead + self.sizes, **strides}


def operand_layout(type_: TensorType, output: TensorType, target: Layout) -> Layout | None:
    """The layout in which the kernel can read an operand, or None.

    For a C4 output that is C4 where the ranks agree; LINEAR for an operand that does not vary along
    the channels or along nothing else.
    """
    if target is Layout.LINEAR:
        return Layout.LINEAR
    dims = _aligned(type_, output)
    only_channels = math.prod(dims) == dims[1]
    if type_.rank == output.rank and type_.size > 1 and not (only_channels and dims[1] % 4 == 0):
        return Layout.C4
    return Layout.LINEAR if only_channels or dims[1] == 1 else None


def broadcast(
    types: Sequence[TensorType], layouts: Sequence[Layout], output: TensorType, target: Layout
) -> Broadcast | None:
    """The axes and strides for operands in ``layouts``; None where they are too many."""
    if target is Layout.C4:
        sizes, wide = _blocks(output), True
        found = [_in_blocks(t, lay, output) for t, lay in zip(types, layouts, strict=True)]
    else:
        flat = all(t.size in (1, output.size) for t in types)
        wide = flat or output.dims[-1] % 4 == 0
        sizes = [ceil_div(output.size, 4)] if flat else _rows(output, wide)
        found = [_flat(t, output) if flat else _in_rows(t, output, wide) for t in types]
    return _merged(sizes, found, wide)


def _aligned(type_: TensorType, output: TensorType) -> tuple[int, ...]:
    return (1,) * (output.rank - type_.rank) + type_.dims


def _blocks(output: TensorType) -> list[int]:
    n, channels, *spatial = output.dims
    return [n, ceil_div(channels, 4), *spatial]


def _rows(output: TensorType, wide: bool) -> list[int]:
    *outer, last = output.dims
    return [*outer, last // 4 if wide else last]


def _strides(dims: Sequence[int], output: Sequence[int]) -> list[int]:
    """Row-major strides of ``dims``, 0 where the output has more than the operand's 1."""
    steps = [math.prod(dims[a + 1 :]) for a in range(len(dims))]
    return [0 if d == 1 else s for d, s in zip(dims, steps, strict=True)]


def _flat(type_: TensorType, output: TensorType) -> Operand:
    whole = type_.size == output.size
    return Operand((int(whole),), direct=whole, splat=not whole)


def _in_rows(type_: TensorType, output: TensorType, wide: bool) -> Operand:
    dims = _aligned(type_, output)
    strides = _strides(dims, output.dims)
    splat = wide and dims[-1] == 1
    if wide and not splat:
        strides = [*(s // 4 for s in strides[:-1]), 1]
    return Operand(tuple(strides), dims == output.dims, splat)


def _in_blocks(type_: TensorType, layout: Layout, output: TensorType) -> Operand:
    dims = _aligned(type_, output)
    n, channels, *spatial = dims
    splat = channels == 1 and (output.dims[1] > 1 or layout is Layout.LINEAR)
    if layout is Layout.LINEAR:
        if not splat:  # a vector along the channels lies there as its blocks do
            return Operand((0, 1, *[0] * len(spatial)))
        return Operand(tuple(_strides(dims, output.dims)), splat=True)
    held = (n, ceil_div(channels, 4), *spatial)
    strides = _strides(held, _blocks(output))
    unit = 4 if splat else 1
    return Operand(tuple(s * unit for s in strides), dims == output.dims, splat)


def _merged(sizes: Sequence[int], operands: Sequence[Operand], wide: bool) -> Broadcast | None:
    """Neighbouring axes along which every operand steps evenly are one; axes of 1 are none."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for size, *strides in zip(sizes, *(o.strides for o in operands), strict=True):
        if size == 1:
            continue
        if axes and all(a == b * size for a, b in zip(axes[-1][1], strides, strict=True)):
            axes[-1] = (axes[-1][0] * size, tuple(strides))
        else:
            axes.append((size, tuple(strides)))
    if all(o.direct or not any(o.strides) for o in operands):
        axes = []
    if len(axes) > MAX_AXES:
        return None
    columns = [tuple(a[1][k] for a in axes) for k in range(len(operands))]
    made = [Operand(c, o.direct, o.splat) for c, o in zip(columns, operands, strict=True)]
    return Broadcast(tuple(a[0] for a in axes), tuple(made), wide)


def in_each_layout(
    problem: Problem, types: Sequence[TensorType]
) -> Iterator[tuple[Layout, list[Layout], Broadcast, float]]:
    """Layouts of a result that broadcast operands of these types can be computed in.

    With each go the operands' layouts, how they broadcast, and the cost of a dispatch that reads
    and writes all of them once.
    """
    (y,), machine = problem.outputs, problem.machine
    for layout in (lay for lay in PLAIN if allows(y, lay)):
        layouts = [operand_layout(t, y, layout) for t in types]
        known = [lay for lay in layouts if lay is not None]
        plan = broadcast(types, known, y, layout) if len(known) == len(types) else None
        if plan is None:
            continue
        moved = sum(storage_bytes(t, lay) for t, lay in zip(types, known, strict=True))
        moved += storage_bytes(y, layout)
        cost = machine.dispatch + moved * machine.byte * (1.0 if plan.wide else SCALAR_PENALTY)
        yield layout, known, plan, cost
