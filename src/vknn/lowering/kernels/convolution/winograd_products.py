"""Winograd's products in float16, for GPUs.

What is multiplied at a place of the tiles is a convolution of one tap over the tiles, and the
places are its groups, so that its kernels in register tiles, shared memory and cooperative matrices
serve.

Transformed tiles and products lie in memory as float16, half as many bytes as float32. A transform
may make 20 times its largest input of it (4 times for tiles of 2x2): winograd_input.comp scales
down by 32 (4), weights are scaled by :data:`WEIGHT_SCALE`, and winograd_output.comp makes up for
both. So tiles hold all that tensors can, and what is small keeps its digits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vknn.lowering.kernels.convolution.register_tiles import (
    emit_tiles,
    fits_tile,
    tiles_cost,
    tiles_of_lanes,
)
from vknn.lowering.kernels.convolution.shape import ConvShape
from vknn.lowering.kernels.convolution.shared_memory import (
    conv_tiles,
    emit_shared,
    fits_shared,
    shared_cost,
)
from vknn.lowering.kernels.convolution.tile import ConvTile
from vknn.lowering.kernels.convolution.winograd_tiles import (
    WinogradTiling,
    lanes_of_tiles,
    product_bytes,
)
from vknn.lowering.kernels.matmul.float_dots import along_k
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kernels.quantized.requantize import quantized_variant
from vknn.lowering.kit.emitter import Emitter, Ref
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem

#: By size of the tiles.
WEIGHT_SCALE = {2: 1.0, 4: 2.0}
ProductTile = ConvTile | SharedMemoryTile


def product_shape(tiling: WinogradTiling) -> ConvShape:
    """Sizes of the convolution that the products are."""
    tiles, one = (1, 1, tiling.count), (1, 1, 1)
    return ConvShape(
        channels_in=4 * tiling.c4 * tiling.places,
        channels_out=4 * tiling.m4 * tiling.places,
        group=tiling.places,
        batch=1,
        size_in=tiles,
        size_out=tiles,
        kernel=one,
        strides=one,
        dilations=one,
        pads=(0, 0, 0),
    )


def half_tiles(problem: Problem, tiling: WinogradTiling) -> list[ProductTile]:
    """The tile of a lane that is best by estimate, and the shared-memory tiles that suit."""
    shape, lanes = product_shape(tiling), lanes_of_tiles(problem.limits, tiling)
    own = [replace(tile, lanes=lanes) for tile in tiles_of_lanes(problem)]
    own = [tile for tile in own if fits_tile(problem, shape, tile)]
    own.sort(key=lambda tile: half_cost(problem, tiling, tile))
    shared = conv_tiles(problem, shape)
    return [*own[:1], *(tile for tile in shared if fits_shared(problem, shape, tile))]


def half_cost(problem: Problem, tiling: WinogradTiling, tile: ProductTile) -> float:
    """Microseconds of the products, estimated."""
    shape = product_shape(tiling)
    moved = product_bytes(problem, tiling)
    if isinstance(tile, ConvTile):
        return tiles_cost(problem, shape, tile, moved)
    return shared_cost(problem, shape, tile, moved)


def emit_half_product(
    emitter: Emitter, tiling: WinogradTiling, tile: ProductTile, buffers: tuple[Ref, Ref, Ref]
) -> None:
    """The dispatch on transformed tiles, weights and products (``buffers``)."""
    shape, label = product_shape(tiling), f"{emitter.label} product"
    if isinstance(tile, ConvTile):
        variant = quantized_variant(emitter, 4)
        emit_tiles(emitter, shape, tile, buffers, variant, label=label, with_steps=False)
    else:
        emit_shared(emitter, shape, tile, buffers, label=label, with_steps=False)


def block_of(tile: ProductTile) -> int:
    """vec4s of output channels that weights are packed in blocks of."""
    return tile.block if isinstance(tile, ConvTile) else tile.width


def scaled_weights(tiling: WinogradTiling, block: int, packed: np.ndarray, run: int) -> np.ndarray:
    """Transformed weights as a convolution has them: scaled, and behind them a bias of zeros.

    ``run``: k of a column that are to lie beside each other.
    """
    if run > 1:
        packed = along_k(packed, block, run)
    zeros = np.zeros(tiling.places * ceil_div(tiling.m4, block) * 4 * block, np.float32)
    return np.concatenate([packed * np.float32(WEIGHT_SCALE[tiling.size]), zeros])
