"""Winograd convolution: 3x3 kernels, stride 1 (shaders/convolution/winograd_*.comp).

Minimal filtering after Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015):
an output tile of n x n pixels takes (n + 2)^2 products for each pair of channels, where direct
convolution takes 9 n^2: 2.25 times as many for n = 2, 4 times for n = 4. Input tiles are
transformed, multiplied with transformed weights place by place, and the sums transformed back:

    y = A^T [sum over c of (G w G^T) * (B^T x B)] A

The weights are transformed here, in float64.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.convolution.shape import ConvShape, constant_weights, input_layouts
from vknn.lowering.kernels.convolution.tile import RegisterTile, can_shuffle
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.convolution.conv import Conv
from vknn.plan import DeviceLimits

#: Interpolation points of F(4x4, 3x3) besides 0 and infinity, with both signs. Lavin and Gray use 1
#: and 2; with these, each the other's reciprocal, rounding errors are a quarter as large.
POINTS = 0.5**0.5, 2.0**0.5


@dataclass(frozen=True)
class WinogradTiling:
    """The output tiles of a convolution, ``size`` x ``size`` pixels each."""

    size: int
    rows: int  # tiles of a column of an image
    columns: int
    count: int  # of all images
    c4: int
    m4: int

    @property
    def places(self) -> int:
        """Pixels under a tile: products for each pair of channels."""
        return (self.size + 2) ** 2

    def step(self, width: int) -> int:
        """vec4s from place to place of transformed tiles with ``width`` vec4s of channels.

        An odd multiple of 64 bytes, so that the places of a tile fall into different cache sets.
        """
        return ceil_div(self.count * width - 4, 8) * 8 + 4


@dataclass(frozen=True)
class WinogradTile(RegisterTile):
    """A lane's tile of the products: ``pixels`` counts Winograd tiles."""

    def chunks(self, tiling: WinogradTiling) -> int:
        """Workgroups side by side over the tiles."""
        return ceil_div(tiling.count, self.pixels * self.lanes)

    def groups(self, tiling: WinogradTiling) -> int:
        """Workgroups of the products."""
        return tiling.places * ceil_div(tiling.m4, self.block) * self.chunks(tiling)


def winograd_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """Candidates F(2x2, 3x3) and F(4x4, 3x3); none for other kernels and run-time weights."""
    if not _suits(problem, shape) or constant_weights(problem) is None:
        return []
    return [c for size in (4, 2) if (c := _candidate(problem, shape, size)) is not None]


def _suits(problem: Problem, shape: ConvShape) -> bool:
    x = problem.inputs[0]
    plain = shape.strides == shape.dilations == (1, 1, 1) and shape.group == 1
    square = shape.kernel == (1, 3, 3) and x is not None and x.rank == 4
    enabled = "winograd" not in problem.options.disabled
    return type(problem.op) is Conv and plain and square and enabled


def _candidate(problem: Problem, shape: ConvShape, size: int) -> Candidate | None:
    tiling = _tiling(shape, size)
    tiles = [t for t in _product_tiles(problem.limits) if _fits(problem.limits, tiling, t)]
    if not tiles:
        return None
    tile = min(tiles, key=lambda t: _product_cost(problem.limits, tiling, t))
    cost = _product_cost(problem.limits, tiling, tile) + _transform_cost(problem.limits, tiling)
    emit = functools.partial(_emit, shape=shape, tiling=tiling, tile=tile)
    return Candidate(f"winograd{size}3", input_layouts(problem), (Layout.C4,), emit, cost)


def _tiling(shape: ConvShape, size: int) -> WinogradTiling:
    rows, columns = (ceil_div(n, size) for n in shape.size_out[1:])
    return WinogradTiling(size, rows, columns, shape.batch * rows * columns, shape.c4, shape.m4)


def _product_tiles(limits: DeviceLimits) -> list[WinogradTile]:
    lanes = lane_count(limits)
    if limits.kind != "cpu":
        return [WinogradTile(n, m, lanes, False) for n, m in ((4, 4), (2, 4), (1, 4), (1, 2))]
    shuffle = can_shuffle(limits, lanes)
    return [WinogradTile(n, m, lanes, shuffle) for n, m in ((4, 4), (2, 8), (1, 8), (1, 4))]


