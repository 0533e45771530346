"""Convolutions and deconvolutions, against PyTorch's on explicitly padded or cropped data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    half_weights,
    layer,
    linear_weights,
    near,
    run,
    run_everywhere,
    weights,
)

from vknn.errors import ModelFormatError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def same(sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], top: bool) -> Any:
    """Padding (begin, end) of each axis, by the specification's formulas."""
    found = []
    for size, extent, stride in zip(sizes, extents, strides, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + extent - size)
        less = total // 2
        found.append((total - less, less) if top else (less, total - less))
    return found


def convolved(
    x: np.ndarray, w: np.ndarray, b: Any, strides: Any, dilations: Any, groups: int, pads: Any
) -> np.ndarray:
    function = {2: F.conv2d, 3: F.conv3d}[w.ndim - 2]
    flat = [v for edge in reversed(list(pads)) for v in edge]
    rows = torch.from_numpy(x.reshape(-1, *x.shape[1 - w.ndim :]).astype(np.float64))
    bias = None if b is None else torch.from_numpy(np.asarray(b, np.float64))
    padded = F.pad(rows, flat)
    y = function(
        padded, torch.from_numpy(w.astype(np.float64)), bias, strides, 0, dilations, groups
    )
    return y.numpy().reshape(*x.shape[: 1 - w.ndim], *y.shape[1:])


def transposed(
    x: np.ndarray, w: np.ndarray, b: Any, strides: Any, dilations: Any, groups: int, out: Any
) -> np.ndarray:
    """``out``: (first, size) of each axis of the full result, which zeros follow."""
    axes = w.ndim - 2
    function = {2: F.conv_transpose2d, 3: F.conv_transpose3d}[axes]
    rows = torch.from_numpy(x.reshape(-1, *x.shape[1 - w.ndim :]).astype(np.float64))
    kernel = torch.from_numpy(w.astype(np.float64))
    y = function(rows, kernel, None, strides, 0, 0, groups, dilations).numpy()
    y = np.pad(y, [(0, 0), (0, 0), *[(0, 64)] * axes])
    y = y[(..., *[slice(first, first + size) for first, size in out])]
    if b is not None:
        y = y + np.asarray(b, np.float64).reshape(-1, *[1] * axes)
    return y.reshape(*x.shape[: 1 - w.ndim], *y.shape[1:])


def border(edges: Any) -> Any:
    (a, b), (c, d) = edges
    return {
        "paddingAmounts": {
            "borderAmounts": [
                {"startEdgeSize": a, "endEdgeSize": b},
                {"startEdgeSize": c, "endEdgeSize": d},
            ]
        }
    }


def made(w: np.ndarray, outputs: int, channels: int, groups: int, params: Any) -> Any:
    fields = {"outputChannels": outputs, "kernelChannels": channels, "nGroups": groups}
    fields |= {"kernelSize": w.shape[2:], "weights": weights(w)}
    return layer("convolution", **(fields | params))


def conv(w: np.ndarray, groups: int = 1, b: Any = None, **params: Any) -> Any:
    if b is not None:
        params |= {"hasBias": True, "bias": weights(b)}
    return made(w, len(w), w.shape[1], groups, params)


def deconv(w: np.ndarray, groups: int = 1, b: Any = None, **params: Any) -> Any:
    if b is not None:
        params |= {"hasBias": True, "bias": weights(b)}
    return made(w, w.shape[1] * groups, len(w), groups, {"isDeconvolution": True} | params)


