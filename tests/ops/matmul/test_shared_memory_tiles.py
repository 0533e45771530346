"""Products and convolutions in shared-memory tiles, which are for GPUs, against NumPy."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, single_op_graph

from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kernels.convolution import rule
from vknn.lowering.kernels.matmul import workgroup_tiles
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kernels.matmul.workgroup_tiles import TILES
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid
from vknn.ops.matmul import MatMul
from vknn.plan import DeviceLimits
from vknn.tuning.jobs import find_jobs

RNG = np.random.default_rng(11)
check = functools.partial(check_op, kind="discrete", access=("storage",), only="shared")
#: Winograd aside, float16 is only what tensors and weights are stored in.
HALF = functools.partial(check, precision="fp16")


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


PRODUCTS = {
    "primes": ((5, 7), (7, 3)),
    "vec4s": ((7, 20), (20, 12)),
    "k of vec4s": ((7, 20), (20, 11)),
    "n of vec4s": ((7, 19), (19, 12)),
    "several steps": ((37, 67), (67, 41)),
    "one column": ((11, 8), (8, 1)),
    "batches": ((3, 5, 8), (3, 8, 12)),
    "shared b": ((2, 1, 5, 7), (3, 7, 11)),
    "whole rounds": ((37, 48), (48, 12)),
    "whole rounds of scalars": ((5, 32), (32, 7)),
    "two batch axes": ((2, 3, 1, 5, 4), (2, 1, 2, 4, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("constants", [(), (1, 2)], ids=["none", "b and bias"])
def test_products(name: str, constants: tuple[int, ...]) -> None:
    a, b = PRODUCTS[name]
    check(MatMul(), floats(*a), floats(*b), floats(b[-1]), constants=constants)


@pytest.mark.parametrize("m, k, n", [(5, 7, 3), (8, 12, 16)])
@pytest.mark.parametrize("transpose_a", [False, True], ids=["a", "a^T"])
@pytest.mark.parametrize("transpose_b", [False, True], ids=["b", "b^T"])
def test_transposed_products(m: int, k: int, n: int, transpose_a: bool, transpose_b: bool) -> None:
    a = floats(k, m) if transpose_a else floats(m, k)
    b = floats(n, k) if transpose_b else floats(k, n)
    op = MatMul(transpose_a, transpose_b)
    check(op, a, b)
    if transpose_a:
        check(op, a, b, constants=(1,))


@pytest.mark.parametrize("m, k, n", [(131, 21, 93), (127, 20, 64)])
def test_each_tile(m: int, k: int, n: int) -> None:
    """Sizes for every tile, with a remainder of rows and columns."""
    a, b, bias = floats(m, k), floats(k, n), floats(n)
    check(MatMul(), a, b, bias, constants=(1, 2))
    check(MatMul(), a, b)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("m, k, n", [(5, 8, 12), (5, 7, 3)])
def test_products_with_an_epilogue(m: int, k: int, n: int, bias: bool) -> None:
    op = Fused(MatMul(), (FusedStep(Add(), operand=0), FusedStep(Relu())))
    vector = floats(n) if bias else None
    check(op, floats(m, k), floats(k, n), vector, floats(m, n))
    check(op, floats(m, k), floats(k, n), vector, floats(n), constants=(1, 2) if bias else (1,))


def test_padding_rows_do_not_reach_the_sums() -> None:
    """Not even infinity in the rows that fill up a tile may reach the sums."""
    b = np.zeros((5, 6), np.float32)
    b[4] = np.inf
    a = np.ones((3, 5), np.float32)
    check(MatMul(), a, b)
    check(MatMul(), a, b, constants=(1,))


def conv(axes: int, stride: int = 1, pad: int = 0, dilation: int = 1, group: int = 1) -> Conv:
    return Conv((stride,) * axes, (pad,) * 2 * axes, (dilation,) * axes, group)


CONVOLUTIONS = {
    "3x3": (conv(2, pad=1), (1, 5, 7, 6), (11, 5, 3, 3)),
    "3x3 stride 2": (conv(2, 2, 1), (1, 3, 9, 8), (13, 3, 3, 3)),
    "1x1": (conv(2), (2, 7, 5, 5), (6, 7, 1, 1)),
    "1x1 padded": (conv(2, pad=1), (1, 9, 3, 4), (5, 9, 1, 1)),
    "1x1 stride 2": (conv(2, 2), (1, 4, 7, 5), (8, 4, 1, 1)),
    "batch": (conv(2, pad=1), (3, 2, 5, 4), (5, 2, 3, 3)),
    "dilation": (conv(2, pad=2, dilation=2), (1, 3, 8, 9), (4, 3, 3, 3)),
    "uneven": (Conv((2, 1), (0, 2, 3, 1), (1, 3), 1), (2, 3, 7, 9), (5, 3, 4, 2)),
    "groups": (conv(2, pad=1, group=2), (1, 8, 5, 5), (24, 4, 3, 3)),
    "1-D": (conv(1, 2, 1), (1, 3, 11), (5, 3, 3)),
    "3-D": (conv(3, pad=1), (1, 2, 3, 4, 5), (5, 2, 3, 3, 3)),
    "3-D stride": (conv(3, 2, dilation=2), (2, 3, 7, 6, 5), (3, 3, 2, 2, 2)),
    "whole rounds": (conv(2, pad=1), (2, 16, 5, 7), (11, 16, 3, 3)),
    "rounds of a tap": (Conv((2, 1), (0, 2, 3, 1), (1, 3), 1), (1, 48, 7, 9), (5, 48, 3, 2)),
    "whole rounds of 1x1": (conv(2), (2, 32, 5, 5), (6, 32, 1, 1)),
    "whole rounds of groups": (conv(2, pad=1, group=2), (1, 32, 5, 5), (24, 16, 3, 3)),
    "whole rounds of 3-D": (conv(3, pad=1), (1, 16, 3, 4, 5), (5, 16, 3, 3, 3)),
    "kernel wider than the input": (conv(2, pad=3), (1, 3, 2, 3), (4, 3, 7, 7)),
}
LARGE = {
    "all blocks": (conv(2, pad=1), (1, 7, 11, 13), (71, 7, 3, 3)),
    "many pixels": (conv(2), (1, 18, 13, 11), (19, 18, 1, 1)),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *LARGE])
def test_convolutions(name: str) -> None:
    op, x, w = (CONVOLUTIONS | LARGE)[name]
    check(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2))


@pytest.mark.parametrize("name", ["3x3", "1x1", "groups"])
@pytest.mark.parametrize("constants", [(), (2,)], ids=["none", "bias"])
def test_convolutions_with_run_time_weights(name: str, constants: tuple[int, ...]) -> None:
    op, x, w = CONVOLUTIONS[name]
    check(op, floats(*x), floats(*w), floats(w[0]), constants=constants)


def force(monkeypatch: pytest.MonkeyPatch, *tiles: SharedMemoryTile) -> None:
    """Offers these tiles alone, also for problems whose candidates were asked for before."""
    monkeypatch.setattr(workgroup_tiles, "TILES", tiles)
    monkeypatch.setattr(rule, "_known", {})


@pytest.mark.parametrize("name", ["3x3", "1x1", "dilation", "3-D"])
def test_several_lanes_for_a_pixel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of more lanes than rows, as subgroups of 64 lanes make them of cooperative matrices."""
    for tile in (SharedMemoryTile(1, 1, 32, 8, depth=8), SharedMemoryTile(2, 1, 8, 8, depth=4)):
        force(monkeypatch, tile)
        op, x, w = CONVOLUTIONS[name]
        check(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2))
        check(MatMul(), floats(7, 37), floats(37, 11))