def _fits(limits: DeviceLimits, tiling: WinogradTiling, tile: WinogradTile) -> bool:
    lanes = lane_count(limits)
    widest = max(tiling.c4, tiling.m4)
    channels = ceil_div(tiling.m4, tile.block) * tile.block
    groups = max(tile.groups(tiling), ceil_div(tiling.count * widest, lanes))
    numbers = 4 * tiling.places * max(tiling.step(widest), 4 * tiling.c4 * channels)
    loops = fits_loops(limits, tiling.c4)
    return loops and fits(groups, limits) and fits_buffer(limits, numbers)


def _product_cost(limits: DeviceLimits, tiling: WinogradTiling, tile: WinogradTile) -> float:
    """Microseconds, estimated as for the convolution in register tiles (the same inner loop)."""
    products, loads = tile.products, tile.loads
    groups, machine = tile.groups(tiling), machine_of(limits)
    if limits.kind == "cpu":
        step = 50 * loads + 6 * products + 16 * tile.block * tile.shuffle
        work = step * tiling.c4 + 500 + 270 * tile.pixels * tile.block
        return machine.dispatch + machine.in_groups(groups, work)
    work = tiling.c4 * (4 * products + 8 * loads)
    return machine.dispatch + machine.in_waves(groups * tile.lanes, work)


def _transform_cost(limits: DeviceLimits, tiling: WinogradTiling) -> float:
    """Microseconds of both transforms."""
    machine, lanes = machine_of(limits), lane_count(limits)
    lanes_in, lanes_out = tiling.count * tiling.c4, tiling.count * tiling.m4
    moves_out = tiling.places + tiling.size**2
    if limits.kind == "cpu":
        cost = machine.in_groups(ceil_div(lanes_in, lanes), 230 * tiling.places + 300)
        cost += machine.in_groups(ceil_div(lanes_out, lanes), 120 * moves_out + 300)
    else:
        cost = machine.in_waves(lanes_in, 8 * 2 * tiling.places)
        cost += machine.in_waves(lanes_out, 8 * moves_out)
    return 2 * machine.dispatch + cost


def _emit(emitter: Emitter, shape: ConvShape, tiling: WinogradTiling, tile: WinogradTile) -> None:
    v = emitter.scratch("tiles", 4 * tiling.places * tiling.step(tiling.c4))
    product = emitter.scratch("product", 4 * tiling.places * tiling.step(tiling.m4))
    _emit_input(emitter, shape, tiling, v)
    _emit_product(emitter, tiling, tile, v, product)
    _emit_output(emitter, shape, tiling, product)


def _emit_input(emitter: Emitter, shape: ConvShape, tiling: WinogradTiling, v: Ref) -> None:
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    total = tiling.count * tiling.c4
    emitter.dispatch(
        "convolution/winograd_input",
        [read4(emitter.input(0)), write(v)],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            **_transform_push(tiling, total),
            "c4": tiling.c4,
            **by_axis("in", shape.size_in[1:]),
            **by_axis("pad", shape.pads[1:]),
            "place_step": tiling.step(tiling.c4),
        },
        defines={"TILE": tiling.size},
        label=f"{emitter.label} tiles",
    )


def _transform_push(tiling: WinogradTiling, total: int) -> dict[str, int]:
    """Push constants that both transforms have."""
    return {
        "total": total,
        "tiles": tiling.count,
        "tiles_image": tiling.rows * tiling.columns,
        "tiles_w": tiling.columns,
    }


