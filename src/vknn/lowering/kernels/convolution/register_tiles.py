"""Convolution as an implicit matrix product in register tiles (shaders/convolution/conv.comp)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from vknn.lowering.kernels.convolution.float_dots import takes_dots
from vknn.lowering.kernels.convolution.packing import allows_packed, packed_weights, weight_blocks
from vknn.lowering.kernels.convolution.scale import UNSCALED, InputScale
from vknn.lowering.kernels.convolution.shape import (
    ConvShape,
    has_finite_weights,
    input_layouts,
    moved_bytes,
    packing_cost,
)
from vknn.lowering.kernels.convolution.tile import ConvTile, can_shuffle, round_steps
from vknn.lowering.kernels.convolution.tile_times import TileWork
from vknn.lowering.kernels.matmul.shared_memory_tiles import (
    DOT_WORK,
    FLOAT_DOTS,
    reading_cost,
)
from vknn.lowering.kernels.quantized.few_bits import WHOLE, few_constants, weight_bits
from vknn.lowering.kernels.quantized.requantize import (
    BYTES,
    DOTS,
    NUMBERS,
    MovingCost,
    QuantizedVariant,
    by_floats,
    byte_formats,
    centre,
    in_bytes,
    is_quantized,
    quantized_variant,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.convolution.conv import Conv
from vknn.plan import DeviceLimits

#: Parts of the channels that are tried (workgroups of more leave places on SIMDs that none fits),
#: least vec4s of channels of one, and waves of a SIMD beyond which parts save nothing.
_PARTS, _LEAST_CHANNELS, _WAVES_WANTED = (2, 4), 4, 16
#: Most vec4s of sums that are worth handing over.
_MOST_JOINED = 4
#: A multiply-add of integer dots that drivers make of bytes one by one, by one of floats.
_SLOW_DOTS = 3.5
#: Instructions that make floats of a vec4 of x, of a word of it and of four words of weights, that
#: join a vec4 of x to a word, and that requantize a vec4 of sums, on RDNA 2.
_TAKEN, _TAKEN_BYTES, _UNPACKED, _JOINED_BYTES, _REQUANTIZED = 4.0, 8.0, 16.0, 9.0, 60.0


def tiled_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """A candidate for each tile; none where a vec4 of channels belongs to two groups."""
    if not shape.whole_vectors:
        return []
    tiles = [tile for tile in tiles_of_lanes(problem) if fits_tile(problem, shape, tile)]
    tiles += split_tiles(problem, shape, tiles)
    costs = [functools.partial(_cost, problem, shape, tile) for tile in tiles]
    found = [_candidate(problem, shape, *each) for each in zip(tiles, costs, strict=True)]
    return [*found, *in_bytes(problem, found, costs)]


def fits_tile(problem: Problem, shape: ConvShape, tile: ConvTile) -> bool:
    """True where the device allows the dispatches, their loop and the packed weights."""
    channels = ceil_div(shape.group_in, 4)
    loops: tuple[int, ...] = (shape.taps * channels,)
    if _has_rounds(problem, tile) and round_steps(channels, tile):
        loops = (shape.taps, channels + 1)  # at most: with the end of a second inner loop
    blocks = weight_blocks(shape, tile.block)
    return fits_loops(problem.limits, *loops) and allows_packed(
        problem, blocks, _group_count(shape, tile)
    )


def _candidate(problem: Problem, shape: ConvShape, tile: ConvTile, cost: MovingCost) -> Candidate:
    emit = functools.partial(_emit, shape=shape, tile=tile)
    layouts = input_layouts(problem)
    return Candidate(tile.name, layouts, (Layout.C4,), emit, cost(Layout.C4, 0))


def _cost(problem: Problem, shape: ConvShape, tile: ConvTile, source: Layout, spared: int) -> float:
    if tile.in_quads and problem.limits.kind != "cpu":
        spared += 4 * problem.input(1).size * (32 - tile.bits) // 32  # as many lie in a word
    moved, epilogue = moved_bytes(problem) - spared, epilogue_work(problem.epilogue)
    cost = tiles_cost(problem, shape, tile, moved, epilogue, source)
    return cost + packing_cost(problem)


def tiles_of_lanes(problem: Problem) -> list[ConvTile]:
    """Tiles of a lane that are tried for a problem."""
    limits = problem.limits
    lanes = lane_count(limits)
    half_sums = problem.half_sums and type(problem.op) is Conv
    plain = is_quantized(problem) and not by_floats(problem)
    shuffles = not half_sums and not plain
    if limits.kind == "cpu":
        sizes = [(4, 4), (3, 8), (2, 4), (1, 4)]
        tiles = [ConvTile(n, m, lanes) for n, m in sizes]
        if shuffles and can_shuffle(limits, lanes):
            tiles = [ConvTile(n, m, lanes, True) for n, m in sizes] + tiles[:1]
    else:
        sizes = [(4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 1)]
        # 16 vec4s of sums leave GCN one wave or two, which is never faster (polaris10, raven).
        # Intel's compiler spills them, and those of 8 in float16 arithmetic.
        lean = problem.machine.few_registers
        sizes = sizes[3 if lean and half_sums else int(lean or problem.machine.converts) :]
        dots = takes_dots(problem)
        tiles = [ConvTile(n, m, lanes, float_dots=dots) for n, m in sizes]
    plain_tiles = [tile for tile in tiles if not tile.shuffle]
    formats, bits = byte_formats(problem), weight_bits(problem)
    if bits < WHOLE:  # no other kernel: weights would take more memory
        names = formats if is_quantized(problem) and by_floats(problem) else [NUMBERS]
        few = [ConvTile(n, m, lanes, bits=bits) for n, m in sizes]
        return [replace(t, weight_format=name) for name in names for t in few]
    return tiles + [replace(t, weight_format=name) for name in formats for t in plain_tiles]


def split_tiles(problem: Problem, shape: ConvShape, tiles: Sequence[ConvTile]) -> list[ConvTile]:
    """Tiles whose channels are shared out, where a GPU has more SIMDs than waves keep busy."""
    limits, machine = problem.limits, problem.machine
    if limits.kind == "cpu" or type(problem.op) is not Conv or is_quantized(problem):
        return []
    channels = ceil_div(shape.group_in, 4)
    most = min(limits.max_group_size[0], limits.max_group_invocations)
    found = []
    for tile in (tile for tile in tiles if tile.pixels * tile.block <= _MOST_JOINED):
        waves = _group_count(shape, tile) * ceil_div(tile.lanes, machine.wave)
        for parts in _PARTS:
            lanes, held = tile.lanes * parts, (parts - 1) * tile.lanes * tile.pixels * tile.block
            idle = waves * parts <= _WAVES_WANTED * machine.simds
            fits = lanes <= most and 16 * held <= limits.shared_memory
            if (
                idle
                and fits
                and has_whole_parts(limits, tile)
                and channels >= _LEAST_CHANNELS * parts
            ):
                found.append(replace(tile, parts=parts))
    return [tile for tile in found if _part_steps(shape, tile)]


def has_whole_parts(limits: DeviceLimits, tile: ConvTile) -> bool:
    """True where a part's lanes are whole subgroups: only then are parts summed side by side."""
    return tile.lanes % limits.subgroup_size == 0


