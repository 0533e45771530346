"""Winograd convolution: 3x3 kernels, stride 1 (shaders/convolution/winograd_*.comp).

Minimal filtering after Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015):
an output tile of n x n pixels takes (n + 2)^2 products for each pair of channels, where direct
convolution takes 9 n^2: 2.25 times as many for n = 2, 4 times for n = 4. Input tiles are
transformed, multiplied with transformed weights place by place, and the sums transformed back:

    y = A^T [sum over c of (G w G^T) * (B^T x B)] A

The weights are transformed here, in float64.

On a CPU a lane transforms a whole tile. On a GPU that takes more registers than there are, so a
tile has a lane for each of its columns there (LINES), and products of few tiles, whose lanes wait
for each load, fetch inputs ahead (AHEAD). In float16 a GPU's products are a convolution
(winograd_products.py).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.convolution.shape import ConvShape, constant_weights, input_layouts
from vknn.lowering.kernels.convolution.tile import can_shuffle
from vknn.lowering.kernels.convolution.winograd_products import (
    ProductTile,
    block_of,
    emit_half_product,
    half_cost,
    half_tiles,
    scaled_weights,
)
from vknn.lowering.kernels.convolution.winograd_tiles import (
    TILES_HELD,
    WinogradTile,
    WinogradTiling,
    lanes_of_tiles,
    product_cost,
    transform_cost,
)
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
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


def winograd_candidates(problem: Problem, shape: ConvShape) -> list[Candidate]:
    """Candidates F(2x2, 3x3) and F(4x4, 3x3); none for other kernels and run-time weights."""
    if not _suits(problem, shape) or constant_weights(problem) is None:
        return []
    return [c for size in (4, 2) for c in _candidates(problem, shape, size)]


def _suits(problem: Problem, shape: ConvShape) -> bool:
    x = problem.inputs[0]
    plain = shape.strides == shape.dilations == (1, 1, 1) and shape.group == 1
    square = shape.kernel == (1, 3, 3) and x is not None and x.rank == 4
    enabled = "winograd" not in problem.options.disabled
    return type(problem.op) is Conv and plain and square and enabled


def _candidates(problem: Problem, shape: ConvShape, size: int) -> list[Candidate]:
    limits, half = problem.limits, problem.options.float16 and problem.limits.kind != "cpu"
    tiling = _tiling(shape, size, half)
    if not _fits_transforms(limits, tiling):
        return []
    costs: dict[WinogradTile | ProductTile, float]
    if half:
        costs = {t: half_cost(problem, tiling, t) for t in half_tiles(problem, tiling)}
    else:
        tiles = [t for t in _product_tiles(limits, tiling) if _fits(limits, tiling, t)]
        best = sorted(tiles, key=lambda t: product_cost(problem, tiling, t))[:1]
        costs = {t: product_cost(problem, tiling, t) for t in best}
    transforms = transform_cost(problem, tiling)
    found = []
    for tile, cost in costs.items():
        emit = functools.partial(_emit, shape=shape, tiling=tiling, tile=tile)
        shared = f"-{tile.name}" if isinstance(tile, SharedMemoryTile) else ""
        name, layouts = f"winograd{size}3{shared}", input_layouts(problem)
        found.append(Candidate(name, layouts, (Layout.C4,), emit, cost + transforms))
    return found


def _tiling(shape: ConvShape, size: int, half: bool) -> WinogradTiling:
    rows, columns = (ceil_div(n, size) for n in shape.size_out[1:])
    count = shape.batch * rows * columns
    return WinogradTiling(size, rows, columns, count, shape.c4, shape.m4, half)


def _product_tiles(limits: DeviceLimits, tiling: WinogradTiling) -> list[WinogradTile]:
    if limits.kind == "cpu":
        lanes = lane_count(limits)
        shuffle = can_shuffle(limits, lanes)
        return [WinogradTile(n, m, lanes, shuffle) for n, m in ((4, 4), (2, 8), (1, 8), (1, 4))]
    lanes = lanes_of_tiles(limits, tiling)
    sizes = ((4, 4), (2, 4), (1, 4), (1, 2))
    return [WinogradTile(n, m, lanes, ahead=_ahead(n, tiling.c4)) for n, m in sizes]


def _ahead(pixels: int, c4: int) -> int:
    """Vec4s of channels of a round of a lane's tile: two vec4s of inputs, or one, or no rounds.

    Rounds go in pairs. Four vec4s of inputs and their sums leave no registers for more.
    """
    return next((n for n in (2, 1) if n * pixels <= 2 and c4 % (2 * n) == 0), 0)


def _fits(limits: DeviceLimits, tiling: WinogradTiling, tile: WinogradTile) -> bool:
    channels = ceil_div(tiling.m4, tile.block) * tile.block
    numbers = 16 * tiling.places * tiling.c4 * channels
    loops = fits_loops(limits, tiling.c4)
    return loops and fits(tile.groups(tiling), limits) and fits_buffer(limits, numbers)


def _fits_transforms(limits: DeviceLimits, tiling: WinogradTiling) -> bool:
    """True where the device allows the transforms' dispatches and what they write."""
    widest = max(tiling.c4, tiling.m4)
    held = lane_count(limits) if limits.kind == "cpu" else TILES_HELD
    groups = ceil_div(tiling.count * widest, held)
    numbers = 4 * tiling.places * tiling.step(widest)
    lines = _fits_lines(limits, tiling)
    return lines and fits(groups, limits) and fits_buffer(limits, numbers)


