"""Convolution as a matrix product in register tiles (shaders/convolution/conv.comp)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.convolution_shape import (
    ConvShape,
    constant_weights,
    has_bias,
    input_layouts,
)
from vknn.lowering.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.grids import (
    CPU_GROUP_COST,
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.lowering.layouts import Layout
from vknn.lowering.registry import DISPATCH_COST, Candidate, Problem

#: Subgroup size that the shuffling form of the kernel is written for.
SHUFFLE_LANES = 8


@dataclass(frozen=True)
class ConvTile:
    """A lane's tile: ``pixels`` times ``block`` vec4s of output channels."""

    pixels: int
    block: int
    lanes: int
    shuffle: bool = False

    @property
    def name(self) -> str:
        return f"tile{self.pixels}x{self.block}" + ("-shuffle" if self.shuffle else "")


@dataclass(frozen=True)
class Blocks:
    """How output channels are cut: ``of_group`` blocks a group, ``count`` an image."""

    of_group: int
    count: int
    weights: int  # vec4s of packed weights before the bias
    total: int  # with the bias


def tiled_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile; none where a vec4 of channels belongs to two groups."""
    if not shape.whole_vectors:
        return []
    tiles = [tile for tile in _tiles(problem) if _fits(problem, shape, tile)]
    return [_candidate(problem, shape, tile) for tile in tiles]


def _fits(problem: Problem, shape: ConvShape, tile: ConvTile) -> bool:
    """True where the device allows the dispatches, their loop and the packed weights."""
    limits, packed = problem.limits, _blocks(shape, tile).total
    groups = _group_count(shape, tile)
    if constant_weights(problem) is None:
        groups = max(groups, ceil_div(packed, lane_count(limits)))
    loops = fits_loops(limits, shape.taps * ceil_div(shape.group_in, 4))
    return loops and fits_buffer(limits, 4 * packed) and fits(groups, limits)


def _candidate(problem: Problem, shape: ConvShape, tile: ConvTile) -> Candidate:
    emit = functools.partial(_emit, shape=shape, tile=tile)
    packing = 0 if constant_weights(problem) is not None else DISPATCH_COST
    cost = _cost(problem, shape, tile) + packing
    return Candidate(tile.name, input_layouts(problem), (Layout.C4,), emit, cost)


def _tiles(problem: Problem) -> list[ConvTile]:
    limits = problem.limits
    lanes = lane_count(limits)
    shuffles = "subgroup_shuffle" in limits.features
    if limits.kind == "cpu":
        forms = [(4, 4), (3, 8), (2, 4), (1, 4)]
        tiles = [ConvTile(n, m, lanes) for n, m in forms]
        if shuffles and limits.subgroup_size == SHUFFLE_LANES == lanes:
            tiles = [ConvTile(n, m, lanes, True) for n, m in forms] + tiles[:1]
        return tiles
    return [ConvTile(n, m, lanes) for n, m in ((4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 1))]


def _group_count(shape: ConvShape, tile: ConvTile) -> int:
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    return tiles * _blocks(shape, tile).count * shape.batch


def _blocks(shape: ConvShape, tile: ConvTile) -> Blocks:
    of_group = ceil_div(ceil_div(shape.group_out, 4), tile.block)
    count = of_group * shape.group
    weights = count * shape.taps * ceil_div(shape.group_in, 4) * 4 * tile.block
    return Blocks(of_group, count, weights, weights + count * tile.block)


def _cost(problem: Problem, shape: ConvShape, tile: ConvTile) -> float:
    """Microseconds: steps of a workgroup times the work of a step, over what runs side by side."""
    groups = _group_count(shape, tile)
    steps = shape.taps * ceil_div(shape.group_in, 4)
    products = 4 * tile.pixels * tile.block
    loads = tile.pixels + (tile.block / 2 if tile.shuffle else 4 * tile.block)
    if problem.limits.kind == "cpu":
        # In units of one vector instruction: a load of a vec4 is some 50, a product 1.5, and sums
        # beyond 16 vec4s live in memory. A tile's beginning and its stores cost as several steps.
        spill = 1.0 if tile.pixels * tile.block <= 16 else 1.5
        step = 50 * loads + 4 * 1.5 * spill * products + 4 * (4 * tile.block if tile.shuffle else 0)
        work = step * steps + 500 + 150 * tile.pixels * tile.block
        return DISPATCH_COST + groups * (CPU_GROUP_COST + work * 1.5e-4) / 2
    step = 4 * products + 8 * loads
    waves = max(1.0, groups * tile.lanes / 16384)
    return DISPATCH_COST + waves * steps * step * 2e-4


def _emit(emitter: Emitter, shape: ConvShape, tile: ConvTile) -> None:
    blocks = _blocks(shape, tile)
    weights = _packed(emitter, shape, tile) or _packed_on_device(emitter, shape, tile, blocks)
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    groups = _group_count(shape, tile)
    cg4, mg4 = ceil_div(shape.group_in, 4), ceil_div(shape.group_out, 4)
    push = [shape.pixels, tiles, groups, shape.c4, cg4, shape.m4, mg4]
    push += [blocks.count, blocks.of_group, shape.channels_out, blocks.weights]
    push += [*shape.size_in, *shape.size_out[1:], *shape.geometry()]
    integer = not emitter.output().is_float
    emitter.dispatch(
        "convolution/conv",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push=push,
        spec={10: tile.pixels, 11: tile.block, 12: _axes(shape)},
        defines={"ELEM": int(integer), "SHUFFLE": int(tile.shuffle)},
        epilogue=None if integer else 1,
        flops=shape.flops,
    )


def _axes(shape: ConvShape) -> int:
    if shape.is_pointwise:
        return 0
    return 3 if shape.has_depth else 2


def _packed(emitter: Emitter, shape: ConvShape, tile: ConvTile) -> Ref | None:
    sources = constant_weights(emitter.problem)
    if sources is None:
        return None
    key = f"conv.{tile.block}.{shape.group}"
    return emitter.weight(key, lambda: pack_conv(shape.group, tile.block, *sources), *sources)


def pack_conv(group: int, block: int, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """[block][tap][c4][4][``block`` vec4s of output channels], then the bias [block][channels].

    A block holds ``block`` vec4s of output channels of one group; what is missing is 0.
    """
    dtype = np.float32 if w.dtype.kind == "f" else np.int32
    group_out, group_in, taps = w.shape[0] // group, w.shape[1], int(np.prod(w.shape[2:]))
    blocks, c4 = ceil_div(group_out, 4 * block), ceil_div(group_in, 4)
    padded = np.zeros((group, blocks * 4 * block, 4 * c4, taps), dtype)
    padded[:, :group_out, :group_in] = w.reshape(group, group_out, group_in, taps)
    split = padded.reshape(group * blocks, 4 * block, 4 * c4, taps).transpose(0, 3, 2, 1)
    biases = np.zeros((group, blocks * 4 * block), dtype)
    if bias is not None:
        biases[:, :group_out] = bias.reshape(group, group_out)
    return np.concatenate([split.ravel(), biases.ravel()])


def _packed_on_device(emitter: Emitter, shape: ConvShape, tile: ConvTile, blocks: Blocks) -> Ref:
    """Weights known only at run time, packed by a dispatch of their own."""
    w, limits = emitter.input(1), emitter.problem.limits
    bias = emitter.inputs[2] if has_bias(emitter.problem) else None
    dtype = DType.FLOAT32 if w.is_float else DType.INT32
    packed = emitter.scratch("packed", 4 * blocks.total, dtype=dtype, as_tensor=True)
    lanes = lane_count(limits)
    emitter.dispatch(
        "convolution/pack_weights",
        [read1(w), read1(bias or w), write(packed)],
        groups=spread(ceil_div(blocks.total, lanes), limits),
        local=(lanes, 1, 1),
        push=[
            blocks.weights,
            blocks.total,
            blocks.of_group,
            shape.group_in,
            shape.group_out,
            ceil_div(shape.group_in, 4),
            shape.taps,
        ],
        spec={10: tile.block, 11: int(bias is not None)},
        defines={"ELEM": int(not w.is_float)},
        label=f"{emitter.label} pack",
    )
    return packed