def _part_channels(shape: ConvShape, tile: ConvTile) -> int:
    """vec4s of input channels of a part."""
    return ceil_div(ceil_div(shape.group_in, 4), tile.parts)


def _part_steps(shape: ConvShape, tile: ConvTile, joined: int = 0) -> int:
    """Specialization constant STEPS for the channels of a part."""
    return round_steps(_part_channels(shape, tile), tile, joined)


def _left(shape: ConvShape, tile: ConvTile, together: int) -> int:
    """vec4s of a part's channels under a tap that fill no round and are a round each."""
    return _part_channels(shape, tile) % together if together > 0 else 0


def _group_count(shape: ConvShape, tile: ConvTile) -> int:
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    return tiles * weight_blocks(shape, tile.block).count * shape.batch


def tiles_cost(
    problem: Problem,
    shape: ConvShape,
    tile: ConvTile,
    moved: int,
    epilogue: float = 0.0,
    source: Layout = Layout.C4,
    scaled: float = 0.0,
) -> float:
    """Microseconds of the dispatch, estimated.

    ``moved``: bytes of the buffers. ``epilogue``: instructions for an element of the result.
    ``source``: the layout of x. ``scaled``: instructions of a step that multiply x by a scale.
    """
    groups = _group_count(shape, tile)
    steps = shape.taps * _part_channels(shape, tile)
    products: float = tile.products
    loads = tile.loads
    if tile.in_quads:
        loads, products = tile.pixels + tile.block, _byte_products(problem, tile)
    machine = problem.machine
    if problem.limits.kind == "cpu":
        # In units of one vector instruction: a load of a vec4 is some 50, a product 1.5, and sums
        # beyond 16 vec4s live in memory. A tile's beginning and its stores cost as several steps.
        spill = 1.0 if tile.pixels * tile.block <= 16 else 1.5
        step = 50 * loads + 4 * 1.5 * spill * products + 4 * (4 * tile.block if tile.shuffle else 0)
        work = step * steps + 500 + 150 * tile.pixels * tile.block
        return machine.dispatch + machine.in_groups(groups, work)
    lanes = groups * tile.lanes * tile.parts
    if is_quantized(problem) and by_floats(problem):
        cost = _quantized_work(problem, shape, tile, source).time(machine, lanes)
    elif is_quantized(problem):
        step = reading_cost(tile.pixels, tile.block)
        cost = machine.in_rounds(lanes, steps * step, _rounds(shape, tile))
    else:
        together = _part_steps(shape, tile)
        tile_work = TileWork(
            *(tile.pixels, tile.block, steps, together, shape.is_pointwise),
            converts=problem.converts,
            product=_product_cost(problem, tile),
            epilogue=epilogue,
            parts=tile.parts,
            scaled=scaled,
            rows=1 if tile.in_quads else 4,
            unpacked=_UNPACKED if tile.has_few_bits else 0.0,
            alone=0 if machine.scalar else shape.taps * _left(shape, tile, together),
        )
        cost = tile_work.time(machine, lanes)
    return machine.dispatch + machine.beside(cost, moved)


