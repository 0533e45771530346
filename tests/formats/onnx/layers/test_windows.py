"""Pools and convolutions against loops: places of maxima, negative pads, more than three axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.onnx_writer import graph, model, node, save, value

from vknn import Session
from vknn.errors import VknnError
from vknn.graph import DType

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def windows(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] | None = None,
) -> np.ndarray:
    """Windows [N, C, out..., taps] of an image with NaN around it; negative pads cut it."""
    axes, dilations = len(kernel), dilations or [1] * len(kernel)
    wide = np.pad(
        x.astype(np.float64),
        [(0, 0), (0, 0), *((max(pads[a], 0), max(pads[a + axes], 0)) for a in range(axes))],
        constant_values=np.nan,
    )
    for a in range(axes):
        end = wide.shape[2 + a] - max(-pads[a + axes], 0)
        wide = np.take(wide, range(max(-pads[a], 0), end), axis=2 + a)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(wide, extents, tuple(range(2, 2 + axes)))
    view = view[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    view = view[(..., *(slice(None, None, d) for d in dilations))]
    return view.reshape(*view.shape[: 2 + axes], -1)


WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "rows": ((2, 3, 11), {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)}),
    "images": ((2, 3, 7, 8), {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 1, 2, 0)}),
    "volumes": (
        (1, 2, 5, 4, 6),
        {"kernel_shape": (2, 1, 3), "strides": (1, 2, 2), "pads": (0,) * 6},
    ),
    "four axes": (
        (2, 3, 4, 5, 3, 4),
        {"kernel_shape": (2, 3, 2, 3), "strides": (1, 2, 1, 1), "pads": (1, 0, 0, 1, 0, 2, 1, 0)},
    ),
    "five axes": (
        (1, 2, 3, 2, 3, 2, 3),
        {"kernel_shape": (2, 1, 2, 2, 3), "strides": (1,) * 5, "pads": (0,) * 10},
    ),
    "cut": ((1, 3, 8, 9), {"kernel_shape": (2, 3), "strides": (1, 2), "pads": (-1, 1, 0, -2)}),
}


#: Those whose pads are not below 0, which pools do not take.
POOLS = [name for name in WINDOWS if name != "cut"]


@pytest.mark.parametrize("name", POOLS)
def test_pools(run, name: str) -> None:
    shape, window = WINDOWS[name]
    x = normal(*shape)
    taps = windows(x, window["kernel_shape"], window["strides"], window["pads"])
    (largest,) = run("MaxPool", [x], **window)
    np.testing.assert_array_equal(largest, np.nanmax(taps, axis=-1).astype(np.float32))
    (mean,) = run("AveragePool", [x], **window)
    np.testing.assert_allclose(mean, np.nanmean(taps, axis=-1), atol=1e-6)
    (whole,) = run("AveragePool", [x], **window, count_include_pad=1)
    np.testing.assert_allclose(whole, np.nan_to_num(taps).mean(axis=-1), atol=1e-6)
    (norm,) = run("LpPool", [x], **window, p=2)
    np.testing.assert_allclose(norm, np.sqrt(np.nansum(taps**2, axis=-1)), atol=1e-5)


@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions(run, name: str) -> None:
    shape, window = WINDOWS[name]
    x, weights, bias = normal(*shape), normal(4, shape[1], *window["kernel_shape"]), normal(4)
    taps = np.nan_to_num(windows(x, window["kernel_shape"], window["strides"], window["pads"]))
    want = np.einsum("nc...k,mck->nm...", taps, weights.reshape(*weights.shape[:2], -1))
    want += bias.reshape(4, *[1] * (x.ndim - 2))
    (found,) = run("Conv", [x, weights, bias], **window)
    np.testing.assert_allclose(found, want, atol=1e-5)
    apart = normal(2 * shape[1], 1, *window["kernel_shape"])
    (found,) = run("Conv", [x, apart], **window, group=shape[1])
    parts = apart.reshape(shape[1], 2, -1)
    want = np.einsum("nc...k,cmk->ncm...", taps, parts)
    np.testing.assert_allclose(found, want.reshape(found.shape), atol=1e-5)


def places(x: np.ndarray, taps: np.ndarray, order: int) -> np.ndarray:
    """The place of the first largest element of each window; ``taps``: windows of the places."""
    flat = np.concatenate([x.reshape(-1).astype(np.float64), [-np.inf]])
    at = np.where(np.isnan(taps), x.size, taps).astype(np.int64)
    first = np.take_along_axis(at, np.argmax(flat[at], axis=-1)[..., None], -1)[..., 0]
    if order == 0:
        return first
    spatial = x.shape[2:]
    plane, inner = np.divmod(first, int(np.prod(spatial)))
    coordinates = np.unravel_index(inner, spatial)
    return plane * int(np.prod(spatial)) + np.ravel_multi_index(coordinates, spatial, order="F")


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_places_of_maxima(run, name: str, order: int) -> None:
    shape, window = WINDOWS[name]
    count = int(np.prod(shape))
    for dtype in (np.float32, np.uint8, np.int8):
        # Few different numbers, the lowest among them, so that many are equal.
        low = np.iinfo(dtype).min if dtype != np.float32 else -3
        x = RNG.integers(low, low + 4, shape).astype(dtype)
        dilations = [1 + (k < s) for k, s in zip(window["kernel_shape"], shape[2:], strict=True)]
        dilations = [d if (k - 1) * d < s - 2 else 1 for k, d, s in
                     zip(window["kernel_shape"], dilations, shape[2:], strict=True)]  # fmt: skip
        own = {**window, "dilations": tuple(dilations)}
        taps = windows(
            np.arange(count).reshape(shape), own["kernel_shape"], own["strides"], own["pads"],
            dilations,
        )  # fmt: skip
        if np.isnan(taps).all(axis=-1).any():
            continue
        largest, found = run("MaxPool", [x], **own, storage_order=order, outputs=2)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, places(x, taps, order))
        first = places(x, taps, 0)
        np.testing.assert_array_equal(largest, x.reshape(-1)[first])


def test_places_with_windows_beyond_the_end(run) -> None:
    x = normal(1, 2, 6)
    window = {"kernel_shape": (2,), "strides": (2,), "pads": (1, 0), "ceil_mode": 1}
    largest, found = run("MaxPool", [x], **window, outputs=2)
    assert found.shape == (1, 2, 4)
    np.testing.assert_array_equal(largest, x.reshape(-1)[found])


@pytest.mark.parametrize(("auto_pad", "first"), [("SAME_UPPER", 1), ("SAME_LOWER", 0)])
def test_windows_that_do_not_reach_the_ends(run, auto_pad: str, first: int) -> None:
    """As in onnxruntime a pool's pads are below 0 then; halves are rounded towards 0."""
    x = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 9)
    window = {"kernel_shape": (1,), "strides": (3,), "auto_pad": auto_pad}
    largest, at = run("MaxPool", [x], **window, outputs=2)
    np.testing.assert_array_equal(at.ravel(), [first, first + 3, first + 6])
    np.testing.assert_array_equal(largest, x[:, :, first::3])
    (mean,) = run("AveragePool", [x], **window)
    np.testing.assert_array_equal(mean, x[:, :, first::3])
    window["strides"] = (4,)  # 3 windows, 9 places: they begin at 0, 4 and 8
    (norm,) = run("LpPool", [x], **window)
    np.testing.assert_array_equal(norm.ravel(), [1, 5, 9])
    (found,) = run("MaxPool", [x[..., :8]], **window)  # 2 windows, 3 of 8 places too many
    np.testing.assert_array_equal(found.ravel(), [2, 6])


