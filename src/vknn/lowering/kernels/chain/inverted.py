"""Inverted residual blocks in one dispatch, on GPUs (shaders/chain/inverted.comp).

Sandler et al. 2018, "MobileNetV2": a convolution of one tap to more channels, a depthwise one,
one of a tap to few channels, and what the block began with added. The tensors between are the
largest of such networks; here they never are in memory. Each workgroup computes a tile of all
channels of the result, a slice of the channels between at a time. Tiles overlap in what they read,
so where much is multiplied for a pixel and there are few of them, dispatches apart are the faster.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.chain.convolutions import (
    constants_of,
    is_depthwise,
    is_plain,
    is_pointwise,
)
from vknn.lowering.kernels.chain.gate import REACH, step_constants
from vknn.lowering.kernels.chain.inverted_registers import by_rows
from vknn.lowering.kernels.chain.inverted_search import best_tiles
from vknn.lowering.kernels.chain.inverted_tiles import InvertedTile, Sizes
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.convolution.float_dots import takes_dots
from vknn.lowering.kernels.convolution.packing import pack_conv
from vknn.lowering.kernels.convolution.shape import ConvShape, conv_shape
from vknn.lowering.kernels.matmul.float_dots import packed_for_dots
from vknn.lowering.kernels.matmul.shared_memory_tiles import FLOAT_DOTS
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, spread

#: Steps of an activation that the kernel has room for, of each convolution.
MOST_STEPS = 2


@dataclass(frozen=True, eq=False)
class Inverted:
    """The three convolutions: their sizes and links."""

    shapes: tuple[ConvShape, ConvShape, ConvShape]
    links: tuple[Link, Link, Link]

    @functools.cached_property
    def sizes(self) -> Sizes:
        """Sizes that tiles are chosen by."""
        first, depthwise, last = self.shapes
        work = tuple(epilogue_work(link.problem.epilogue) for link in self.links)
        half = self.links[0].problem.options.half
        return Sizes(first.c4, first.m4, last.m4, depthwise, work, half)

    @property
    def sources(self) -> tuple[np.ndarray, ...]:
        """The constants of all as the graph has them."""
        return tuple(array for link in self.links for array in constants_of(link))


def inverted_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """The best tile by estimate for each size of workgroups; none for other chains."""
    found = _inverted(links)
    if found is None or "shared" in problem.options.disabled:
        return []
    dots = takes_dots(links[0].problem)
    kind = "dots" if dots else "half" if problem.half_sums else "tile"
    if kind == "half" and problem.machine.few_registers:
        return []  # any of them spills with Intel's compiler
    tiles = best_tiles(problem.limits, found.sizes, kind)
    return [_candidate(problem, found, tile) for tile in tiles if _fits(problem, found, tile)]


def _inverted(links: Sequence[Link]) -> Inverted | None:
    """The three convolutions that the links are, or None."""
    if len(links) != 3 or not all(is_plain(link) for link in links):
        return None
    ends = [link.problem.epilogue for link in links]
    if max(len(end.steps) for end in ends) > MOST_STEPS or ends[0].operands or ends[1].operands:
        return None
    first, depthwise, last = (conv_shape(link.problem) for link in links)
    if not (is_pointwise(first) and is_depthwise(depthwise) and is_pointwise(last)):
        return None
    if len(ends[2].operands) > 1:
        return None
    return Inverted((first, depthwise, last), (links[0], links[1], links[2]))


def _fits(problem: Problem, found: Inverted, tile: InvertedTile) -> bool:
    limits, sizes = problem.limits, found.sizes
    slices = ceil_div(sizes.middle4, tile.slice)
    ends = ceil_div(tile.pixels * sizes.m4, tile.lanes.count)
    return (
        fits(sizes.groups(tile), limits)
        and fits_loops(limits, slices, ceil_div(sizes.x4, tile.steps) + 1)
        and fits_loops(limits, ends)
        and fits_buffer(limits, 4 * sizes.numbers(tile))
    )


def _candidate(problem: Problem, found: Inverted, tile: InvertedTile) -> Candidate:
    emit = functools.partial(_emit, found=found, tile=tile)
    inputs = [Layout.C4, *(None for _ in problem.inputs[1:])]
    for operand in found.links[2].operands:
        inputs[operand] = Layout.C4
    machine, half, last = problem.machine, problem.options.half, found.links[2].problem
    types = [found.links[0].problem.input(0), *problem.outputs, *last.epilogue.operands]
    moved = sum(storage_bytes(t, Layout.C4, half=half) for t in types)
    moved += found.sizes.numbers(tile) * (8 if half else 16)
    cost = machine.dispatch + machine.beside(found.sizes.time(machine, tile), moved)
    return Candidate(tile.name, tuple(inputs), (Layout.C4,), emit, cost)


def _emit(emitter: Emitter, found: Inverted, tile: InvertedTile) -> None:
    own = found.links[2].alone(emitter, emitter.input(0))
    pack = functools.partial(pack_inverted, found, tile)
    key = f"inverted.{tile.slice}.{tile.row(found.sizes.m4)}.{tile.kind == 'dots'}"
    weights = own.weight(key, pack, *found.sources)
    rows = by_rows(emitter.problem.machine, tile.loaded, found.sizes.depthwise.taps)
    defines = {"tile": {}, "half": {"HALF_SUMS": 1}, "dots": {"DOTS": FLOAT_DOTS}}[tile.kind]
    own.dispatch(
        "chain/inverted",
        [read4(emitter.input(0)), read4(weights), write(emitter.output())],
        groups=spread(found.sizes.groups(tile), emitter.problem.limits),
        local=(tile.lanes.count, 1, 1),
        push=_push(found, tile),
        spec={**_constants(found, tile), "BY_ROWS": int(rows)},
        defines=defines,
        epilogue=1,
        with_steps=False,
        access="storage",
        flops=sum(shape.flops for shape in found.shapes),
    )


def _constants(found: Inverted, tile: InvertedTile) -> dict[str, int | float]:
    """Specialization constants."""
    sizes, depthwise = found.sizes, found.shapes[1]
    steps: dict[str, int | float] = {}
    plane = math.prod(depthwise.size_in)
    for number, link in enumerate(found.links):
        steps |= step_constants(link.problem.epilogue.steps, MOST_STEPS * number)
    return {
        "LANES": tile.lanes.count,
        "SLICE": tile.slice,
        "X4": sizes.x4,
        "M4": sizes.m4,
        "TILE_H": tile.height,
        "TILE_W": tile.width,
        "KERNEL_H": depthwise.kernel[1],
        "KERNEL_W": depthwise.kernel[2],
        "STRIDE_H": depthwise.strides[1],
        "STRIDE_W": depthwise.strides[2],
        "DILATION_H": depthwise.dilations[1],
        "DILATION_W": depthwise.dilations[2],
        "FIRST_PIXELS": tile.lanes.first_pixels,
        "FIRST_COLS": tile.lanes.first_cols,
        "STEPS": tile.steps,
        "AHEAD": tile.ahead,
        "PIXELS": tile.lanes.pixels,
        "COLS": tile.lanes.cols,
        "PARTS": tile.lanes.parts,
        "LAST_AHEAD": tile.last_ahead,
        "PLANE": plane if plane * (8 if sizes.half else 16) <= REACH else 0,
        **steps,
    }


def _push(found: Inverted, tile: InvertedTile) -> dict[str, int]:
    """Push constants."""
    sizes, depthwise = found.sizes, found.shapes[1]
    down, across = sizes.tiles(tile)
    slices = ceil_div(sizes.middle4, tile.slice)
    middle4 = slices * tile.slice
    last = 4 * middle4 * tile.row(sizes.m4)
    ends = np.cumsum([4 * middle4 * sizes.x4, middle4, middle4 * depthwise.taps, middle4, last])
    names = ("first_bias", "depthwise", "depthwise_bias", "last", "last_bias")
    return {
        "tiles_w": across,
        "tiles": down * across,
        "total": sizes.groups(tile),
        "slices": slices,
        "middle": depthwise.channels_out,
        "channels": found.shapes[2].channels_out,
        "in_h": depthwise.size_in[1],
        "in_w": depthwise.size_in[2],
        "out_h": depthwise.size_out[1],
        "out_w": depthwise.size_out[2],
        "pad_h": depthwise.pads[1],
        "pad_w": depthwise.pads[2],
        **dict(zip(names, map(int, ends), strict=True)),
        "one": 1,
    }


def pack_inverted(found: Inverted, tile: InvertedTile) -> np.ndarray:
    """Weights and bias of the three convolutions, in slices of the channels between.

    The first as :func:`pack_conv` has it, [slice][tap][vec4] and [slice][vec4] of the depthwise
    one, the last one's as :func:`pack_conv` has a single block. Padding lanes are 0.
    """
    sizes, row = found.sizes, tile.row(found.sizes.m4)
    middle4 = ceil_div(sizes.middle4, tile.slice) * tile.slice
    (w, *bias), (own, *own_bias), (last, *last_bias) = (constants_of(link) for link in found.links)
    first = pack_conv(1, tile.slice, w, *bias)
    behind = 4 * middle4 - last.shape[1]
    second = pack_conv(1, row, np.pad(last, ((0, 0), (0, behind), (0, 0), (0, 0))), *last_bias)
    if tile.kind == "dots":
        first = packed_for_dots(first, 16 * middle4 * sizes.x4, tile.slice)
        second = packed_for_dots(second, 16 * middle4 * row, row)
    taps = np.zeros((own[0].size + 1, 4 * middle4), np.float32)
    taps[:-1, : len(own)] = own.reshape(len(own), -1).T
    if own_bias:
        taps[-1, : len(own)] = own_bias[0]
    slices = taps[:-1].reshape(len(taps) - 1, -1, 4 * tile.slice).transpose(1, 0, 2)
    return np.concatenate([first, slices.ravel(), taps[-1], second])