def test_convolutions_without_bias() -> None:
    op, x, w = CONVOLUTIONS["3x3"]
    check(op, floats(*x), floats(*w))
    check(op, floats(*x), floats(*w), constants=(1,))


@pytest.mark.parametrize("name", ["3x3", "1x1", "3-D"])
def test_convolutions_with_an_epilogue(name: str) -> None:
    base, x, w = CONVOLUTIONS[name]
    arrays = floats(*x), floats(*w), floats(w[0])
    (y,) = base.reference(*arrays)
    op = Fused(base, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0), FusedStep(Relu(), None)))
    vector = floats(1, y.shape[1], *[1] * (y.ndim - 2))
    check(op, *arrays, vector if name == "3-D" else floats(*y.shape), constants=(1, 2))


def test_in_fp16() -> None:
    for name in ("primes", "vec4s"):
        a, b = PRODUCTS[name]
        HALF(MatMul(), floats(*a), floats(*b), floats(b[-1]), constants=(1, 2))
        HALF(MatMul(), floats(*a), floats(*b), floats(b[-1]))
    fused = Fused(MatMul(), (FusedStep(Relu()), FusedStep(Add(), operand=0)))
    HALF(fused, floats(5, 8), floats(8, 12), floats(12), floats(5, 12))
    for name in ("3x3", "1x1"):
        op, x, w = CONVOLUTIONS[name]
        HALF(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2))
        HALF(op, floats(*x), floats(*w))