def test_no_images(run) -> None:
    x = np.zeros((0, 2, 6, 6), np.float32)
    window = {"kernel_shape": (2, 2), "strides": (2, 2)}
    largest, at = run("MaxPool", [x], **window, outputs=2)
    assert largest.shape == at.shape == (0, 2, 3, 3)
    assert run("MaxUnpool", [largest, at], **window)[0].shape == x.shape
    sizes = [np.array(v, np.int64) for v in ((3, 3), (2, 2))]
    assert run("Col2Im", [np.zeros((0, 8, 4), np.float32), *sizes])[0].shape == (0, 2, 3, 3)


def test_unpooling(run) -> None:
    x = normal(2, 3, 6, 8)
    window = {"kernel_shape": (2, 2), "strides": (2, 2)}
    largest, at = run("MaxPool", [x], **window, outputs=2)
    (found,) = run("MaxUnpool", [largest, at], **window)
    want = np.zeros(x.size, np.float32)
    want[at.reshape(-1)] = largest.reshape(-1)
    np.testing.assert_array_equal(found, want.reshape(x.shape))
    shape = np.array([2, 3, 7, 8], np.int64)
    (larger,) = run("MaxUnpool", [largest, at, shape], **window, fixed=(2,))
    np.testing.assert_array_equal(larger[:, :, :6], found)
    assert larger.shape == (2, 3, 7, 8) and not larger[:, :, 6].any()
    with pytest.raises(VknnError, match="has the places"):
        run("MaxUnpool", [largest, at[:1]], **window)


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_columns(run, axes: int) -> None:
    image, block, strides, dilations = (
        values[:axes] for values in ((4, 5, 6, 3), (2, 3, 2, 2), (2, 1, 2, 1), (1, 2, 1, 2))
    )
    begins, ends = (1, 0, 1, 0)[:axes], (0, 1, 2, 1)[:axes]
    counts = [
        (i + a + b - (k - 1) * d - 1) // s + 1
        for i, a, b, k, d, s in zip(image, begins, ends, block, dilations, strides, strict=True)
    ]
    parts, windows_ = int(np.prod(block)), int(np.prod(counts))
    x = RNG.integers(-9, 9, (2, 3 * parts, windows_)).astype(np.int32)
    columns = x.reshape(2, 3, *block, *counts)
    want = np.zeros((2, 3, *image), np.int64)
    for tap, window in itertools.product(np.ndindex(*block), np.ndindex(*counts)):
        at = [
            w * s + t * d - a
            for w, s, t, d, a in zip(window, strides, tap, dilations, begins, strict=True)
        ]
        if all(0 <= p < size for p, size in zip(at, image, strict=True)):
            want[(slice(None), slice(None), *at)] += columns[
                (slice(None), slice(None), *tap, *window)
            ]
    given = [np.array(image, np.int64), np.array(block, np.int64)]
    window = {"strides": strides, "dilations": dilations, "pads": (*begins, *ends)}
    long = x.astype(np.int64) + np.where(x > 0, 1 << 58, 0)
    for values in (x, x.astype(np.float32), (x * (1 - 3j)).astype(np.complex64), long):
        (found,) = run("Col2Im", [values, *given], **window, fixed=(1, 2))
        assert found.dtype == values.dtype
        if values is long:
            np.testing.assert_array_equal(found % (1 << 58), want % (1 << 58))
        else:
            np.testing.assert_array_equal(found, want * (1 - 3j if values.dtype.kind == "c" else 1))


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_deformed_windows(run, axes: int) -> None:
    """Shifts by 1 along all axes are a convolution of the image one further, halves its mean."""
    sizes = (5, 4, 6, 3)[:axes]
    x, weights, bias = normal(2, 4, *sizes), normal(6, 2, *[3] * axes), normal(6)
    taps, pads = 3**axes, (1,) * (2 * axes)
    mask = normal(2, 2 * taps, *sizes)
    further = np.pad(x, [(0, 0), (0, 0), *[(1, 2)] * axes])[(..., *[slice(1, None)] * axes)]
    (plain,) = run("Conv", [x, weights, bias], group=2, pads=pads)
    (moved,) = run("Conv", [further, weights, bias], group=2)
    shape = (2, 2 * taps * axes, *sizes)
    for shift, want in ((0, plain), (1, moved)):
        given = [x, weights, np.full(shape, shift, np.float32), bias]
        (found,) = run("DeformConv", given, group=2, offset_group=2, pads=pads)
        np.testing.assert_allclose(found, want, atol=1e-4)
    whole = np.ones_like(mask)
    given = [x, weights, np.zeros(shape, np.float32), None, 2 * whole]
    (found,) = run("DeformConv", given, group=2, offset_group=2, pads=pads)
    (unbiased,) = run("Conv", [x, weights], group=2, pads=pads)
    np.testing.assert_allclose(found, 2 * unbiased, atol=1e-4)
    cut, inner = (-1, *[0] * (2 * axes - 1)), (sizes[0] - 3, *(s - 2 for s in sizes[1:]))
    if min(inner) > 0:
        offsets = np.zeros((2, 2 * taps * axes, *inner), np.float32)
        (found,) = run("DeformConv", [x, weights, offsets], group=2, offset_group=2, pads=cut)
        (want,) = run("Conv", [x[:, :, 1:], weights], group=2)
        np.testing.assert_allclose(found, want, atol=1e-4)