def _fits_lines(limits: DeviceLimits, tiling: WinogradTiling) -> bool:
    """True where the device allows the transforms' workgroups."""
    lanes = TILES_HELD * tiling.side
    most = min(limits.max_group_size[0], limits.max_group_invocations)
    able = lanes <= most and 16 * TILES_HELD * tiling.places <= limits.shared_memory
    return limits.kind == "cpu" or able


def _emit(
    emitter: Emitter, shape: ConvShape, tiling: WinogradTiling, tile: WinogradTile | ProductTile
) -> None:
    numbers, half = 4 * tiling.places, tiling.half
    v = emitter.scratch("tiles", numbers * tiling.step(tiling.c4), as_tensor=half)
    product = emitter.scratch("product", numbers * tiling.step(tiling.m4), as_tensor=half)
    _emit_input(emitter, shape, tiling, v)
    if isinstance(tile, WinogradTile):
        _emit_product(emitter, tiling, tile, v, product)
    else:
        weights = _half_weights(emitter, tiling, tile)
        emit_half_product(emitter, tiling, tile, (v, weights, product))
    _emit_output(emitter, shape, tiling, product)


def _half_weights(emitter: Emitter, tiling: WinogradTiling, tile: ProductTile) -> Ref:
    w, block = emitter.problem.constants[1], block_of(tile)
    assert w is not None

    def make() -> np.ndarray:
        packed = pack_winograd(tiling.size, block, w)
        return scaled_weights(tiling, block, packed, tile.run)

    key = f"winograd{tiling.size}.{block}.scaled.run{tile.run}"
    return emitter.weight(key, make, w)


def _emit_input(emitter: Emitter, shape: ConvShape, tiling: WinogradTiling, v: Ref) -> None:
    lanes, total = _transform_lanes(emitter, tiling), tiling.count * tiling.c4
    emitter.dispatch(
        "convolution/winograd_input",
        [read4(emitter.input(0)), write(v)],
        groups=spread(ceil_div(total, lanes.tiles), emitter.problem.limits),
        local=(lanes.local, 1, 1),
        push={
            **_transform_push(tiling, total),
            "c4": tiling.c4,
            **by_axis("in", shape.size_in[1:]),
            **by_axis("pad", shape.pads[1:]),
            "place_step": tiling.step(tiling.c4),
        },
        spec=lanes.spec,
        defines=lanes.defines,
        access=lanes.access,
        label=f"{emitter.label} tiles",
    )


@dataclass(frozen=True)
class _TransformLanes:
    """Workgroups of a transform: ``local`` lanes for ``tiles`` tiles of a vec4 of channels."""

    tiles: int
    local: int
    spec: dict[str, int]
    defines: dict[str, int]
    access: str | None


def _transform_lanes(emitter: Emitter, tiling: WinogradTiling) -> _TransformLanes:
    limits, defines = emitter.problem.limits, {"TILE": tiling.size}
    if limits.kind == "cpu":
        lanes = lane_count(limits)
        return _TransformLanes(lanes, lanes, {}, defines, None)
    lines = {**defines, "LINES": 1}
    return _TransformLanes(
        TILES_HELD, TILES_HELD * tiling.side, {"HELD": TILES_HELD}, lines, "storage"
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
        defines=tile.defines,
        access="storage" if tile.ahead else None,
        flops=32 * tiling.places * tiling.count * tiling.c4 * tiling.m4,
        label=f"{emitter.label} product",
    )


def _emit_output(emitter: Emitter, shape: ConvShape, tiling: WinogradTiling, product: Ref) -> None:
    sources = constant_weights(emitter.problem)
    assert sources is not None
    bias = emitter.weight("winograd.bias", lambda: _padded_bias(shape, sources), *sources)
    lanes, total = _transform_lanes(emitter, tiling), tiling.count * tiling.m4
    emitter.dispatch(
        "convolution/winograd_output",
        [read4(product), read4(bias), write(emitter.output())],
        groups=spread(ceil_div(total, lanes.tiles), emitter.problem.limits),
        local=(lanes.local, 1, 1),
        push={
            **_transform_push(tiling, total),
            "m4": tiling.m4,
            **by_axis("out", shape.size_out[1:]),
            "channels": shape.channels_out,
            "place_step": tiling.step(tiling.m4),
        },
        spec=lanes.spec,
        defines=lanes.defines,
        access=lanes.access,
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
