"""Resampling, against sampling at places that follow the specification's formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, near, run, run_everywhere

from vknn.errors import VknnError

RNG = np.random.default_rng(18)
METHODS = (
    "STRICT_ALIGN_ENDPOINTS_MODE",
    "ALIGN_ENDPOINTS_MODE",
    "UPSAMPLE_MODE",
    "ROI_ALIGN_MODE",
)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def along(x: np.ndarray, axis: int, places: np.ndarray) -> np.ndarray:
    """x between its elements at ``places`` along an axis; outside of it the edge repeats."""
    places = np.clip(places, 0, x.shape[axis] - 1)
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    share = (places - low).reshape(-1, *[1] * (-axis - 1))
    return np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share


def bilinear(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return along(along(x.astype(np.float64), -2, rows), -1, columns)


def upsampled(size: int, count: int, mode: str) -> np.ndarray:
    i = np.arange(count)
    if mode == "ALIGN_CORNERS_FALSE":
        return i * (size / count) + 0.5 * (size / count) - 0.5
    if count == 1:
        return np.zeros(1)
    top = size - size / count if mode == "DEFAULT" else size - 1
    return i * (top / (count - 1))


@pytest.mark.device
@pytest.mark.parametrize("mode", ["DEFAULT", "ALIGN_CORNERS_TRUE", "ALIGN_CORNERS_FALSE"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 2, 5, 1), (2, 1, 2, 1, 3)])
def test_upsample_bilinear(mode: str, shape: Any) -> None:
    x = normal(*shape)
    for factors in ((2, 3), (1, 1), (3, 1)):
        net = layer("upsample", scalingFactor=factors, mode="BILINEAR", linearUpsampleMode=mode)
        rows, columns = (
            upsampled(n, n * f, mode) for n, f in zip(shape[-2:], factors, strict=True)
        )
        near(run(net, {"x": x})["y"], bilinear(x, rows, columns))
    run_everywhere(net, {"x": x})


@pytest.mark.device
@pytest.mark.parametrize("mode", ["DEFAULT", "ALIGN_CORNERS_TRUE", "ALIGN_CORNERS_FALSE"])
@pytest.mark.parametrize("factors", [(0.5, 0.75), (0.7, 0.3), (3.3, 0.45)])
def test_fractional_factors_below_1(mode: str, factors: Any) -> None:
    x = normal(2, 10, 23)
    net = layer(
        "upsample", fractionalScalingFactor=factors, mode="BILINEAR", linearUpsampleMode=mode
    )
    rows, columns = (
        upsampled(n, int(np.float32(n) * np.float32(f)), mode)
        for n, f in zip((10, 23), factors, strict=True)
    )
    near(run_everywhere(net, {"x": x})["y"], bilinear(x, rows, columns))


def test_upsample_as_core_ml_does_it_by_default() -> None:
    net = layer("upsample", scalingFactor=[2, 3], mode="BILINEAR")
    y = run(net, {"x": np.array([[[1, 2, 3]]], np.float32)}, rank5=True)["y"]
    row = [1, 4 / 3, 5 / 3, 2, 7 / 3, 8 / 3, 3, 3, 3]
    near(y, np.broadcast_to(row, (1, 1, 1, 2, 9)))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("factors", [(1.0, 1.66), (2.32, 2.98), (1.4, 0.7), (1.1, 2.5)])
def test_fractional_factors_are_those_of_pytorch(align: bool, factors: Any) -> None:
    torch = pytest.importorskip("torch")
    mode = "ALIGN_CORNERS_TRUE" if align else "ALIGN_CORNERS_FALSE"
    net = layer(
        "upsample", fractionalScalingFactor=factors, mode="BILINEAR", linearUpsampleMode=mode
    )
    for size in ((2, 5), (5, 10), (10, 3)):
        x = normal(1, 1, *size)
        expected = torch.nn.functional.interpolate(
            torch.from_numpy(x),
            scale_factor=factors,
            mode="bilinear",
            align_corners=align,
            recompute_scale_factor=True,
        )
        near(run(net, {"x": x})["y"], expected.numpy())


@pytest.mark.device
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 2, 5, 1), (2, 1, 2, 1, 41)])
def test_upsample_nearest(shape: Any) -> None:
    x = normal(*shape)
    for factors in ((2, 3), (1, 1), (5, 7), (1, 41)):
        y = run(layer("upsample", scalingFactor=factors), {"x": x})["y"]
        np.testing.assert_array_equal(y, x.repeat(factors[0], -2).repeat(factors[1], -1))
    run_everywhere(layer("upsample", scalingFactor=[3, 2]), {"x": x})
    np.testing.assert_array_equal(run(layer("upsample"), {"x": x})["y"], x)


def grid(extent: float, count: int, method: str) -> np.ndarray:
    """Places from 0 on over an axis (or box) whose last element lies at ``extent``."""
    if method == "UPSAMPLE_MODE":
        return np.linspace(0, extent + 1 - (extent + 1) / count, count)
    if method == "ROI_ALIGN_MODE":
        step = max(1, extent) / count
        return step / 2 + np.arange(count) * step
    if method == "ALIGN_ENDPOINTS_MODE" and count == 1:
        return np.array([extent / 2])
    return np.linspace(0, extent, count)


@pytest.mark.device
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 1, 3, 1), (1, 2, 2, 8, 6)])
def test_resize_bilinear(method: str, shape: Any) -> None:
    x = normal(*shape)
    for target in ((7, 9), (3, 2), (1, 4), (4, 1), (1, 1), shape[-2:]):
        net = layer("resizeBilinear", targetSize=target, mode={"samplingMethod": method})
        rows, columns = (grid(n - 1, m, method) for n, m in zip(shape[-2:], target, strict=True))
        near(run(net, {"x": x})["y"], bilinear(x, rows, columns))
    run_everywhere(
        layer("resizeBilinear", targetSize=[7, 1], mode={"samplingMethod": method}), {"x": x}
    )


def test_resize_bilinear_by_default_and_in_the_rank_5_mapping() -> None:
    x = normal(2, 3, 4)
    near(run(layer("resizeBilinear"), {"x": x})["y"], x[:, :1, :1])
    y = run(layer("resizeBilinear", targetSize=[5, 7]), {"x": x}, rank5=True)["y"]
    near(y, bilinear(x, np.linspace(0, 2, 5), np.linspace(0, 3, 7))[None, None])


BOXES = np.array([[1, 2, 5, 7.5], [0, 0, 6, 8], [4, 6, 2.5, 1], [3.25, 2, 3.75, 2]], np.float32)
ORDERS = {
    "CORNERS_HEIGHT_FIRST": lambda b: b,
    "CORNERS_WIDTH_FIRST": lambda b: b[:, [1, 0, 3, 2]],
    "CENTER_SIZE_HEIGHT_FIRST": lambda b: np.stack(
        [(b[:, 0] + b[:, 2]) / 2, (b[:, 1] + b[:, 3]) / 2, b[:, 2] - b[:, 0], b[:, 3] - b[:, 1]], 1
    ),
    "CENTER_SIZE_WIDTH_FIRST": lambda b: np.stack(
        [(b[:, 1] + b[:, 3]) / 2, (b[:, 0] + b[:, 2]) / 2, b[:, 3] - b[:, 1], b[:, 2] - b[:, 0]], 1
    ),
}


def cut(x: np.ndarray, box: np.ndarray, target: Any, method: str) -> np.ndarray:
    rows, columns = (box[k] + grid(float(box[k + 2] - box[k]), target[k], method) for k in (0, 1))
    return bilinear(x, rows, columns)


@pytest.mark.device
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", list(ORDERS))
def test_crop_resize(method: str, order: str) -> None:
    x = normal(1, 2, 3, 7, 9)
    given = ORDERS[order](BOXES).astype(np.float32).reshape(4, 1, 4, 1, 1)
    for target in ((3, 4), (1, 2)):
        net = layer(
            "cropResize",
            ["x", "boxes"],
            targetSize=target,
            mode={"samplingMethod": method},
            boxIndicesMode={"boxMode": order},
        )
        expected = np.stack([cut(x[0], box, target, method) for box in BOXES])
        near(run(net, {"x": x, "boxes": given})["y"], expected)
    run_everywhere(net, {"x": x, "boxes": given})


@pytest.mark.device
@pytest.mark.parametrize("rank5", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_crop_resize_of_named_pictures(batch: int, rank5: bool) -> None:
    x, target = normal(1, batch, 2, 7, 9), (3, 4)
    pictures = np.array([0, 2, 1, 2]) % batch
    scaled = BOXES / np.array([6, 8, 6, 8]) * 4
    given = np.concatenate([pictures[:, None], scaled], axis=1)
    feeds = {"x": x, "boxes": given.astype(np.float32).reshape(4, 1, 5, 1, 1)}
    net = layer(
        "cropResize",
        ["x", "boxes"],
        targetSize=target,
        normalizedCoordinates=True,
        spatialScale=0.25,
    )
    parts = [cut(x[0, n], box, target, METHODS[0]) for n, box in zip(pictures, BOXES, strict=True)]
    y = run_everywhere(net, feeds, rank5=rank5)["y"]
    near(y, np.stack(parts)[:, None])


def test_crop_resize_by_default() -> None:
    x = normal(1, 1, 1, 4, 4)
    feeds = {"x": x, "boxes": np.array([1, 2, 3, 3], np.float32).reshape(1, 1, 4, 1, 1)}
    near(run(layer("cropResize", ["x", "boxes"]), feeds)["y"], x[..., 1:2, 2:3])


WRONG: dict[str, tuple[Any, tuple[int, ...]]] = {
    "rank": (layer("upsample"), (3, 4)),
    "factors of two kinds": (
        layer("upsample", scalingFactor=[1, 1], fractionalScalingFactor=[1, 1]),
        (1, 3, 4),
    ),
    "one factor": (layer("upsample", scalingFactor=[2]), (1, 3, 4)),
    "factor 0": (layer("upsample", scalingFactor=[2, 0]), (1, 3, 4)),
    "negative": (layer("upsample", fractionalScalingFactor=[2, -1]), (1, 3, 4)),
    "vanishing": (layer("upsample", fractionalScalingFactor=[0.1, 1]), (1, 3, 4)),
    "no number": (layer("upsample", fractionalScalingFactor=[float("nan"), 1]), (1, 3, 4)),
    "absurd": (layer("upsample", scalingFactor=[1 << 20, 1 << 20]), (1, 3, 4)),
    "size": (layer("resizeBilinear", targetSize=[3]), (1, 3, 4)),
    "size 0": (layer("resizeBilinear", targetSize=[0, 3]), (1, 3, 4)),
    "absurd size": (layer("resizeBilinear", targetSize=[1 << 20, 1 << 20]), (1, 3, 4)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, {"x": np.zeros(shape, np.float32)})


def test_boxes_that_are_none() -> None:
    good, boxes = normal(1, 2, 3, 4, 5), normal(2, 1, 4, 1, 1)
    for x, b in itertools.chain(
        [(normal(2, 3, 4, 5), boxes), (normal(2, 2, 3, 4, 5), boxes)],
        [(good, normal(*shape)) for shape in ((2, 1, 6, 1, 1), (2, 2, 4, 1, 1), (2, 4))],
    ):
        with pytest.raises(VknnError, match="cropResize"):
            run(layer("cropResize", ["x", "boxes"]), {"x": x, "boxes": b})
