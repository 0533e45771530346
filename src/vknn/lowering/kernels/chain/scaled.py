"""Convolutions of a tap that multiply their input by a gate while they load it.

The end of a squeeze-and-excitation block (Hu et al. 2018): apart, the multiplication reads and
writes all of the image, and is a dispatch with its barrier. Whatever multiplies a vec4 of x takes
it times the gate first (shaders/convolution/scale.glsl): lanes with register tiles each of their
own pixels, workgroups with tiles in shared memory what they bring there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kernels.chain.convolutions import is_plain, is_pointwise
from vknn.lowering.kernels.chain.gate import MOST_STEPS, step_constants
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.convolution.packing import packed_weights
from vknn.lowering.kernels.convolution.register_tiles import (
    emit_tiles,
    fits_tile,
    split_tiles,
    tiles_cost,
    tiles_of_lanes,
)
from vknn.lowering.kernels.convolution.scale import InputScale
from vknn.lowering.kernels.convolution.shape import ConvShape, conv_shape, moved_bytes
from vknn.lowering.kernels.convolution.shared_memory import (
    conv_tiles,
    emit_shared,
    fits_shared,
    shared_cost,
)
from vknn.lowering.kernels.convolution.tile import ConvTile
from vknn.lowering.kernels.convolution.winograd_products import ProductTile, block_of
from vknn.lowering.kernels.elementwise.broadcasting import operand_layout
from vknn.lowering.kernels.matmul.cooperative_tiles import CooperativeTile
from vknn.lowering.kernels.matmul.shared_memory_tiles import DotTile
from vknn.lowering.kernels.quantized.requantize import quantized_variant
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.epilogue import epilogue_work
from vknn.lowering.kit.layouts import Layout, storage_bytes
from vknn.lowering.kit.machine import Machine
from vknn.lowering.kit.opcodes import UNARY
from vknn.lowering.kit.problem import EpilogueStep, Problem
from vknn.ops.chain import Chain
from vknn.ops.elementwise import Abs, Fused, Mul, Neg, Relu

#: Instructions for a vec4 of x and for one of the scale: on GPUs whose times are those of counts;
#: by RADV's machine code for RDNA 2, in float32 and in float16, and for GCN, what waits counted.
_COUNTED, _SINGLE, _HALF, _GCN = (4.0, 1.0), (6.0, 10.0), (4.0, 6.0), (7.0, 11.0)
#: Instructions of a cheap step for an element, on the same; of the cheapest; of float16 from
#: float32 behind steps.
_COUNTED_STEP, _STEP, _GCN_STEP, _SHORT_STEP, _NARROWED = 2.0, 5.5, 9.5, 2.5, 1.5
#: Buffers of the kernels: of their convolutions and the scale.
_BUFFERS = 5
#: The cheapest steps.
_SHORT = frozenset(UNARY[op][0] for op in (Abs, Neg, Relu))


@dataclass(frozen=True, eq=False)
class Scaled:
    """The convolution's sizes and both links; ``x``, ``scale``: numbers of the chain's inputs."""

    shape: ConvShape
    product: Link
    conv: Link
    x: int
    scale: int

    @property
    def steps(self) -> dict[str, float]:
        """Specialization constants of the steps behind the products and of the convolution's."""
        first, second = (link.problem.epilogue.steps for link in (self.product, self.conv))
        return {**step_constants(first, 0), **step_constants(second, MOST_STEPS)}

    @property
    def vector(self) -> TensorType:
        """The type of the scale."""
        return self.product.problem.input(self.scale)

    def work(self, problem: Problem, tile: ProductTile) -> float:
        """Instructions of a step of a lane, or of a round in shared memory, for the scale."""
        machine, epilogue = problem.machine, self.product.problem.epilogue
        half = isinstance(tile, CooperativeTile) or problem.half_sums or _has_dots(tile)
        narrows = machine.scalar and half and not machine.converts
        if not machine.scalar:
            vec4, scale = _COUNTED
        else:
            vec4, scale = _GCN if machine.converts else _HALF if half else _SINGLE
        if epilogue.steps:
            each = sum(_step_work(step, machine) for step in epilogue.steps)
            vec4 += 4 * (each + epilogue_work(epilogue) + (_NARROWED if narrows else 0.0))
        if isinstance(tile, ConvTile):
            return vec4 * tile.pixels + scale
        brought = tile.depth * tile.height / tile.lanes
        return vec4 * brought + scale * tile.depth / max(1, tile.lanes // tile.height)


def _step_work(step: EpilogueStep, machine: Machine) -> float:
    """Instructions of a cheap step for an element."""
    if not machine.scalar:
        return _COUNTED_STEP
    if step.code in _SHORT:
        return _SHORT_STEP
    return _GCN_STEP if machine.converts else _STEP


def _has_dots(tile: ProductTile) -> bool:
    return tile.float_dots if isinstance(tile, ConvTile) else isinstance(tile, DotTile)


def scaled_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each tile of the convolution that has a scale; none for other chains."""
    found = _scaled(problem, links)
    if found is None or problem.limits.max_storage_buffers < _BUFFERS:
        return []
    conv, shape = found.conv.problem, found.shape
    lanes = [tile for tile in tiles_of_lanes(conv) if fits_tile(conv, shape, tile)]
    shared = [tile for tile in conv_tiles(conv, shape) if fits_shared(conv, shape, tile)]
    tiles: list[ProductTile] = [*lanes, *split_tiles(conv, shape, lanes), *shared]
    return [_candidate(problem, found, tile) for tile in tiles]


def _scaled(problem: Problem, links: Sequence[Link]) -> Scaled | None:
    """The product and the convolution that the links are, or None."""
    if len(links) != 2 or not isinstance(links[0].op, Mul) or not is_plain(links[1]):
        return None
    product, conv = links
    assert isinstance(problem.op, Chain)
    shape, steps = conv_shape(conv.problem), product.problem.epilogue
    places = [n for n in (0, 1) if _is_vector(product.problem.inputs[n], product.output)]
    few = len(steps.steps) <= MOST_STEPS and not steps.operands
    if len(places) != 1 or not few or len(conv.problem.epilogue.operands) > 1:
        return None
    (scale,) = places
    other = product.problem.inputs[1 - scale]
    whole = other is not None and other.dims == product.output.dims
    if not whole or not is_pointwise(shape) or not _keeps_padding(problem.op.links[0]):
        return None
    return Scaled(shape, product, conv, 1 - scale, scale)


def _is_vector(type_: TensorType | None, output: TensorType) -> bool:
    """True for a vector of channels of each image of ``output``, of its rank."""
    if type_ is None or type_.rank != output.rank or output.rank != 4:
        return False
    vector = (*output.dims[:2], 1, 1)
    return type_.dims == vector != output.dims


def _keeps_padding(op: Op) -> bool:
    """True where padding lanes, which weights of 0 meet, are finite behind the steps, too."""
    if not isinstance(op, Fused):
        return True
    zero = np.zeros((1, 1, 1, 1), np.float32)
    with np.errstate(all="ignore"):
        (made,) = op.reference(zero, zero)
    return bool(np.isfinite(np.float16(made)).all())


def _candidate(problem: Problem, found: Scaled, tile: ProductTile) -> Candidate:
    emit = functools.partial(_emit, found=found, tile=tile)
    inputs = [Layout.C4, *(None for _ in problem.inputs[1:])]
    inputs[found.x] = Layout.C4
    inputs[found.scale] = operand_layout(found.vector, found.product.output, Layout.C4)
    for operand in found.conv.operands:
        inputs[operand] = Layout.C4
    cost = _cost(problem, found, tile)
    return Candidate(f"scaled-{tile.name}", tuple(inputs), (Layout.C4,), emit, cost)


def _cost(problem: Problem, found: Scaled, tile: ProductTile) -> float:
    conv, shape, work = found.conv.problem, found.shape, found.work(problem, tile)
    moved = moved_bytes(conv) + storage_bytes(found.vector, Layout.C4, problem.options.half)
    epilogue = epilogue_work(conv.epilogue)
    if isinstance(tile, ConvTile):
        return tiles_cost(conv, shape, tile, moved, epilogue, scaled=work)
    return shared_cost(conv, shape, tile, moved, epilogue, scaled=work)


def _emit(emitter: Emitter, found: Scaled, tile: ProductTile) -> None:
    own = found.conv.alone(emitter, emitter.input(found.x))
    scale = InputScale(emitter.input(found.scale), found.steps)
    weights = packed_weights(own, found.shape, block_of(tile), run=tile.run)
    buffers = [emitter.input(found.x), weights, emitter.output()]
    if isinstance(tile, ConvTile):
        variant = quantized_variant(own, 4)
        emit_tiles(own, found.shape, tile, buffers, variant, with_steps=False, scale=scale)
    else:
        emit_shared(own, found.shape, tile, buffers, with_steps=False, scale=scale)