def offered(op: Op, arrays: list[np.ndarray], limits: DeviceLimits) -> list[str]:
    """Names of the candidates, the lowest estimate first."""
    graph = single_op_graph(op, arrays, (1,))
    found = candidates(graph.nodes[0], limits, LoweringOptions())
    return [c.name for c in sorted(found, key=lambda c: c.cost)]


@pytest.mark.host
def test_tuning_tries_all_tiles() -> None:
    arrays = [np.ones((300, 64), np.float32), np.ones((64, 300), np.float32)]
    graph = single_op_graph(MatMul(), arrays, (1,))
    (job,) = find_jobs(graph.nodes, gpu(), LoweringOptions())
    (contest,) = job.contests
    assert {tile.name for tile in TILES} < set(contest.names)


def gpu(**changes: object) -> DeviceLimits:
    return dataclasses.replace(
        DeviceLimits(
            kind="discrete",
            max_group_size=(1024, 1024, 64),
            max_group_invocations=1024,
            shared_memory=48 << 10,
            subgroup_size=32,
        ),
        **changes,  # type: ignore[arg-type]
    )


@pytest.mark.host
def test_gpus_take_shared_memory_tiles_for_large_products() -> None:
    ones = np.ones
    large = [ones((1024, 1024), np.float32), ones((1024, 1024), np.float32)]
    row = [ones((1, 1024), np.float32), ones((1024, 256), np.float32)]
    assert offered(MatMul(), large, gpu())[0].startswith("shared")
    assert not offered(MatMul(), row, gpu())[0].startswith("shared")
    images = [ones((1, 256, 28, 28), np.float32), ones((512, 256, 1, 1), np.float32)]
    # Tiles of lanes that load ahead of their products are as good for convolutions.
    assert any(n.startswith("shared") for n in offered(conv(2), images, gpu()))
    for kind in ("discrete", "integrated", "virtual", "other"):
        assert any(n.startswith("shared") for n in offered(MatMul(), large, gpu(kind=kind)))
    assert not any(n.startswith("shared") for n in offered(MatMul(), large, gpu(kind="cpu")))
    assert not any(n.startswith("shared") for n in offered(conv(2), images, gpu(kind="cpu")))


@pytest.mark.host
def test_tiles_keep_to_the_limits_of_the_device() -> None:
    ones = [np.ones((200, 8), np.float32), np.ones((8, 200), np.float32)]

    def names(limits: DeviceLimits, *disabled: str) -> set[str]:
        graph = single_op_graph(MatMul(), ones)
        found = candidates(graph.nodes[0], limits, LoweringOptions(frozenset(disabled)))
        return {c.name for c in found if c.name.startswith("shared")}

    every = {tile.name for tile in TILES}
    assert names(gpu()) == every
    assert names(gpu(), "shared") == set()
    assert names(DeviceLimits(kind="discrete")) == every - {"shared128x128"}
    assert names(gpu(max_group_invocations=32)) == set()
    assert names(gpu(shared_memory=5 << 10)) == {"shared32x32"}


