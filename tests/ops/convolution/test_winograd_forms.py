"""Forms of Winograd's kernels for GPUs on whatever device computes here: lines, rounds ahead."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import (
    GUARD_BYTES,
    assert_close,
    run_graph,
    shared_device,
    single_op_graph,
    skip_without_half,
)
from tests.lowering.plan_texts import MATRICES

from vknn.crosscheck.comparison import compare
from vknn.crosscheck.storage import HALF_SUMS, HALF_UNIT, rounded
from vknn.crosscheck.tolerance import allowances
from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.convolution import winograd
from vknn.lowering.kernels.convolution.winograd_tiles import WinogradTile
from vknn.lowering.kit.parameters import parameters_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Sigmoid
from vknn.plan import DeviceLimits, Dispatch

SIZES = (2, 4)
#: Weights are rounded after their transformation.
HALF = 4e-3
#: Standard deviation of errors by that of results; simulated 1.8e-3 and 3.5e-3 for F(4x4, 3x3).
DEVIATION = {"storage": 2.5e-3, "sums": 5e-3}
#: Tiles and vec4s of channels of a lane, vec4s of a round, input channels of whole pairs of rounds.
TILES = [
    (4, 4, 0, 5),
    (2, 4, 0, 11),
    (2, 4, 1, 7),
    (1, 4, 0, 17),
    (1, 4, 1, 23),
    (1, 4, 2, 13),
    (1, 2, 0, 3),
    (1, 2, 1, 7),
    (1, 2, 2, 29),
]
#: Pads, batch, height, width: partial tiles on both edges, one tile, more tiles than lanes.
PLACES = [
    ((1, 1, 1, 1), 1, 7, 5),
    ((0, 2, 1, 0), 2, 5, 11),
    ((2, 2, 2, 2), 1, 1, 1),
    ((1, 1, 1, 1), 1, 37, 31),
]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def conv(*pads: int) -> Conv:
    return Conv((1, 1), pads or (1, 1, 1, 1), (1, 1))


def gpu(name: str = "gpu", access: str = "storage") -> DeviceLimits:
    """The shared device, taken for a GPU; a ``name`` of its own has candidates of its own."""
    limits = shared_device().limits
    return dataclasses.replace(limits, name=name, kind="discrete", preferred_access=access)


def options_of(half: str, algorithm: str | None = None) -> LoweringOptions:
    precision = {"precision": "fp16"} if half else {}
    arithmetic = {"arithmetic": "fp16"} if half == "sums" else {}
    return LoweringOptions(guard=GUARD_BYTES, algorithm=algorithm, **precision, **arithmetic)


def forms(
    op: Op, arrays: list[np.ndarray], size: int, half: str, limits: DeviceLimits | None = None
) -> list[str]:
    """Names of the candidates with tiles of this size."""
    graph = single_op_graph(op, arrays, list(range(1, len(arrays))))
    found = candidates(graph.nodes[0], limits or gpu(), options_of(half))
    return [c.name for c in found if c.name.startswith(f"winograd{size}3")]


def run(
    op: Op,
    *arrays: np.ndarray,
    size: int,
    limits: DeviceLimits,
    half: str = "",
    form: str | None = None,
) -> tuple[np.ndarray, tuple[Dispatch, ...]]:
    """Result and dispatches; constants are the weights and the bias. ``half``: "sums" or not."""
    count = len(arrays) - (op.operand_count if isinstance(op, Fused) else 0)
    graph = single_op_graph(op, arrays, list(range(1, count)))
    options = options_of(half, form or f"winograd{size}3")
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if not 1 <= i < count}
    result = run_graph(graph, limits, options, feeds)["y0"]
    return result, tuple(lower(graph, limits, options).dispatches)


def variants(dispatches: tuple[Dispatch, ...]) -> dict[str, dict[str, str]]:
    return {d.kernel.split("/")[1]: dict(d.variant) for d in dispatches}


@pytest.mark.parametrize("lanes", [64, 32])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_tile_of_a_lane(
    tile: tuple[int, int, int, int], size: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels, block, ahead, channels = tile
    forced = WinogradTile(pixels, block, lanes, ahead=ahead)
    monkeypatch.setattr(winograd, "_product_tiles", lambda *_: [forced])
    pads, batch, height, width = PLACES[3] if lanes == 64 else PLACES[1]
    arrays = random(batch, channels, height, width), random(19, channels, 3, 3), random(19)
    limits = gpu(f"{tile} {lanes}")
    y, dispatches = run(conv(*pads), *arrays, size=size, limits=limits)
    (expected,) = conv(*pads).reference(*arrays)
    assert_close(y, expected, 1e-5, f"{forced}")
    (product,) = (d for d in dispatches if d.kernel == "convolution/winograd_product")
    constants = parameters_of(product.kernel).named(dict(product.specialization))
    wanted = {"TN": pixels, "TM": block} | ({"ROUND": ahead} if ahead else {})
    assert constants == wanted and dict(product.variant).get("AHEAD", "0") == f"{int(ahead > 0)}"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_lines(place: tuple, size: int) -> None:
    pads, batch, height, width = place
    arrays = [random(batch, 13, height, width), random(11, 13, 3, 3), random(11)]
    y, dispatches = run(conv(*pads), *arrays, size=size, limits=gpu())
    assert_close(y, conv(*pads).reference(*arrays)[0], 1e-5, f"{place}")
    found = variants(dispatches)
    assert found["winograd_input"]["LINES"] == found["winograd_output"]["LINES"] == "1"
    assert found["winograd_product"]["AHEAD"] == "1"


@pytest.mark.parametrize("half", ["storage", "sums"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", [(13, 11), (5, 67), (37, 35)], ids=str)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_products_in_float16(place: tuple, channels: tuple[int, int], size: int, half: str) -> None:
    """All kernels that the products may take: a convolution whose groups are the places."""
    skip_without_half()
    (pads, batch, height, width), (inner, outer) = place, channels
    shapes = [(batch, inner, height, width), (outer, inner, 3, 3), (outer,)]
    arrays = [rounded(random(*shape)) for shape in shapes]
    expected = conv(*pads).reference(*arrays)
    sums = HALF_SUMS if half == "sums" else 0.0
    (bound,) = allowances(conv(*pads), arrays, expected, storage=HALF_UNIT, sums=sums)
    for name in forms(conv(*pads), arrays, size, half):
        y, dispatches = run(conv(*pads), *arrays, size=size, limits=gpu(), half=half, form=name)
        result = compare(y, expected[0], bound)
        assert result.ok, f"{name}: {result}"
        deviation = np.sqrt(np.square(y - expected[0]).mean()) / np.sqrt(np.square(expected).mean())
        assert deviation < DEVIATION[half], name
        found = variants(dispatches)
        assert found["winograd_input"]["LINES"] == found["winograd_output"]["LINES"] == "1"
        product = "shared" if "-" in name else "conv"
        in_half = "HALF_SUMS" in found[product]
        assert in_half == (half == "sums" and "cooperative" not in name)


def test_products_in_float16_by_all_kernels() -> None:
    limits = dataclasses.replace(MATRICES, kind="discrete")
    arrays = [random(1, 37, 37, 31), random(67, 37, 3, 3)]
    found = {form.partition("-")[2] for form in forms(conv(), arrays, 4, "sums", limits)}
    assert found >= {"", "shared32x32", "shared64x64", "cooperative32x32", "cooperative64x64"}


@pytest.mark.parametrize("size", SIZES)
def test_an_epilogue_with_operands(size: int) -> None:
    arrays = random(2, 7, 6, 7), random(5, 7, 3, 3), random(5)
    steps = (FusedStep(Sigmoid(), None), FusedStep(Add(), 0))
    for operand in (random(2, 5, 6, 7), random(1, 5, 1, 1)):
        op = Fused(conv(), steps)
        y, _ = run(op, *arrays, operand, size=size, limits=gpu())
        (expected,) = op.reference(*arrays, operand)
        assert_close(y, expected, 1e-5, f"{size} {operand.shape}")


@pytest.mark.parametrize("size", SIZES)
def test_lines_are_read_from_storage_buffers(size: int) -> None:
    arrays = random(1, 5, 7, 6), random(7, 5, 3, 3)
    y, dispatches = run(conv(), *arrays, size=size, limits=gpu("images", "image"))
    assert_close(y, conv().reference(*arrays)[0], 1e-5, "images")
    found = variants(dispatches)
    assert found["winograd_input"]["ACCESS"] == found["winograd_output"]["ACCESS"] == "0"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_tiles(value: float, size: int) -> None:
    """Pixels outside the image are read at its first pixel and then are 0 all the same."""
    x, w = random(1, 7, 11, 13), random(5, 7, 3, 3)
    x[0, :, 0, 0] = value
    y, _ = run(conv(), x, w, size=size, limits=gpu())
    clean = np.nan_to_num(x, nan=0, posinf=0)
    (expected,) = conv().reference(clean, w)
    assert not np.isfinite(y[0, :, :2, :2]).any()
    y[0, :, :size, :size] = expected[0, :, :size, :size]
    assert_close(y, expected, 1e-5, f"{value}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("half", ["storage", "sums"])
def test_tiles_beyond_the_range_of_float16(half: str, size: int) -> None:
    """Transformed tiles and products are scaled: sums of inputs near 65,504 do not overflow."""
    skip_without_half()
    signs = np.indices((11, 10)).sum(0) % 2 * 2 - 1  # what the transforms amplify most
    x = rounded(np.broadcast_to(6e4 * signs, (1, 7, 11, 10)).astype(np.float32))
    w = rounded(random(5, 7, 3, 3) / 16)
    y, _ = run(conv(), x, w, size=size, limits=gpu(), half=half)
    (expected,) = conv().reference(x, w)
    assert np.abs(expected).max() < 65504
    scale = np.abs(x).max() * np.abs(w).sum((1, 2, 3)).max()
    assert np.abs(y - expected).max() <= HALF * scale