def _emit_product(
    emitter: Emitter, tiling: WinogradTiling, tile: WinogradTile, v: Ref, product: Ref
) -> None:
    w = emitter.problem.constants[1]
    assert w is not None
    u = emitter.weight(
        f"winograd{tiling.size}.{tile.block}", lambda: pack_winograd(tiling.size, tile.block, w), w
    )
    groups = tile.groups(tiling)
    emitter.dispatch(
        "convolution/winograd_product",
        [read4(v), read4(u), write(product)],
        groups=spread(groups, emitter.problem.limits),
        local=(tile.lanes, 1, 1),
        push={
            "total": groups,
            "chunks": tile.chunks(tiling),
            "blocks": ceil_div(tiling.m4, tile.block),
            "tiles": tiling.count,
            "c4": tiling.c4,
            "m4": tiling.m4,
            "v_step": tiling.step(tiling.c4),
            "product_step": tiling.step(tiling.m4),
        },
        spec=tile.spec,
        defines={"SHUFFLE": int(tile.shuffle)},
        flops=32 * tiling.places * tiling.count * tiling.c4 * tiling.m4,
        label=f"{emitter.label} product",
    )


def _emit_output(emitter: Emitter, shape: ConvShape, tiling: WinogradTiling, product: Ref) -> None:
    limits, lanes = emitter.problem.limits, lane_count(emitter.problem.limits)
    sources = constant_weights(emitter.problem)
    assert sources is not None
    bias = emitter.weight("winograd.bias", lambda: _padded_bias(shape, sources), *sources)
    total = tiling.count * tiling.m4
    emitter.dispatch(
        "convolution/winograd_output",
        [read4(product), read4(bias), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            **_transform_push(tiling, total),
            "m4": tiling.m4,
            **by_axis("out", shape.size_out[1:]),
            "channels": shape.channels_out,
            "place_step": tiling.step(tiling.m4),
        },
        defines={"TILE": tiling.size},
        epilogue=1,
    )


def _padded_bias(shape: ConvShape, sources: tuple[np.ndarray, ...]) -> np.ndarray:
    padded = np.zeros(4 * shape.m4, np.float32)
    if len(sources) > 1:
        padded[: shape.channels_out] = sources[1]
    return padded


def pack_winograd(size: int, block: int, w: np.ndarray) -> np.ndarray:
    """Transformed weights G w G^T as [place][block][c4][4][``block`` vec4s of output channels].

    float32. ``w`` [M, C, 3, 3]; padding lanes and channels behind the last one are 0.
    """
    channels_out, channels_in = w.shape[:2]
    blocks, c4, width = ceil_div(channels_out, 4 * block), ceil_div(channels_in, 4), 4 * block
    _, g, _ = matrices(size)
    both = np.kron(g, g)  # of rows and of columns: [place, tap]
    packed = np.zeros((len(both), blocks, 4 * c4, width), np.float32)
    # A block at a time: a large layer in float64 would not stay in the caches.
    for index in range(blocks):
        own = w[index * width : (index + 1) * width].reshape(-1, channels_in * 9)
        taps = np.ascontiguousarray(own.T, np.float64).reshape(channels_in, 9, -1)
        packed[:, index, :channels_in, : len(own)] = np.matmul(both, taps).swapaxes(0, 1)
    return packed.ravel()


def matrices(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B^T, G and A^T of F(size x size, 3x3), float64 (Lavin and Gray, section 4).

    The polynomials of B^T vanish at all points but one; G and A^T take powers of the points, G
    divided by what its polynomial is at its own point.
    """
    if size == 2:
        return (
            np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64),
            np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float64),
            np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64),
        )
    a, b = POINTS
    points = np.array([0.0, a, -a, b, -b])
    product, sum_ = (a * b) ** 2, a * a + b * b
    others = b, b, a, a
    middle = [[0, -p * q**2, -(q**2), p, 1, 0] for p, q in zip(points[1:], others, strict=True)]
    bt = [[product, 0, -sum_, 0, 1, 0], *middle, [0, product, 0, -sum_, 0, 1]]
    at_points = [product, *(2 * p * p * (2 * p * p - sum_) for p in points[1:])]
    g = np.vander(points, 3, increasing=True) / np.array(at_points)[:, None]
    at = np.vander(points, 4, increasing=True).T
    infinite = np.array([[0.0], [0.0], [0.0], [1.0]])
    return np.array(bt), np.vstack([g, [0, 0, 1]]), np.hstack([at, infinite])