@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("dilation", [(1, 1), (1, 2)])
@pytest.mark.parametrize("groups", [1, 3])
def test_valid(stride: Any, dilation: Any, groups: int) -> None:
    x, w, b = normal(2, 6, 9, 8), normal(6, 6 // groups, 3, 2), normal(6)
    for edges in (((0, 0), (0, 0)), ((1, 0), (2, 3))):
        net = conv(w, groups, b, stride=stride, dilationFactor=dilation, valid=border(edges))
        y = run(net, {"x": x})["y"]
        near(y, convolved(x, w, b, stride, dilation, groups, edges))


@pytest.mark.parametrize("mode", ["BOTTOM_RIGHT_HEAVY", "TOP_LEFT_HEAVY"])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
def test_same(mode: str, dilation: Any) -> None:
    for kernel, stride, size in itertools.product([(3, 2), (1, 4)], [(1, 2), (3, 2)], [(7, 8)]):
        x, w = normal(1, 2, *size), normal(3, 2, *kernel)
        extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        pads = same(size, extents, stride, mode == "TOP_LEFT_HEAVY")
        net = conv(w, stride=stride, dilationFactor=dilation, same={"asymmetryMode": mode})
        y = run(net, {"x": x})["y"]
        assert y.shape[2:] == tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
        near(y, convolved(x, w, None, stride, dilation, 1, pads))


def test_defaults_are_a_kernel_of_3_by_3_and_a_step_of_1() -> None:
    x, w = normal(1, 2, 6, 5), normal(4, 2, 3, 3)
    net = layer("convolution", outputChannels=4, kernelChannels=2, weights=weights(w))
    y = run_everywhere(net, {"x": x})["y"]
    near(y, convolved(x, w, None, (1, 1), (1, 1), 1, ((0, 0), (0, 0))))


@pytest.mark.device
@pytest.mark.parametrize("shape", [(1, 4, 7, 6), (2, 3, 4, 7, 6), (2, 1, 2, 4, 5, 6)])
def test_all_before_the_channels_is_batch(shape: Any) -> None:
    x, w, b = normal(*shape), normal(6, 2, 3, 3), normal(6)
    y = run_everywhere(conv(w, 2, b, same={}), {"x": x})["y"]
    near(y, convolved(x, w, b, (1, 1), (1, 1), 2, ((1, 1), (1, 1))))


@pytest.mark.device
def test_rank_5_mapping() -> None:
    x, w = normal(4, 7, 6), normal(6, 4, 3, 3)
    net = conv(w, valid=border(((0, 1), (1, 0))), stride=[2, 2])
    y = run_everywhere(net, {"x": x}, rank5=True)["y"]
    near(y, convolved(x[None, None], w, None, (2, 2), (1, 1), 1, ((0, 1), (1, 0))))
    x = normal(3, 2, 4, 7, 6)
    y = run(net, {"x": x}, rank5=True)["y"]
    near(y, convolved(x, w, None, (2, 2), (1, 1), 1, ((0, 1), (1, 0))))


@pytest.mark.device
def test_weights_as_a_second_input() -> None:
    x, w, b = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)
    net = layer(
        "convolution",
        ["x", "w"],
        outputChannels=6,
        kernelChannels=2,
        nGroups=2,
        kernelSize=[3, 2],
        stride=[2, 1],
        hasBias=True,
        bias=weights(b),
    )
    y = run_everywhere(net, {"x": x, "w": w})["y"]
    near(y, convolved(x, w, b, (2, 1), (1, 1), 2, ((0, 0), (0, 0))))


def test_encodings_of_weights() -> None:
    x, codes = normal(1, 2, 5, 5), RNG.integers(0, 16, (3, 2, 3, 3))
    scale, shift = np.array([0.1, 0.2, 0.3]), np.array([-1.0, 0.0, 0.5])
    w = (codes * scale.reshape(-1, 1, 1, 1) + shift.reshape(-1, 1, 1, 1)).astype(np.float32)
    net = conv(w, valid={})
    net.convolution.weights.CopyFrom(linear_weights(codes, 4, scale, shift))
    edges = ((0, 0), (0, 0))
    near(run(net, {"x": x})["y"], convolved(x, w, None, (1, 1), (1, 1), 1, edges))
    net.convolution.weights.CopyFrom(half_weights(w))
    rounded = w.astype(np.float16).astype(np.float32)
    near(run(net, {"x": x})["y"], convolved(x, rounded, None, (1, 1), (1, 1), 1, edges))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
def test_deconvolution_crops(stride: Any, dilation: Any, groups: int) -> None:
    x, w, b = normal(2, 4, 5, 4), normal(4, 3, 3, 4), normal(3 * groups)
    for edges in (((0, 0), (0, 0)), ((1, 0), (0, 2)), ((1, 1), (1, 2))):
        net = deconv(w, groups, b, stride=stride, valid=border(edges), dilationFactor=dilation)
        extents = [(k - 1) * d + 1 for k, d in zip((3, 4), dilation, strict=True)]
        full = [(n - 1) * s + k for n, s, k in zip((5, 4), stride, extents, strict=True)]
        out = [(a, f - a - e) for f, (a, e) in zip(full, edges, strict=True)]
        near(run(net, {"x": x})["y"], transposed(x, w, b, stride, dilation, groups, out))
        asked = [max(1, f - 2) for f in full]
        net = deconv(w, groups, b, stride=stride, dilationFactor=dilation, outputShape=asked)
        out = [(1, n) for n in asked]
        near(run(net, {"x": x})["y"], transposed(x, w, b, stride, dilation, groups, out))


