"""Quantized convolution by cooperative matrices of int8.

The shader is shaders/convolution/cooperative_bytes.comp.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from vknn.lowering.kernels.convolution.packing import (
    allows_packed,
    packed_weights,
    weight_blocks,
)
from vknn.lowering.kernels.convolution.register_tiles import (
    push_constants,
    tap_axes,
)
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    input_layouts,
    moved_bytes,
)
from vknn.lowering.kernels.matmul.cooperative_tiles import COOPERATIVE_WORK, PART, SMALL_PART
from vknn.lowering.kernels.matmul.shared_memory_tiles import BARRIER, HELD, LOAD
from vknn.lowering.kernels.quantized.requantize import (
    DOTS,
    MovingCost,
    byte_formats,
    centre,
    in_bytes,
    is_quantized,
    quantized_variant,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_loops, spread
from vknn.plan import CooperativeMatrix, DeviceLimits

#: vec4s of input channels in shared memory at a time.
DEPTH = 8
#: Subgroups along each side of a workgroup's tile.
_SIDE = 2
#: What a device needs.
_NEEDS = frozenset(("cooperative_matrix", "int8_arithmetic"))


@dataclass(frozen=True)
class _Tile:
    """A workgroup's tile: each of its subgroups computes ``part`` x ``part`` results."""

    part: int
    matrix: CooperativeMatrix
    subgroup: int

    @property
    def lanes(self) -> int:
        """Invocations of a workgroup."""
        return _SIDE * _SIDE * self.subgroup

    @property
    def height(self) -> int:
        """Pixels of a workgroup."""
        return _SIDE * self.part

    @property
    def width(self) -> int:
        """vec4s of output channels of a workgroup."""
        return self.height // 4

    @property
    def shared_bytes(self) -> int:
        """Shared memory that it takes, in bytes."""
        factors = 8 * (DEPTH // 2 + 2) * (self.height + 4 * self.width)
        return factors + 16 * self.height * self.matrix.m // self.part * (self.width + 1)

    def fits(self, limits: DeviceLimits) -> bool:
        """True where matrices divide the tile, lanes share its pixels evenly and the device can."""
        most = min(limits.max_group_invocations, limits.max_group_size[0])
        even = max(self.matrix.m, self.matrix.n) <= self.part and self.lanes <= DEPTH * self.height
        return even and self.lanes <= most and self.shared_bytes <= limits.shared_memory

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants of the shader."""
        matrix = self.matrix
        return {
            "BLOCK_M": self.height,
            "BLOCK_N": self.width,
            "DEPTH": DEPTH,
            "LANES": self.lanes,
            "MATRICES_M": self.part // matrix.m,
            "MATRICES_N": self.part // matrix.n,
            "MATRIX_M": matrix.m,
            "MATRIX_N": matrix.n,
            "MATRIX_K": matrix.k,
        }


def cooperative_byte_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile and layout; none without int8 matrices that sum up in int32."""
    limits = problem.limits
    able = limits.kind != "cpu" and limits.features >= _NEEDS
    if not able or "cooperative" in problem.options.disabled or not is_quantized(problem):
        return []
    mixed = "integer_dot_mixed" in limits.features  # data would be unsigned
    matrix = _matrix(limits)
    if matrix is None or mixed or not shape.whole_vectors or DOTS not in byte_formats(problem):
        return []
    if centre(problem):
        return []  # the sums of the data would be matrices of their own
    tiles = [_Tile(part, matrix, limits.subgroup_size) for part in (PART, SMALL_PART)]
    tiles = [t for t in tiles if _fits(problem, shape, t)]
    costs = [functools.partial(_cost, problem, shape, t) for t in tiles]
    found = [_candidate(problem, shape, *each) for each in zip(tiles, costs, strict=True)]
    return [*found, *in_bytes(problem, found, costs)]


def _matrix(limits: DeviceLimits) -> CooperativeMatrix | None:
    """The largest matrices that a small tile is a multiple of; else the largest; or None."""
    found = [
        matrix
        for matrix in limits.cooperative
        if (matrix.factors, matrix.sums) == ("int8", "int32")
        and all(size in (8, 16, 32) for size in (matrix.m, matrix.n, matrix.k))
    ]
    small = [matrix for matrix in found if max(matrix.m, matrix.n) <= SMALL_PART]
    return max(small or found, key=lambda matrix: matrix.m * matrix.n * matrix.k, default=None)


def _groups(shape: ConvShape, tile: _Tile) -> int:
    blocks = weight_blocks(shape, tile.width).count
    return ceil_div(shape.pixels, tile.height) * blocks * shape.batch


def _rounds(shape: ConvShape) -> int:
    return shape.taps * ceil_div(ceil_div(shape.group_in, 4), DEPTH)


def _fits(problem: Problem, shape: ConvShape, tile: _Tile) -> bool:
    loops = fits_loops(problem.limits, shape.taps, ceil_div(ceil_div(shape.group_in, 4), DEPTH))
    blocks = weight_blocks(shape, tile.width)
    packed = allows_packed(problem, blocks, _groups(shape, tile))
    return tile.fits(problem.limits) and loops and packed


def _cost(problem: Problem, shape: ConvShape, tile: _Tile, _: Layout, spared: int) -> float:
    """Microseconds, with ``spared`` bytes of all not moved."""
    results = tile.height * tile.width / tile.lanes
    read = LOAD * DEPTH * (tile.height / 2 + tile.width) / tile.lanes
    work = 16 * DEPTH * results * COOPERATIVE_WORK + read + 2 * BARRIER
    rounds, machine = _rounds(shape), problem.machine
    steps = rounds * work + 2 * HELD * results + BARRIER
    busy = machine.in_rounds(_groups(shape, tile) * tile.lanes, steps, rounds)
    moved = moved_bytes(problem) - 3 * problem.input(1).size - spared
    return machine.dispatch + machine.beside(busy, moved)


def _candidate(problem: Problem, shape: ConvShape, tile: _Tile, cost: MovingCost) -> Candidate:
    emit = functools.partial(_emit, shape=shape, tile=tile)
    name = f"cooperative{tile.height}x{4 * tile.width}"
    return Candidate(name, input_layouts(problem), (Layout.C4,), emit, cost(Layout.C4, 0))


def _emit(emitter: Emitter, shape: ConvShape, tile: _Tile) -> None:
    weights = packed_weights(emitter, shape, tile.width, DOTS)
    groups, limits = _groups(shape, tile), emitter.problem.limits
    variant = quantized_variant(emitter, 4, weight_format=DOTS, folds=True)
    defines = {name: value for name, value in variant.defines.items() if name != "ELEM"}
    emitter.dispatch(
        "convolution/cooperative_bytes",
        [read4(emitter.input(0)), read4(weights), write(emitter.output()), *variant.bindings],
        groups=spread(groups, limits),
        local=(tile.lanes, 1, 1),
        push=push_constants(shape, ceil_div(shape.pixels, tile.height), groups, tile.width),
        spec={**tile.spec, "AXES": tap_axes(shape), **variant.spec},
        defines={"BYTES": 0, **defines, "COOPERATIVE": 1},
        access="storage",
        flops=shape.flops,
    )