def test_transposed_convolutions_with_pads_below_0(run) -> None:
    x, weights, bias = normal(1, 2, 4, 3), normal(2, 3, 2, 3), normal(3)
    (plain,) = run("ConvTranspose", [x, weights, bias], strides=(2, 1))
    (found,) = run("ConvTranspose", [x, weights, bias], strides=(2, 1), pads=(-1, 1, -2, 0))
    wide = np.pad(plain - bias.reshape(3, 1, 1), [(0, 0), (0, 0), (1, 2), (0, 0)])[..., 1:]
    np.testing.assert_allclose(found, wide + bias.reshape(3, 1, 1), atol=1e-5)


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolutions_over_four_axes(run, group: int) -> None:
    """Sums of products at their places, with what the padding cuts off and what is added."""
    x, weights, bias = normal(2, 4, 3, 2, 1, 2), normal(4, 3, 2, 3, 1, 2), normal(3 * group)
    strides, dilations, pads, extra = (
        (2, 1, 2, 1),
        (1, 2, 1, 1),
        (1, 0, 0, 0, 0, 2, 0, 1),
        (1, 0, 1, 0),
    )
    spans = zip(x.shape[2:], strides, weights.shape[2:], dilations, extra, strict=True)
    sizes = [(i - 1) * s + (k - 1) * d + 1 + e for i, s, k, d, e in spans]
    want = np.zeros((2, 3 * group, *sizes))
    for g, place, tap in itertools.product(
        range(group), np.ndindex(*x.shape[2:]), np.ndindex(*weights.shape[2:])
    ):
        at = [p * s + t * d for p, s, t, d in zip(place, strides, tap, dilations, strict=True)]
        own = slice(g * 4 // group, (g + 1) * 4 // group)
        part = x[(slice(None), own, *place)] @ weights[(own, slice(None), *tap)]
        want[(slice(None), slice(3 * g, 3 * g + 3), *at)] += part
    cut = [slice(a, n - b) for a, b, n in zip(pads[:4], pads[4:], sizes, strict=True)]
    want = want[(slice(None), slice(None), *cut)] + bias.reshape(-1, 1, 1, 1, 1)
    window = {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": extra}
    (found,) = run("ConvTranspose", [x, weights, bias], **window, group=group)
    np.testing.assert_allclose(found, want, atol=1e-5)


@pytest.mark.device
@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_of_integers_on_devices(group: int, tmp_path: Path) -> None:
    """With constant weights, as networks have them that are quantized dynamically."""
    x = RNG.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8)
    weights = RNG.integers(0, 256, (6, 4 // group, 3, 2)).astype(np.uint8)
    stored = {"w": weights, "wz": np.array(101, np.uint8)}
    one = node("ConvInteger", "x w z wz", "y", group=group, pads=(1, 0, 1, 1))
    taken = [value("x", x.shape, DType.UINT8), value("z", (), DType.UINT8)]
    message = model(graph([one], taken, [value("y", None)], stored))
    with Session(save(message, tmp_path), device=shared_device()) as session:
        found = session.run({"x": x, "z": np.array(77, np.uint8)})["y"]
        assert "host" not in session.placement.values()
    taps = np.nan_to_num(windows(x.astype(np.float64) - 77, (3, 2), (1, 1), (1, 0, 1, 1)))
    parts = taps.reshape(2, group, 4 // group, *taps.shape[2:])
    kernels = (weights - 101.0).reshape(group, 6 // group, 4 // group, -1)
    want = np.einsum("ngchwk,gmck->ngmhw", parts, kernels).reshape(found.shape)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", ["four axes", "five axes", "cut"])
def test_convolutions_of_integers(run, name: str) -> None:
    shape, window = WINDOWS[name]
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    weights = RNG.integers(-128, 128, (4, shape[1], *window["kernel_shape"])).astype(np.int8)
    real = [x.astype(np.float64) - 7, weights.astype(np.float64)]
    taps = np.nan_to_num(
        windows(real[0], window["kernel_shape"], window["strides"], window["pads"])
    )
    want = np.einsum("nc...k,mck->nm...", taps, real[1].reshape(*weights.shape[:2], -1))
    zeros = [np.array(7, np.uint8), np.array(0, np.int8)]
    (found,) = run("ConvInteger", [x, weights, *zeros], **window)
    np.testing.assert_array_equal(found, want)
    for fixed in ((1,), (1, 2, 3)):  # the weights as codes, on devices too
        (found,) = run("ConvInteger", [x, weights, *zeros], **window, fixed=fixed)
        np.testing.assert_array_equal(found, want)
    scales = [np.float32(1), np.float32(1), np.float32(1024)]
    given = [x, scales[0], zeros[0], weights, scales[1], zeros[1], scales[2], zeros[0]]
    (found,) = run("QLinearConv", given, **window, fixed=range(1, 8))
    np.testing.assert_array_equal(found, (np.rint(want / 1024) + 7).clip(0, 255))


@pytest.mark.parametrize("pads", [(0, 0), (1, 0)])
def test_what_windows_reach_beyond_the_padding_never_counts(run, pads: tuple[int, int]) -> None:
    x = normal(1, 2, 6)
    window = {"kernel_shape": (3,), "strides": (2,), "pads": pads, "ceil_mode": 1}
    padded = np.pad(x, [(0, 0), (0, 0), pads])
    count = -(-(padded.shape[2] - 3) // 2) + 1
    want = np.stack([padded[..., 2 * i : 2 * i + 3].mean(axis=-1) for i in range(count)], -1)
    (found,) = run("AveragePool", [x], **window, count_include_pad=1)
    np.testing.assert_allclose(found, want, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_padding_counts_beside_distances(run, axes: int) -> None:
    """Along each axis; where no window reaches beyond the padding, all have as many elements."""
    x = np.ones((1, 1, *[5, 4, 6][:axes]), np.float32)
    how = {"kernel_shape": [2, 3, 2][:axes], "dilations": [2, 1, 2][:axes], "pads": [1] * 2 * axes}
    (sums,) = run("LpPool", [x], opset=22, p=1, **how)
    (found,) = run("AveragePool", [x], opset=22, count_include_pad=1, **how)
    np.testing.assert_allclose(found, sums / np.prod(how["kernel_shape"]), atol=1e-6)


@pytest.mark.parametrize("stride", [1 << 31, 1 << 40, (1 << 63) - 1])
def test_strides_that_lead_out_of_the_image(run, stride: int) -> None:
    """Only one window is left then, however far the next one would be."""
    x, w = normal(1, 2, 5, 4), normal(3, 2, 2, 2)
    given: dict[str, Any] = {"kernel_shape": (2, 2), "pads": (1, 0, 0, 1)}
    for op_type, inputs in (("MaxPool", [x]), ("LpPool", [x]), ("Conv", [x, w])):
        (want,) = run(op_type, inputs, strides=(9, 1), **given)
        (found,) = run(op_type, inputs, strides=(stride, 1), **given)
        np.testing.assert_array_equal(found, want)
    with pytest.raises(VknnError):
        run("ConvTranspose", [x, w.transpose(1, 0, 2, 3)], strides=(stride, 1))