@pytest.mark.host
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_all_lanes_load_as_many_vec4s(tile: SharedMemoryTile) -> None:
    assert tile.height % tile.lanes == 0 or tile.lanes % tile.height == 0
    assert tile.height * tile.depth % tile.lanes == 0
    assert 4 * tile.depth * tile.width % tile.lanes == 0
    assert tile.depth % max(1, tile.lanes // tile.height) == 0


@pytest.mark.host
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
@pytest.mark.parametrize("down", [False, True], ids=["along", "down"])
def test_eight_lanes_meet_eight_groups_of_banks(tile: SharedMemoryTile, down: bool) -> None:
    """In shared_memory_tiles.glsl: of 32 banks, what eight lanes move at once (16 bytes each)."""
    spec = tile.spec(down, down, False)
    a_stride, b_stride = spec["A_STRIDE"], spec["B_STRIDE"]
    width, depth = tile.width, tile.depth
    for first in range(0, tile.lanes, 8):
        lanes = range(first, first + 8)
        if down:
            stored_a = [lane % tile.height * a_stride + lane // tile.height for lane in lanes]
            stored_b = [lane % (4 * depth) * b_stride + lane // (4 * depth) for lane in lanes]
        else:
            stored_a = [lane // depth * a_stride + lane % depth for lane in lanes]
            stored_b = [lane // width * b_stride + lane % width for lane in lanes]
        read_a = {lane // tile.lanes_n * a_stride for lane in lanes}
        read_b = {lane % tile.lanes_n for lane in lanes}
        pixels = {lane % tile.lanes_m * (depth + 1) for lane in lanes}
        for places in (stored_a, stored_b, read_a, read_b, pixels):
            distinct = set(places)
            assert len({place % 8 for place in distinct}) == len(distinct)


COUNTED_TAPS = {
    "7x7 stride 2": (conv(2, 2, 3), (1, 3, 19, 17), (67, 3, 7, 7)),
    "two channels": (conv(2, pad=1), (2, 2, 7, 5), (5, 2, 3, 3)),
    "one row, dilated": (Conv((1, 2), (0, 3, 0, 4), (1, 3)), (1, 1, 3, 23), (7, 1, 1, 5)),
    "higher than wide": (Conv((2, 1), (4, 0, 1, 1), (2, 1)), (1, 4, 11, 7), (13, 4, 5, 2)),
    "groups": (conv(2, pad=1, group=3), (1, 12, 5, 7), (24, 4, 3, 3)),
}


@pytest.mark.parametrize("name", COUNTED_TAPS)
@pytest.mark.parametrize("lanes", ["a lane", "lanes"])
def test_taps_are_counted_where_channels_fill_one_vec4(
    name: str, lanes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several lanes for a pixel too, which step over several taps."""
    if lanes == "lanes":
        tiles = (SharedMemoryTile(1, 1, 32, 8, depth=8), SharedMemoryTile(1, 2, 16, 8, depth=8))
        force(monkeypatch, *tiles)
    op, x, w = COUNTED_TAPS[name]
    check(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2))


#: vec4s of channels on both sides of the eight that a step of several lanes leaves behind.
@pytest.mark.parametrize("channels", [5, 12, 29, 32, 36])
def test_steps_leave_several_taps_behind(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, SharedMemoryTile(1, 1, 32, 8, depth=8))
    for op, kernel in ((conv(2, pad=1), (3, 3)), (conv(3, pad=1), (2, 3, 3))):
        x, w = floats(1, channels, *(5, 4, 7)[: len(kernel)]), floats(9, channels, *kernel)
        if len(kernel) == 3:
            op = Conv((1,) * 3, (1, 0, 1) * 2, (1,) * 3)
        check(op, x, w, floats(9), constants=(1, 2))
    # Lanes of 8, 8 and 16 steps of k side by side.
    for lanes_m, lanes_n in ((8, 8), (16, 8), (8, 16)):
        tile = SharedMemoryTile(1, 1, lanes_m, lanes_n, depth=16)
        force(monkeypatch, tile)
        check(conv(2, pad=1), floats(1, channels, 5, 4), floats(9, channels, 3, 3))
