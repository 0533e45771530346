"""Grids, regions and crops against samples of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import VknnError

RNG = np.random.default_rng(19)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", [16, 20])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grids_of_whole_places(run, mode: str, opset: int) -> None:
    """All modes give the elements themselves there, whatever the padding, by reflections too."""
    x = normal(2, 3, 4, 5)
    rows, columns = np.meshgrid(np.arange(-9, 12), np.arange(-11, 14), indexing="ij")
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode) if opset < 20 else mode
    for align in (0, 1):
        sizes = [(p * 2 / (s - 1) - 1) if align else (2 * p + 1) / s - 1
                 for p, s in ((columns, 5), (rows, 4))]  # fmt: skip
        grid = np.broadcast_to(np.stack(sizes, -1), (2, *rows.shape, 2)).astype(np.float32)
        for padding, kind in (
            ("zeros", "constant"), ("border", "edge"),
            ("reflection", "reflect" if align else "symmetric"),
        ):  # fmt: skip
            want = np.pad(x, [(0, 0), (0, 0), (9, 8), (11, 9)], mode=kind)
            given = {"mode": name, "padding_mode": padding, "align_corners": align}
            (found,) = run("GridSample", [x, grid], opset=opset, **given)
            np.testing.assert_allclose(found, want, atol=2e-5)


def test_grids_of_other_types_and_axes(run) -> None:
    x = RNG.integers(1 << 59, 1 << 60, (1, 2, 3, 4)).astype(np.int64)
    grid = RNG.uniform(-1, 1, (1, 5, 2, 2)).astype(np.float32)
    (found,) = run("GridSample", [x, grid], mode="nearest", opset=20)
    (wide,) = run("GridSample", [x.astype(np.float64), grid], mode="nearest", opset=20)
    np.testing.assert_array_equal(found.astype(np.float64), wide)
    assert np.isin(found, x).all()
    texts = x.astype(str).astype(object)
    (picked,) = run("GridSample", [texts, grid * 2], mode="nearest", opset=20)
    (kept,) = run("GridSample", [x, grid * 2], mode="nearest", opset=20)
    np.testing.assert_array_equal(picked, np.where(kept == 0, "", kept.astype(str)))
    row, places = normal(2, 3, 5), RNG.uniform(-1.2, 1.2, (2, 7, 1)).astype(np.float32)
    (found,) = run("GridSample", [row, places], opset=20)
    image = np.concatenate([places, np.zeros_like(places)], -1).reshape(2, 1, 7, 2)
    (want,) = run("GridSample", [row[:, :, None], image], opset=20)
    np.testing.assert_allclose(found, want[:, :, 0], atol=1e-6)
    (found,) = run("GridSample", [row[:, :, None], image], domain="com.microsoft")
    np.testing.assert_allclose(found, want, atol=1e-6)
    with pytest.raises(VknnError, match="has the grid"):
        run("GridSample", [row, image], opset=20)
    with pytest.raises(VknnError, match="no linear mean"):
        run("GridSample", [texts, grid], mode="linear", opset=20)


@pytest.mark.parametrize("axes", [3, 4])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_grids_of_volumes(run, mode: str, axes: int) -> None:
    """What is the same along all axes but one is sampled as a row; complex numbers by parts."""
    row = normal(1, 2, 5)
    places = RNG.uniform(-0.9, 0.9, (1, 7)).astype(np.float32)
    x = np.broadcast_to(row.reshape(1, 2, *[1] * (axes - 1), 5), (1, 2, *[4] * (axes - 1), 5))
    grid = np.zeros((1, *[1] * (axes - 1), 7, axes), np.float32)
    grid[..., 0] = places
    given = {"mode": mode, "padding_mode": "border", "opset": 20}
    (want,) = run("GridSample", [row, places[..., None]], **given)
    (found,) = run("GridSample", [x.copy(), grid], **given)
    np.testing.assert_allclose(found.reshape(1, 2, 7), want, atol=1e-5)
    both = (x + 2j * x).astype(np.complex64)
    (found,) = run("GridSample", [both, grid], **given)
    np.testing.assert_allclose(found.reshape(1, 2, 7), want * (1 + 2j), atol=1e-5)


def test_resizes_of_other_types(run) -> None:
    x, scales = normal(1, 1, 3, 4), np.float32([1, 1, 2, 1.5])
    more = {"fixed": (2,), "opset": 19}
    for mode in ("linear", "cubic"):
        (want,) = run("Resize", [x, None, scales], mode=mode, **more)
        (found,) = run(
            "Resize", [(x + 2j * x).astype(np.complex64), None, scales], mode=mode, **more
        )
        np.testing.assert_allclose(found, want * (1 + 2j), atol=1e-5)
    (want,) = run("Resize", [x, None, scales], mode="nearest", **more)
    texts = x.astype(str).astype(object)
    (found,) = run("Resize", [texts, None, scales], mode="nearest", **more)
    np.testing.assert_array_equal(found, want.astype(str))
    (found,) = run("Resize", [x > 0, None, scales], mode="nearest", **more)
    np.testing.assert_array_equal(found, want > 0)
    for kind in (np.uint8, np.int16, np.int64):
        whole = RNG.integers(0, 99, (1, 1, 5, 6)).astype(kind)
        (real,) = run("Resize", [whole.astype(np.float64), None, scales], mode="cubic", **more)
        (found,) = run("Resize", [whole, None, scales], mode="cubic", **more)
        np.testing.assert_array_equal(found, np.rint(real).clip(np.iinfo(kind).min).astype(kind))
    for size in (np.float32([1, 1, 2, 2]), np.float32([1, 1, 1, 3])):
        (found,) = run("Resize", [x[:, :, :0], None, size], mode="linear", **more)
        assert found.shape == (1, 1, 0, int(4 * size[3]))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_antialiased_bytes_are_rounded_along_each_axis(run, kind: type) -> None:
    """Halves up, columns first; weights of halvings are eighths: nothing else is rounded."""
    x = RNG.integers(-50, 50, (1, 1, 8, 10)).astype(np.int64) + (50 if kind is np.uint8 else 0)
    scales = np.float32([1, 1, 0.5, 0.5])
    (found,) = run(
        "Resize", [x.astype(kind), None, scales], mode="linear", antialias=1, fixed=(2,), opset=19
    )
    taps = [3 * (x[..., 2 * p : 2 * p + 2].sum(-1)) + x[..., 2 * p - 1] + x[..., 2 * p + 2] + 4
            for p in range(1, 4)]  # fmt: skip
    across = np.stack(taps, -1) // 8
    taps = [3 * (across[:, :, 2 * p : 2 * p + 2].sum(2)) + across[:, :, 2 * p - 1]
            + across[:, :, 2 * p + 2] + 4 for p in range(1, 3)]  # fmt: skip
    np.testing.assert_array_equal(found[:, :, 1:-1, 1:-1], np.stack(taps, 2) // 8)


@pytest.mark.parametrize("name", ["Resize", "Upsample"])
@pytest.mark.parametrize(("size", "out"), [(24, 224), (223, 224), (58, 102), (21, 267)])
def test_scales_that_are_ratios_of_sizes(run, name: str, size: int, out: int) -> None:
    """Scales are float32: a little less than 224 / 24 makes 224 of 24 all the same."""
    x = normal(1, 2, size, 3)
    scales = np.array([1, 1, np.float32(out) / np.float32(size), 1], np.float32)
    given = [x, scales] if name == "Upsample" else [x, None, scales]
    more = {} if name == "Upsample" else {
        "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"
    }  # fmt: skip
    (found,) = run(name, given, opset=9 if name == "Upsample" else 13, fixed=(len(given) - 1,),
                   mode="nearest", **more)  # fmt: skip
    np.testing.assert_array_equal(found, x[:, :, np.arange(out) * size // out])


@pytest.mark.parametrize(("size", "out"), [(150, 84), (180, 115), (375, 111)])
def test_nearest_elements_where_an_axis_shrinks(run, size: int, out: int) -> None:
    x = normal(1, 2, size, 3)
    scales = np.array([1, 1, np.float32(out) / np.float32(size), 1], np.float32)
    more = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    (found,) = run("Resize", [x, None, scales], opset=13, fixed=(2,), mode="nearest", **more)
    np.testing.assert_array_equal(found, x[:, :, np.arange(out) * size // out])


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(run, mode: str, opset: int) -> None:
    """One sample in each bin, on whole places: the element there, or 0 where all are below it."""
    x = normal(2, 3, 6, 7)
    shift = 0.5 if opset == 16 else 0.0
    rois = np.array([[1, 2, 3, 4], [0, 1, 4, 5]], np.float32) - 0.5 + shift
    rois[1] += 0.5  # bins of 2 places
    given = {"mode": mode, "output_height": 2, "output_width": 2, "sampling_ratio": 1}
    (found,) = run("RoiAlign", [x, rois, np.array([1, 0], np.int64)], opset=opset, **given)
    want = x[1, :, 2:4, 1:3]
    np.testing.assert_allclose(found[0], np.maximum(want, 0) if mode == "max" else want, atol=1e-6)
    if opset == 16:
        given["coordinate_transformation_mode"] = "output_half_pixel"
        (older,) = run("RoiAlign", [x, rois - 0.5, np.array([1, 0], np.int64)], **given)
        np.testing.assert_allclose(older, found, atol=1e-5)


def test_places_of_float64(run) -> None:
    """In a slope a sample is its place, to more digits than a float32 has."""
    slope = np.tile(np.arange(8.0), (1, 1, 8, 1))
    rois = np.array([[1.1, 2.2, 3.4, 5.7]])  # float64
    given = {"output_width": 3, "sampling_ratio": 1, "spatial_scale": 1.25}
    (found,) = run("RoiAlign", [slope, rois, np.zeros(1, np.int64)], opset=16, **given)
    width = 2.3 * 1.25 / 3
    want = 1.1 * 1.25 - 0.5 + (np.arange(3) + 0.5) * width
    np.testing.assert_allclose(found[0, 0, 0], want, rtol=1e-14)
    offset = np.zeros((1, 2, 8, 8))
    offset[:, 1] = 0.1
    (found,) = run("DeformConv", [slope, np.ones((1, 1, 1, 1)), offset], kernel_shape=(1, 1))
    np.testing.assert_allclose(found[0, 0, 0, :7], np.arange(7) + 0.1, rtol=1e-14)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 4, 2)])
def test_affine_grids(run, size: tuple[int, ...], align: int) -> None:
    axes = len(size) - 2
    theta = normal(2, axes, axes + 1)
    given = [theta, np.array(size, np.int64)]
    (found,) = run("AffineGrid", given, align_corners=align, opset=20)
    assert found.shape == (2, *size[2:], axes)
    for place in np.ndindex(*size[2:]):
        point = [
            2 * p / (s - 1) - 1 if align else (2 * p + 1) / s - 1
            for p, s in zip(place, size[2:], strict=True)
        ]
        want = theta @ np.array([*point[::-1], 1])
        np.testing.assert_allclose(found[(slice(None), *place)], want, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crops(run, mode: str) -> None:
    x = normal(2, 3, 5, 9)
    boxes = np.array([[0.25, 0, 0.75, 1], [0.5, -0.25, 0.5, 1.25]], np.float32)
    given = [x, boxes, np.array([1, 0], np.int32), np.array([3, 5], np.int32)]
    (found,) = run("CropAndResize", given, domain="com.microsoft", mode=mode,
                   extrapolation_value=7.0)  # fmt: skip
    np.testing.assert_allclose(found[0], x[1][:, 1:4, ::2], atol=1e-5)
    np.testing.assert_allclose(found[1, :, :, 0], 7)
    np.testing.assert_allclose(found[1, :, :, 4], 7)
    row = x[0, :, 2]
    want = {
        "bilinear": np.stack([row[:, 1], row[:, 4], row[:, 7]], -1),
        "nearest": np.stack([row[:, 1], row[:, 4], row[:, 7]], -1),
    }[mode]
    np.testing.assert_allclose(found[1, :, 0, 1:4], want, atol=1e-5)