def _quantized_work(problem: Problem, shape: ConvShape, tile: ConvTile, source: Layout) -> TileWork:
    """The work of a lane in floats, or by integer dots of four multiply-adds each."""
    channels, in_bytes = _part_channels(shape, tile), source is Layout.C4B
    plain = TileWork(
        *(tile.pixels, tile.block, shape.taps * channels, round_steps(channels, tile)),
        pointwise=shape.is_pointwise,
        rows=1 if tile.weight_format else 4,
        taken=_TAKEN_BYTES if in_bytes else _TAKEN,
        unpacked=_UNPACKED if tile.weight_format == BYTES else 0.0,
        finish=_REQUANTIZED,
    )
    if tile.weight_format != DOTS:
        return plain
    fast = "integer_dot_fast" in problem.limits.features
    taken = (0.0 if in_bytes else _JOINED_BYTES) + float(bool(centre(problem)))
    return replace(plain, product=0.25 if fast else _SLOW_DOTS, taken=taken)


def _product_cost(problem: Problem, tile: ConvTile) -> float:
    """A multiply-add of floats, by one in float32."""
    if tile.float_dots:
        return DOT_WORK
    return problem.machine.half if problem.half_sums else 1.0


def _rounds(shape: ConvShape, tile: ConvTile) -> int:
    """Rounds of loads that a lane waits for."""
    channels = ceil_div(shape.group_in, 4)
    together = max(1, round_steps(channels, tile))
    return shape.taps * (channels // together + channels % together)


def _byte_products(problem: Problem, tile: ConvTile) -> float:
    """Multiplications of vec4s that a step is worth where weights are bytes."""
    products = 4.0 * tile.pixels * tile.block
    if tile.weight_format != DOTS:
        return products + 4 * tile.block  # each byte becomes a float
    return products * 1.1  # dots on CPUs


def _emit(emitter: Emitter, shape: ConvShape, tile: ConvTile) -> None:
    weights = packed_weights(emitter, shape, tile.block, tile.weight_format, tile.run, tile.bits)
    variant = quantized_variant(emitter, 4, weight_format=tile.weight_format, folds=True)
    emit_tiles(emitter, shape, tile, [emitter.input(0), weights, emitter.output()], variant)


def emit_tiles(
    emitter: Emitter,
    shape: ConvShape,
    tile: ConvTile,
    buffers: Sequence[Ref],
    variant: QuantizedVariant,
    *,
    label: str | None = None,
    with_steps: bool = True,
    scale: InputScale = UNSCALED,
) -> None:
    """A dispatch of conv.comp on x, packed weights and y (``buffers``)."""
    x, weights, y = buffers
    tiles = ceil_div(shape.pixels, tile.pixels * tile.lanes)
    groups = _group_count(shape, tile)
    defines = {**variant.defines, **scale.defines, "SHUFFLE": int(tile.shuffle)}
    if tile.has_few_bits:
        defines["FEW"] = 1
    if tile.float_dots:
        defines["DOTS"] = FLOAT_DOTS
    elif emitter.problem.half_sums and variant.epilogue is not None:
        defines["HALF_SUMS"] = 1
    if tile.parts > 1:
        defines["SPLIT"] = 1
    emitter.dispatch(
        "convolution/conv",
        [read4(x), read4(weights), write(y), *scale.bindings, *variant.bindings],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes * tile.parts, 1, 1),
        push=push_constants(shape, tiles, groups, tile.block),
        spec={**_constants(emitter.problem, shape, tile, variant), **scale.steps},
        defines=defines,
        epilogue=variant.epilogue,
        with_steps=with_steps,
        access="storage" if tile.parts > 1 or scale.defines else None,
        flops=shape.flops,
        label=label,
    )