@pytest.mark.parametrize("mode", ["BOTTOM_RIGHT_HEAVY", "TOP_LEFT_HEAVY"])
def test_deconvolution_same(mode: str) -> None:
    for stride, kernel in itertools.product([(1, 1), (2, 3)], [(3, 4), (4, 3), (1, 2)]):
        x, w = normal(1, 2, 4, 5), normal(2, 3, *kernel)
        out = []
        for s, k, n in zip(stride, kernel, (4, 5), strict=True):
            surplus = max(0, k - s)
            first = surplus // 2 if mode == "BOTTOM_RIGHT_HEAVY" else surplus - surplus // 2
            out.append((first, n * s))
        net = deconv(w, stride=stride, same={"asymmetryMode": mode})
        y = run(net, {"x": x})["y"]
        near(y, transposed(x, w, None, stride, (1, 1), 1, out))


def test_output_shape_beats_the_padding() -> None:
    x, w, b = normal(1, 2, 4, 5), normal(2, 3, 3, 4), normal(3)
    for height, width in ((9, 13), (8, 12), (7, 9), (10, 15)):
        for padding in ({}, {"valid": border(((0, 0), (0, 0)))}, {"same": {}}):
            net = deconv(w, 1, b, stride=[2, 2], outputShape=[height, width], **padding)
            full = ((4 - 1) * 2 + 3, (5 - 1) * 2 + 4)
            first = [max(0, (f - n) // 2) for f, n in zip(full, (height, width), strict=True)]
            out = list(zip(first, (height, width), strict=True))
            y = run(net, {"x": x})["y"]
            near(y, transposed(x, w, b, (2, 2), (1, 1), 1, out))


def test_padding_that_gives_the_output_shape_says_where_it_is_cropped() -> None:
    x, w = normal(1, 2, 4, 4), normal(2, 3, 4, 4)
    net = deconv(w, stride=[2, 2], outputShape=[7, 9], valid=border(((2, 1), (0, 1))))
    y = run(net, {"x": x})["y"]
    near(y, transposed(x, w, None, (2, 2), (1, 1), 1, [(2, 7), (0, 9)]))


@pytest.mark.device
def test_deconvolutions_on_the_device() -> None:
    x, w, b = normal(2, 1, 4, 5, 4), normal(4, 2, 3, 3), normal(4)
    net = deconv(w, 2, b, stride=[2, 2], valid=border(((1, 0), (0, 1))))
    y = run_everywhere(net, {"x": x})["y"]
    near(y, transposed(x, w, b, (2, 2), (1, 1), 2, [(1, 10), (0, 8)]))
    run_everywhere(deconv(w, 2, b, stride=[4, 4], same={}), {"x": x})
    run_everywhere(deconv(w, 2, b, stride=[2, 3], dilationFactor=[3, 2]), {"x": x})
    run_everywhere(deconv(w, 2, b, stride=[2, 2], outputShape=[12, 7]), {"x": x})


def test_scales_of_a_grouped_deconvolution_are_those_of_its_outputs() -> None:
    x, codes = normal(1, 4, 3, 3), RNG.integers(0, 256, (4, 2, 2, 2))
    scale = np.array([0.01, 0.02, 0.03, 0.04])
    w = np.empty(codes.shape, np.float32)
    for row, column in itertools.product(range(4), range(2)):
        w[row, column] = codes[row, column] * scale[2 * (row // 2) + column]
    net = deconv(w, 2)
    net.convolution.weights.CopyFrom(linear_weights(codes, 8, scale))
    y = run(net, {"x": x})["y"]
    near(y, transposed(x, w, None, (1, 1), (1, 1), 2, [(0, 4), (0, 4)]))


def conv3d(w: np.ndarray, groups: int, b: Any, stride: Any, dilation: Any, **params: Any) -> Any:
    if b is not None:
        params |= {"hasBias": True, "bias": weights(b)}
    axes = ("Depth", "Height", "Width")
    for prefix, values in (
        ("kernel", w.shape[2:]),
        ("stride", stride),
        ("dilation", dilation),
    ):
        params |= {prefix + a: int(v) for a, v in zip(axes, values, strict=True) if v}
    return layer("convolution3d", nGroups=groups, weights=weights(w), **params)


CUSTOM = {
    "customPaddingFront": 1,
    "customPaddingBack": 0,
    "customPaddingTop": 2,
    "customPaddingBottom": 1,
    "customPaddingLeft": 0,
    "customPaddingRight": 3,
}
EDGES = ((1, 0), (2, 1), (0, 3))
NONE = ((0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize("padding", ["CUSTOM", "VALID", "SAME"])
@pytest.mark.parametrize("groups", [1, 2])
def test_three_axes(padding: str, groups: int) -> None:
    x, w, b = normal(2, 4, 4, 5, 6), normal(6, 4 // groups, 2, 3, 2), normal(6)
    for stride, dilation in (((1, 1, 1), (1, 1, 1)), ((2, 1, 3), (1, 2, 2)), ((0, 0, 0),) * 2):
        steps, gaps = (tuple(v or 1 for v in p) for p in (stride, dilation))
        pads: Any = EDGES if padding == "CUSTOM" else NONE
        if padding == "SAME":
            extents = [(k - 1) * d + 1 for k, d in zip((2, 3, 2), gaps, strict=True)]
            pads = same((4, 5, 6), extents, steps, False)
        params = {"inputChannels": 4, "outputChannels": 6, "paddingType": padding, **CUSTOM}
        net = conv3d(w, groups, b, stride, dilation, **params)
        near(run(net, {"x": x})["y"], convolved(x, w, b, steps, gaps, groups, pads))


@pytest.mark.device
def test_three_axes_as_the_specification_has_them() -> None:
    x, w = normal(1, 3, 3, 8, 8), normal(2, 3, 3, 3, 3)
    net = conv3d(
        w, 1, None, (2,) * 3, (1,) * 3, inputChannels=3, outputChannels=2, paddingType="SAME"
    )
    y = run_everywhere(net, {"x": x})["y"]
    assert y.shape == (1, 2, 2, 4, 4)
    pads = ((1, 1), (0, 1), (0, 1))
    near(y, convolved(x, w, None, (2,) * 3, (1,) * 3, 1, pads))


@pytest.mark.device
@pytest.mark.parametrize("padding", ["CUSTOM", "VALID", "SAME", "shape"])
def test_three_axes_transposed(padding: str) -> None:
    x, w, b = normal(1, 4, 3, 4, 3), normal(4, 3, 3, 4, 2), normal(6)
    stride, params = (2, 2, 2), {"inputChannels": 4, "outputChannels": 6, "isDeconvolution": True}
    full = [(n - 1) * 2 + k for n, k in zip((3, 4, 3), (3, 4, 2), strict=True)]
    out = [(0, f) for f in full]
    if padding == "SAME":
        out = [((f - 2 * n) // 2, 2 * n) for f, n in zip(full, (3, 4, 3), strict=True)]
    elif padding == "CUSTOM":
        edges = ((1, 0), (2, 1), (0, 3))
        out = [(a, f - a - e) for f, (a, e) in zip(full, edges, strict=True)]
    elif padding == "shape":
        params |= {"outputShape": [5, 8, 9]}
        out = [((f - n) // 2 if f > n else 0, n) for f, n in zip(full, (5, 8, 9), strict=True)]
    kind = "VALID" if padding == "shape" else padding
    net = conv3d(w, 2, b, stride, (1, 1, 1), paddingType=kind, **params, **CUSTOM)
    y = run_everywhere(net, {"x": x})["y"]
    near(y, transposed(x, w, b, stride, (1, 1, 1), 2, out))


W = np.ones((4, 2, 3, 3), np.float32)
WRONG = {
    "few weights": (conv(W, kernelSize=[3]), (1, 2, 5, 5)),
    "rank 3": (conv(W), (2, 5, 5)),
    "channels": (conv(W), (1, 3, 5, 5)),
    "groups": (conv(W, 3), (1, 6, 5, 5)),
    "kernel too large": (conv(W), (1, 2, 2, 5)),
    "stride": (conv(W, stride=[1, 0]), (1, 2, 5, 5)),
    "huge stride": (conv(W, stride=[1, 1 << 60]), (1, 2, 5, 5)),
    "cropped away": (deconv(W, valid=border(((4, 4), (0, 0)))), (1, 4, 3, 3)),
    "no bias": (conv(W, hasBias=True), (1, 2, 5, 5)),
    "outputShape": (deconv(W, outputShape=[3]), (1, 4, 3, 3)),
    "huge outputShape": (deconv(W, outputShape=[1 << 40, 3]), (1, 4, 3, 3)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises((ShapeError, ModelFormatError), match="convolution"):
        run(net, {"x": np.zeros(shape, np.float32)})
