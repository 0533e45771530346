"""Pooling of regions: the device against NumPy, the references against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool

RNG = np.random.default_rng(29)
SIZE = (11, 7)  # height, width


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def boxes(count: int, height: int = SIZE[0], width: int = SIZE[1]) -> np.ndarray:
    """Regions inside the image, across its edges, outside, turned around and without an area."""
    low, high = RNG.uniform(-0.2, 0.8, (count, 2)), RNG.uniform(0.1, 1.3, (count, 2))
    rois = np.concatenate([low, low + np.abs(high - low)], axis=1) * ((width, height) * 2) * 2
    rois[-1] = rois[-1, [2, 3, 0, 1]]
    rois[0] = 3.0
    return rois.astype(np.float32)


ALIGNMENTS = {
    "plain": RoiAlign((3, 2), 0.5),
    "aligned": RoiAlign((2, 5), 0.5, aligned=True),
    "two samples": RoiAlign((3, 3), 0.25, sampling_ratio=2),
    "clipped": RoiAlign((3, 2), 0.5, clipped=True),
    "clipped and aligned": RoiAlign((4, 1), 0.5, aligned=True, clipped=True),
    "clipped, three samples": RoiAlign((1, 2), 0.5, sampling_ratio=3, clipped=True),
    "more bins than places": RoiAlign((17, 9), 0.125),
    "largest": RoiAlign((3, 2), 0.5, mode="max"),
    "largest, aligned, two samples": RoiAlign((2, 3), 0.5, 2, aligned=True, mode="max"),
}


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_align(name: str) -> None:
    check_op(ALIGNMENTS[name], normal(1, 5, *SIZE), boxes(6), access=("texel",))


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0625])
def test_maximum(scale: float) -> None:
    x = normal(1, 6, *SIZE) - 2
    check_op(MaxRoiPool((3, 4), scale), x, boxes(7), tolerance=0, access=("image",))


def test_maximum_with_shares_of_its_own() -> None:
    below = float(np.nextafter(np.float32(0.25), np.float32(0)))
    x, rois = normal(1, 3, *SIZE), np.array([[0, 0, 3, 7], [1, 2, 4, 5]], np.float32)
    op = MaxRoiPool((4, 4), shares=(below, below))
    check_op(op, x, rois, tolerance=0, access=("storage",))
    column = np.arange(11, 0, -1, dtype=np.float32).reshape(1, 1, 11, 1).repeat(7, axis=3)
    exact, short = (o.reference(column, rois)[0][0, 0, :, 0] for o in (MaxRoiPool((4, 4)), op))
    np.testing.assert_array_equal(exact, [11, 9, 7, 5])
    np.testing.assert_array_equal(short, [11, 10, 8, 6])


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_position_sensitive(channels: int) -> None:
    x = normal(1, 6 * channels, *SIZE)
    check_op(PositionSensitiveRoiPool((2, 3), 0.5), x, boxes(5), access=("texel",))


OPS = [
    RoiAlign((2, 3), 0.5),
    RoiAlign((2, 3), 0.5, mode="max"),
    MaxRoiPool((2, 3), 0.5),
    PositionSensitiveRoiPool((2, 3), 0.5),
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.type_name)
def test_regions_name_their_image(op) -> None:
    numbers = np.array([[1], [0], [2], [-1], [1]], np.float32)
    rois = np.concatenate([numbers, boxes(5)], axis=1)
    x = normal(2, 12, *SIZE) + 3
    check_op(op, x, rois, access=("storage",))
    (y,) = op.reference(x, rois)
    assert not y[2:4].any()
    np.testing.assert_array_equal(y[4], op.reference(x[1:], rois[4:, 1:])[0][0])


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.type_name)
def test_what_is_no_region_gives_zeros(op) -> None:
    rois = np.array([[0, 0, np.nan, 3], [0, -np.inf, 2, 2], [1, 1, 4, 4]], np.float32)
    check_op(op, normal(1, 6, *SIZE), rois, access=("storage",))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.type_name)
def test_in_fp16(op) -> None:
    rois = np.round(boxes(4) * 4) / 4
    check_op(op, normal(1, 6, *SIZE), rois, precision="fp16")


HUGE = np.array([[-1e9, -1e9, 1e9, 1e9], [2, 2, 1e8, 5], [-3e7, 0, 6, 20]], np.float32)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.type_name)
def test_regions_far_larger_than_the_image(op) -> None:
    check_op(op, normal(1, 6, *SIZE), HUGE, access=("storage",))


@pytest.mark.parametrize(
    "op", [*OPS, RoiAlign((1, 2), 1.0, clipped=True)], ids=lambda op: op.type_name
)
def test_large_bins_take_several_dispatches(op) -> None:
    """As on a device that ends loops sooner."""
    rois = np.concatenate([boxes(3), [[0, 0, 100, 100]]]).astype(np.float32)
    x = normal(1, 12, *SIZE) + 1
    check_op(op, x, rois, access=("storage",), max_loop_rounds=95)
    check_op(op, x, rois, host=True, max_loop_rounds=12)


def loops(op: RoiAlign, x: np.ndarray, roi: np.ndarray) -> np.ndarray:
    """RoiAlign of an image [H, W], sample by sample."""
    height, width = x.shape
    x1, y1, x2, y2 = (float(v) * op.spatial_scale - 0.5 * op.aligned for v in roi)
    wide, high = x2 - x1, y2 - y1
    if not op.aligned:
        wide, high = max(wide, 1.0), max(high, 1.0)
    bins_y, bins_x = op.output_size
    wide, high = wide / bins_x, high / bins_y
    y = np.zeros(op.output_size)
    largest = np.full(op.output_size, -np.inf)
    for i, j in np.ndindex(*op.output_size):
        top, left, tall, broad = y1 + i * high, x1 + j * wide, high, wide
        if op.clipped:
            bottom, right = min(max(top + high, 0), height), min(max(left + wide, 0), width)
            top, left = min(max(top, 0), height), min(max(left, 0), width)
            tall, broad = bottom - top, right - left
            if tall <= 0 or broad <= 0:
                continue
        rows = op.sampling_ratio or max(0, math.ceil(tall))
        columns = op.sampling_ratio or max(0, math.ceil(broad))
        for a, b in np.ndindex(rows, columns):
            v, u = top + (a + 0.5) * high / rows, left + (b + 0.5) * wide / columns
            if not op.clipped and not (-1 <= v <= height and -1 <= u <= width):
                largest[i, j] = max(largest[i, j], 0.0)
                continue
            v, u = min(max(v, 0.0), height - 1), min(max(u, 0.0), width - 1)
            p, q = int(v), int(u)
            r, s = min(p + 1, height - 1), min(q + 1, width - 1)
            upper = x[p, q] * (1 - (u - q)) + x[p, s] * (u - q)
            lower = x[r, q] * (1 - (u - q)) + x[r, s] * (u - q)
            y[i, j] += (upper * (1 - (v - p)) + lower * (v - p)) / (rows * columns)
            for m, by_m in ((p, 1 - (v - p)), (r, v - p)):
                for n, by_n in ((q, 1 - (u - q)), (s, u - q)):
                    largest[i, j] = max(largest[i, j], x[m, n] * by_m * by_n)
    return y if op.mode == "avg" else np.where(np.isinf(largest), 0.0, largest)


@pytest.mark.host
@pytest.mark.parametrize("name", ALIGNMENTS)
def test_align_by_loops(name: str) -> None:
    x, rois = normal(1, 2, *SIZE), boxes(9)
    (y,) = ALIGNMENTS[name].reference(x, rois)
    for row, roi in enumerate(rois):
        for c in range(2):
            want = loops(ALIGNMENTS[name], x[0, c].astype(np.float64), roi)
            np.testing.assert_allclose(y[row, c], want, atol=1e-5)


@pytest.mark.host
def test_maximum_by_hand() -> None:
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    rois = np.array([[2, 2, 6, 6], [9, 9, 30, 30], [-5, -5, 2.9, 1.1]], np.float32)
    (y,) = MaxRoiPool((2, 2), 0.5).reference(x, rois)
    # Rows and columns 1..3 in two bins: 1..2 and 2..3.
    np.testing.assert_array_equal(y[0, 0], [[12, 13], [17, 18]])
    # From 5 on (4.5 rounds away from 0) nothing is there.
    np.testing.assert_array_equal(y[1, 0], [[0, 0], [0, 0]])
    # Columns -3..1 in bins -3..-1 and -1..1, rows -3..1 alike: but the last bin all is outside.
    np.testing.assert_array_equal(y[2, 0], [[0, 0], [0, 6]])


@pytest.mark.host
def test_position_sensitive_by_hand() -> None:
    x = np.zeros((1, 8, 4, 4), np.float32)
    x += np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1) * 100
    x += np.arange(4, dtype=np.float32)
    rois = np.array([[0, 0, 3, 3], [5, 5, 7, 7]], np.float32)
    (y,) = PositionSensitiveRoiPool((2, 2), 1.0).reference(x, rois)
    np.testing.assert_array_equal(y[0, 0], [[0.5, 102.5], [200.5, 302.5]])
    np.testing.assert_array_equal(y[0, 1], [[400.5, 502.5], [600.5, 702.5]])
    assert not y[1].any()


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "x", "rois"),
    [
        (RoiAlign((2, 2)), (1, 3, 4), (1, 4)),
        (RoiAlign((2, 2)), (1, 3, 4, 5), (1, 3)),
        (RoiAlign((2, 2)), (1, 3, 4, 5), (4,)),
        (RoiAlign((2, 2), sampling_ratio=-1), (1, 3, 4, 5), (1, 4)),
        (MaxRoiPool((2, 2), shares=(0.5, 0.0)), (1, 3, 4, 5), (1, 4)),
        (MaxRoiPool((0, 2)), (1, 3, 4, 5), (1, 4)),
        (PositionSensitiveRoiPool((2, 2)), (1, 6, 4, 5), (1, 4)),
    ],
    ids=str,
)
def test_what_does_not_fit(op, x: tuple[int, ...], rois: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=type(op).__name__):
        op.infer(TensorType(x), TensorType(rois))


def fractions(count: int) -> np.ndarray:
    """Regions as fractions of the image: whole, inside, across its edges, turned around."""
    rois = RNG.uniform(-0.1, 1.1, (count, 4))
    rois[0], rois[1] = (0, 0, 1, 1), (0.25, 0.5, 0.75, 1)
    numbers = RNG.integers(0, 2, (count, 1))
    return np.concatenate([numbers, rois], axis=1).astype(np.float32)


def bilinear(plane: np.ndarray, y: float, x: float) -> float:
    rows, columns = plane.shape
    if not (0 <= y <= rows - 1 and 0 <= x <= columns - 1):
        return 0.0
    top, left = int(y), int(x)
    bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
    upper = plane[top, left] + (plane[top, right] - plane[top, left]) * (x - left)
    lower = plane[bottom, left] + (plane[bottom, right] - plane[bottom, left]) * (x - left)
    return float(upper + (lower - upper) * (y - top))


def grid(low: np.float32, high: np.float32, count: int, size: int) -> list[np.float32]:
    last, f = np.float32(size - 1), np.float32
    if count == 1:
        return [f(0.5) * (low + high) * last]
    step = (high - low) * last / f(count - 1)
    return [f(i) * step + low * last for i in range(count)]


@pytest.mark.parametrize(
    "op",
    [
        BilinearRoiPool((3, 4)),
        BilinearRoiPool((1, 1)),
        BilinearRoiPool((2, 1), 7.0),
        BilinearRoiPool((3, 3), 1.0, parts=(2, 3)),
        BilinearRoiPool((1, 2), 0.5, parts=(3, 1)),
        BilinearRoiPool((2, 2), 0.9, parts=(1, 1)),
    ],
    ids=str,
)
def test_grid_in_fractions(op: BilinearRoiPool) -> None:
    parts, channels, f = op.parts or (1, 1), 5, np.float32
    x, rois = normal(2, math.prod(parts) * channels, *SIZE), fractions(9)
    check_op(op, x, rois, access=("texel",))
    want = np.zeros((9, channels, *op.output_size))
    for r, roi in enumerate(rois):
        box = roi[1:] * f(op.spatial_scale) if op.parts else roi[1:]
        for i, j in np.ndindex(parts):
            ends = []
            for a, b, n, k in ((box[1], box[3], parts[0], i), (box[0], box[2], parts[1], j)):
                share = (b - a) / f(n)
                ends.append((a + f(k) * share, a + f(k + 1) * share) if op.parts else (a, b))
            ys, xs = (grid(*ends[k], op.output_size[k], SIZE[k]) for k in (0, 1))
            for c, row, column in np.ndindex(channels, *op.output_size):
                plane = x[int(roi[0]), (i * parts[1] + j) * channels + c]
                want[r, c, row, column] += bilinear(plane, float(ys[row]), float(xs[column]))
    np.testing.assert_allclose(op.reference(x, rois)[0], want / math.prod(parts), atol=1e-4)


@pytest.mark.parametrize("size", [(3, 4), (7, 7), (1, 5)])
def test_maximum_of_whole_bins(size: tuple[int, int]) -> None:
    op = MaxRoiPool(size, 0.125, whole=True)
    x, rois = normal(1, 6, *SIZE) - 2, (boxes(9) * 8).astype(np.float32)
    rois[1] = (-4e9, -4e9, 4e9, 4e9)
    check_op(op, x, rois, tolerance=0, access=("image",))
    (y,) = op.reference(x, rois[2:])
    for r, roi in enumerate(rois[2:]):
        x1, y1, x2, y2 = (math.copysign(math.floor(abs(v) / 8 + 0.5), v) for v in map(float, roi))
        for row, column in np.ndindex(size):
            spans = []
            for low, high, n, k, most in ((y1, y2, size[0], row, 11), (x1, x2, size[1], column, 7)):
                length = max(int(high - low) + 1, 1)
                a, b = k * length // n + int(low), -(-(k + 1) * length // n) + int(low)
                spans.append(slice(min(max(a, 0), most), min(max(b, 0), most)))
            bin_ = x[0][:, spans[0], spans[1]]
            want = bin_.max(axis=(1, 2)) if bin_.size else np.zeros(6, np.float32)
            np.testing.assert_array_equal(y[r, :, row, column], want)


def moved_bins(
    op: DeformableRoiPool, x: np.ndarray, rois: np.ndarray, by: np.ndarray
) -> np.ndarray:
    channels = x.shape[1] // op.group**2
    (high, wide), (rows, columns) = op.output_size, op.samples
    y = np.zeros((len(rois), channels, high, wide))
    each = channels // (by.shape[1] // 2)
    for r, c, i, j in np.ndindex(*y.shape):
        x1, y1, x2, y2 = (
            math.copysign(math.floor(abs(v) + 0.5), v) for v in map(float, rois[r, 1:])
        )
        left, top = x1 * op.spatial_scale - 0.5, y1 * op.spatial_scale - 0.5
        across = max((x2 + 1) * op.spatial_scale - 0.5 - left, 0.1)
        down = max((y2 + 1) * op.spatial_scale - 0.5 - top, 0.1)
        part = by[r, 2 * (c // each) :, i * op.parts // high, j * op.parts // wide] * op.spread
        left += j * across / wide + part[0] * across
        top += i * down / high + part[1] * down
        plane = x[
            int(rois[r, 0]), (c * op.group + i * op.group // high) * op.group + j * op.group // wide
        ]
        found = []
        for a, b in np.ndindex(rows, columns):
            v, u = top + a * down / high / columns, left + b * across / wide / rows
            if -0.5 <= u <= plane.shape[1] - 0.5 and -0.5 <= v <= plane.shape[0] - 0.5:
                v, u = (min(max(p, 0), n - 1) for p, n in zip((v, u), plane.shape, strict=True))
                found.append(bilinear(plane, v, u))
        y[r, c, i, j] = np.mean(found) if found else 0
    return y


@pytest.mark.parametrize(
    "op",
    [
        DeformableRoiPool((3, 3), 0.5, 3, (2, 2)),
        DeformableRoiPool((2, 3), 1.0, 2, (2, 3), 2, 0.1),
        DeformableRoiPool((4, 2), 0.25, 1, (1, 4), 3, 0.5),
    ],
    ids=str,
)
def test_moved_bins(op: DeformableRoiPool) -> None:
    x, rois = normal(2, 4 * op.group**2, *SIZE), np.zeros((7, 5), np.float32)
    rois[:, 0], rois[:, 1:] = RNG.integers(0, 2, 7), boxes(7) / op.spatial_scale
    still = np.zeros((7, 2, op.parts, op.parts), np.float32)
    check_op(op, x, rois, access=("image",))
    np.testing.assert_allclose(op.reference(x, rois)[0], moved_bins(op, x, rois, still), atol=2e-4)
    for kinds in (1, 2):
        by = normal(7, 2 * kinds, op.parts, op.parts)
        check_op(op, x, rois, by, access=("texel",))
        want = moved_bins(op, x, rois, by)
        np.testing.assert_allclose(op.reference(x, rois, by)[0], want, atol=2e-4)


@pytest.mark.host
def test_sampled_pools_check_their_shapes() -> None:
    image, rois = TensorType((1, 12, 5, 5)), TensorType((3, 5))
    with pytest.raises(ShapeError):
        BilinearRoiPool((2, 2), parts=(5, 1)).infer(image, rois)
    with pytest.raises(ShapeError):
        BilinearRoiPool((2, 2), parts=(0, 1)).infer(image, rois)
    with pytest.raises(ShapeError):
        DeformableRoiPool((2, 2), group=5).infer(image, rois)
    op = DeformableRoiPool((2, 2), parts=2)
    assert op.infer(image, rois, TensorType((3, 4, 2, 2))) == (TensorType((3, 12, 2, 2)),)
    for shape in ((3, 3, 2, 2), (2, 2, 2, 2), (3, 2, 1, 2), (3, 10, 2, 2)):
        with pytest.raises(ShapeError):
            op.infer(image, rois, TensorType(shape))