def _constants(
    problem: Problem, shape: ConvShape, tile: ConvTile, variant: QuantizedVariant
) -> dict[str, float | None]:
    """Specialization constants of conv.comp; on CPUs without rounds of loads."""
    few = few_constants(problem, tile.bits, by_dots=tile.weight_format == DOTS)
    constants = {**tile.spec, "AXES": tap_axes(shape), **variant.spec, **few}
    if _has_rounds(problem, tile):
        joined = int(variant.spec.get("JOIN") or 0)
        constants["STEPS"] = _part_steps(shape, tile, joined)
        if tile.pixels == 1 and shape.has_padding and not has_finite_weights(problem):
            constants["PADDING"] = 1
    if tile.parts > 1:
        constants |= {"PARTS": tile.parts, "PART_LANES": tile.lanes}
    return constants


def _has_rounds(problem: Problem, tile: ConvTile) -> bool:
    """True where conv.comp may take rounds of loads: CPU drivers want one loop over all."""
    return problem.limits.kind != "cpu" and not tile.shuffle


def push_constants(shape: ConvShape, tiles: int, groups: int, width: int) -> dict[str, int]:
    """Push constants of conv.comp and shared.comp, weights in blocks of ``width`` vec4s."""
    blocks = weight_blocks(shape, width)
    return {
        "pixels": shape.pixels,
        "tiles": tiles,
        "total": groups,
        "c4": shape.c4,
        "cg4": ceil_div(shape.group_in, 4),
        "m4": shape.m4,
        "mg4": ceil_div(shape.group_out, 4),
        "blocks": blocks.count,
        "group_blocks": blocks.of_group,
        "channels": shape.channels_out,
        "bias": blocks.weights,
        **shape.geometry(),
        **by_axis("out", shape.size_out[1:]),
    }


def tap_axes(shape: ConvShape) -> int:
    """Specialization constant AXES: spatial axes that taps run over, 0 for pointwise kernels."""
    if shape.is_pointwise:
        return 0
    return 3 if shape.has_depth else 2
