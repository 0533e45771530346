"""Convolutions of all kinds against PyTorch or sums written out; FullyConnected."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, refuse
from tests.openvino_writer import Net

from vknn.session import Session

torch = pytest.importorskip("torch")
F = torch.nn.functional
CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
SIZES = (7, 6, 9)


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def convolved(
    x: np.ndarray, w: np.ndarray, bias: Any, strides: Any, pads: Any, dilations: Any,
    group: int = 1, value: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """The convolution of x, padded by hand; ``pads`` are (begins, ends)."""
    padded = np.pad(
        x.astype(np.float64),
        [(0, 0), (0, 0), *zip(*pads, strict=True)],
        constant_values=value,
    )
    t = torch.from_numpy
    y = CONVOLUTIONS[x.ndim - 2](
        t(padded), t(w.astype(np.float64)), None if bias is None else t(bias.astype(np.float64)),
        stride=strides, dilation=dilations, groups=group,
    )  # fmt: skip
    return y.numpy().astype(np.float32)


def transposed(
    x: np.ndarray, w: np.ndarray, strides: Any, begins: Any, sizes: Any, dilations: Any,
    group: int = 1, bias: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """The transposed convolution; ``begins`` is cut off, then the sizes are taken (or filled)."""
    t = torch.from_numpy
    full = TRANSPOSED[x.ndim - 2](
        t(x.astype(np.float64)), t(w.astype(np.float64)),
        stride=strides, dilation=dilations, groups=group,
    ).numpy()  # fmt: skip
    room = [max(b + n - f, 0) for b, n, f in zip(begins, sizes, full.shape[2:], strict=True)]
    full = np.pad(full, [(0, 0), (0, 0), *((0, r) for r in room)])
    y = full[(..., *(slice(b, b + n) for b, n in zip(begins, sizes, strict=True)))]
    if bias is not None:
        y = y + bias.reshape(-1, *(1,) * (x.ndim - 2))
    return y.astype(np.float32)


def same(size: int, stride: int, extent: int) -> tuple[int, int]:
    """The smaller and the larger half of what SAME adds."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolution(axes: int, backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    rng = np.random.default_rng(axes)
    for group, biased, case in itertools.product((1, 2, 4), (False, True), range(3)):
        kernel, strides, dilations, begins, ends = (
            tuple(map(int, rng.integers(low, high, axes)))
            for low, high in ((1, 4), (1, 4), (1, 3), (0, 3), (0, 4))
        )
        x, w = made(1 + case % 2, 8, *SIZES[:axes]), made(12, 8 // group, *kernel, seed=1)
        bias = made(12, seed=2) if biased else None
        y = convolved(x, w, bias, strides, (begins, ends), dilations, group)
        attributes = {
            "kernel": kernel, "strides": strides, "pads_begin": begins, "pads_end": ends,
            "dilations": dilations, "group": group, "output": 12, "unknown": "what, ever",
        }  # fmt: skip
        blobs = {"weights": w} if bias is None else {"weights": w, "biases": bias}
        many.add("Convolution", [x], y, attributes, blobs)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["same_upper", "same_lower", "valid"])
def test_automatic_padding(mode: str, backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for axes, kernel, stride, dilation in (
        (1, 2, 1, 1), (2, 2, 1, 1), (2, 3, 2, 1), (2, 4, 3, 1), (2, 3, 1, 2), (2, 1, 2, 1),
        (2, 2, 4, 1), (3, 4, 2, 1), (3, 2, 1, 2),
    ):  # fmt: skip
        x, w = made(1, 3, *SIZES[:axes]), made(4, 3, *(kernel,) * axes)
        extent = (kernel - 1) * dilation + 1
        halves = [same(size, stride, extent) for size in SIZES[:axes]]
        pads = [[a for a, _ in halves], [b for _, b in halves]]
        if mode == "same_lower":
            pads.reverse()
        if mode == "valid":
            pads = [[0] * axes] * 2
        y = convolved(x, w, None, stride, pads, dilation)
        if mode != "valid":
            assert y.shape[2:] == tuple(-(-size // stride) for size in SIZES[:axes])
        attributes = {
            "kernel": (kernel,) * axes, "strides": (stride,) * axes, "output": 4,
            "dilations": (dilation,) * axes, "auto_pad": mode.upper() if axes == 3 else mode,
            "pads_begin": (9,) * axes, "pads_end": (7,) * axes,
        }  # fmt: skip
        many.add("Convolution", [x], y, attributes, {"weights": w})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_spellings(backend: str, tmp_path: Path) -> None:
    """Spellings of the first versions, missing lists, float16 weights, weights as inputs."""
    many = Many(1e-5)
    x, w, bias = made(2, 4, 7, 6), made(6, 4, 2, 3), made(6, seed=3)
    old: dict[str, Any] = {
        "kernel-y": 2, "kernel-x": 3, "stride-y": 2, "stride-x": 1, "pad-y": 1, "pad-x": 2,
        "dilation-y": 3, "dilation-x": 1, "output": 6, "stride": "1,1,9,9",
    }  # fmt: skip
    y = convolved(x, w, bias, (2, 1), ((1, 2), (1, 2)), (3, 1))
    blobs = {"weights": w, "biases": bias}
    many.add("Convolution", [x], y, old, blobs)
    many.add("Convolution", [x], y, {**old, "kernel": "", "strides": ""}, blobs)
    y = convolved(x, w, bias, (2, 1), ((1, 2), (0, 3)), (3, 1))
    many.add("Convolution", [x], y, {**old, "pad-b": 0, "pad-r": 3}, blobs)
    new = {"kernel": (2, 3), "output": 6}
    y = convolved(x, w, bias, 1, ((0, 0), (0, 0)), 1)
    many.add("convolution", [x], y, new, blobs)
    many.add("Convolution", [x], y, {"kernel": "2, 3", "output": 6}, blobs)
    many.add("Convolution", [x, Fixed(w), Fixed(bias)], y, new)
    many.add("Convolution", [x, w, bias], y, new)
    many.add("Convolution", [x, w], y, new, {"biases": bias})
    y = convolved(x, w, None, 1, ((1, 2), (1, 2)), 1)
    many.add("Convolution", [x], y, {**new, "pads_begin": (1, 2)}, {"weights": w})
    half = w.astype(np.float16)
    y = convolved(x, half.astype(np.float32), None, 1, ((0, 0), (1, 2)), 1)
    ends = {**new, "pads_begin": (0, 0), "pads_end": (1, 2), "auto_pad": "explicit"}
    many.add("Convolution", [x], y, ends, {"weights": half})
    y = convolved(x, w.reshape(12, 2, 2, 3)[:6], None, 1, ((0, 0), (0, 0)), 1, 2)
    grouped = Fixed(w.reshape(12, 2, 2, 3)[:6].reshape(2, 3, 2, 2, 3))
    many.add("Convolution", [x, grouped], y, {**new, "group": 2})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_deconvolution(axes: int, backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    rng = np.random.default_rng(axes + 10)
    for group, biased, case in itertools.product((1, 2, 4), (False, True), range(3)):
        kernel, strides, dilations, begins, ends = (
            tuple(map(int, rng.integers(low, high, axes)))
            for low, high in ((2, 5), (1, 4), (1, 3), (0, 2), (0, 2))
        )
        sizes = tuple(s // 2 for s in SIZES[:axes])
        x, w = made(1 + case % 2, 8, *sizes), made(8, 12 // group, *kernel, seed=1)
        bias = made(12, seed=2) if biased else None
        out = [
            s * (n - 1) + d * (k - 1) + 1 - b - e
            for s, n, d, k, b, e in zip(
                strides, sizes, dilations, kernel, begins, ends, strict=True
            )
        ]
        y = transposed(x, w, strides, begins, out, dilations, group, bias)
        attributes = {
            "kernel": kernel, "strides": strides, "pads_begin": begins, "pads_end": ends,
            "dilations": dilations, "group": group, "output": 12,
        }  # fmt: skip
        blobs = {"weights": w} if bias is None else {"weights": w, "biases": bias}
        many.add("Deconvolution", [x], y, attributes, blobs)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_deconvolution_by_its_port(backend: str, tmp_path: Path) -> None:
    """auto_pad, and sizes that only the output port states."""
    many = Many(1e-5)
    x = made(1, 3, 4, 5)
    for mode, kernel, stride, dilation in itertools.product(
        ("same_upper", "same_lower", "valid"), (2, 3, 4), (1, 2, 3), (1, 2)
    ):
        w, extent = made(3, 2, kernel, kernel), (kernel - 1) * dilation + 1
        full = [(n - 1) * stride + extent for n in (4, 5)]
        for lacking in (0, 1) if stride > 1 else (0,):
            sizes = full if mode == "valid" else [n * stride - lacking for n in (4, 5)]
            cut = [max(f - s, 0) for f, s in zip(full, sizes, strict=True)]
            begins = [c // 2 if mode == "same_upper" else c - c // 2 for c in cut]
            y = transposed(x, w, stride, begins, sizes, dilation)
            attributes = {
                "kernel": (kernel, kernel), "strides": (stride, stride), "output": 2,
                "dilations": (dilation, dilation), "auto_pad": mode,
            }  # fmt: skip
            many.add("Deconvolution", [x], y, attributes, {"weights": w})
    w, bias = made(3, 4, 3, 3), made(4)
    for begin, size in ((0, 12), (1, 11), (1, 10), (2, 7), (0, 9)):
        y = transposed(x, w, 2, (begin, begin), (size - 2, size), 1, 1, bias)
        pads = {"pads_begin": (begin, begin), "pads_end": (begin, begin)}
        attributes = {"kernel": (3, 3), "strides": (2, 2), "output": 4, **pads}
        many.add("Deconvolution", [x], y, attributes, {"weights": w, "biases": bias})
    old = {"kernel-y": 3, "kernel-x": 3, "stride-x": 2, "stride-y": 2, "pad-x": 1, "pad-y": 1}
    y = transposed(x, w, 2, (1, 1), (7, 9), 1)
    many.add("Deconvolution", [x], y, {**old, "output": 4}, {"weights": w})
    many.add("Deconvolution", [x, Fixed(w)], y, {**old, "output": 4})
    many.check(backend, tmp_path)


def test_other_inputs_than_the_file_s(tmp_path: Path) -> None:
    """With images of other sizes attributes decide."""
    net = Net()
    x = net.input("x", (1, 2, 4, 4))
    w = made(2, 3, 3, 3)
    attributes = {"kernel": (3, 3), "strides": (2, 2), "output": 3}
    for name, more, size in (("a", {"auto_pad": "same_upper"}, 8), ("b", {}, 9)):
        blobs = {"weights": w}
        given = {**attributes, **more}
        net.layer("Deconvolution", [x], [(1, 3, size, size)], given, blobs, name=name)
    with Session(net.save(tmp_path), device="numpy") as session:
        feed = made(2, 2, 5, 3)
        found = session.run({"x": feed})
    assert np.allclose(found["a"], transposed(feed, w, 2, (0, 0), (10, 6), 1), atol=1e-5)
    assert np.allclose(found["b"], transposed(feed, w, 2, (0, 0), (11, 7), 1), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_binary_convolution(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(5)
    for group, value, pads, stride in itertools.product(
        (1, 2), (-1.0, 0.0, 1.0, 0.5), ((0, 0), (1, 2)), (1, 2)
    ):
        bits = rng.integers(0, 2, (1, 6, 7, 5)).astype(np.float32)
        weights = rng.integers(0, 2, (4, 6 // group, 3, 2))
        y = convolved(bits * 2 - 1, weights * 2 - 1, None, stride, (pads, pads), 1, group, value)
        attributes = {
            "kernel": (3, 2), "strides": (stride, stride), "pads_begin": pads, "pads_end": pads,
            "dilations": (1, 1), "group": group, "output": 4, "input": 6, "pad_value": value,
            "mode": "xnor-popcount",
        }  # fmt: skip
        packed = np.packbits(weights.reshape(-1).astype(np.uint8), bitorder="little")
        many.add("BinaryConvolution", [bits], y, attributes, {"weights": packed})
    many.check(backend, tmp_path)


def sampled(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """Channels of an image [C, H, W] between its pixels; nothing fades out at the edges."""
    h, w = image.shape[1:]
    if y < 0 or x < 0 or y >= h or x >= w:
        return np.zeros(len(image))
    rows, columns = [int(y), min(int(y) + 1, h - 1)], [int(x), min(int(x) + 1, w - 1)]
    shares = np.outer([1 - y % 1, y % 1], [1 - x % 1, x % 1])
    cells = image[:, rows][:, :, columns].astype(np.float64)
    return np.asarray((cells * shares).sum((1, 2)))


def deformed(
    x: np.ndarray, offsets: np.ndarray, w: np.ndarray, stride: int, pads: Any, dilation: int,
    group: int, parts: int,
) -> np.ndarray:  # fmt: skip
    """The shifts belong to parts of the channels, which each of the groups counts from 0."""
    n, channels = x.shape[:2]
    maps, depth, kh, kw = w.shape
    out = offsets.shape[2:]
    y = np.zeros((n, maps, *out))
    each = channels // parts
    for image, i, j, ky, kx in np.ndindex(n, *out, kh, kw):
        tap = ky * kw + kx
        taken = np.zeros(channels)
        for part in range(parts):
            shift = offsets[
                image, 2 * (part * kh * kw + tap) : 2 * (part * kh * kw + tap) + 2, i, j
            ]
            place = (
                np.float32(i * stride - pads[0] + ky * dilation) + shift[0],
                np.float32(j * stride - pads[1] + kx * dilation) + shift[1],
            )
            members = np.flatnonzero(np.arange(channels) % depth // each == part)
            if members.size:
                taken[members] = sampled(x[image, members], *map(float, place))
        for g in range(group):
            rows = slice(g * maps // group, (g + 1) * maps // group)
            y[image, rows, i, j] += w[rows, :, ky, kx] @ taken[g * depth : (g + 1) * depth]
    return y.astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_deformable_convolution(backend: str, tmp_path: Path) -> None:
    many = Many(2e-5)
    for number, (group, parts, stride, dilation, pad) in enumerate(
        ((1, 1, 1, 1, 1), (2, 1, 2, 1, 0), (1, 4, 1, 2, 2), (4, 2, 2, 1, 1), (1, 8, 1, 1, 0),
         (2, 4, 1, 1, 0), (2, 8, 2, 1, 1))
    ):  # fmt: skip
        x, w = made(2, 8, 5, 6, seed=number), made(4, 8 // group, 3, 2)
        out = [
            (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for n, k in zip((5, 6), (3, 2), strict=True)
        ]
        offsets = 2 * made(2, 12 * parts, *out, seed=number)
        offsets[:, :2] = np.round(offsets[:, :2])  # on pixels, edges included
        y = deformed(x, offsets, w, stride, (pad, pad), dilation, group, parts)
        name = "num_deformable_group" if number == 2 else "deformable_group"
        bias = made(4, seed=number)
        attributes = {
            "kernel": (3, 2), "strides": (stride, stride), "pads_begin": (pad, pad), name: parts,
            "pads_end": (pad, pad), "dilations": (dilation, dilation), "group": group, "output": 4,
        }  # fmt: skip
        blobs = {"weights": w, "biases": bias} if number % 2 else {"weights": w}
        if number % 2:
            y = y + bias[:, None, None]
        many.add("DeformableConvolution", [x, offsets], y, attributes, blobs)
    x, w = made(1, 2, 6, 6), made(3, 2, 3, 3)
    for mode, begin in (("same_upper", 0), ("same_lower", 1), ("valid", 0)):
        out = (2, 2) if mode == "valid" else (3, 3)
        offsets = made(1, 18, *out)
        y = deformed(x, offsets, w, 2, (begin, begin), 1, 1, 1)
        attributes = {"kernel": (3, 3), "strides": (2, 2), "auto_pad": mode, "output": 3}
        many.add("DeformableConvolution", [x, offsets], y, attributes, {"weights": w})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fully_connected(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for shape in ((3, 10), (1, 10), (2, 5, 2), (2, 5, 2, 3), (2, 2, 2, 2, 3)):
        x = made(*shape)
        w, bias = made(7, x[0].size), made(7)
        y = x.reshape(len(x), -1) @ w.T
        many.add("FullyConnected", [x], y + bias, {"out-size": 7}, {"weights": w, "biases": bias})
        many.add("InnerProduct", [x], y, {"out-size": 7}, {"weights": w})
        many.add("FullyConnected", [x, Fixed(w), Fixed(bias)], y + bias, {"out-size": 7})
    x, w = made(2, 5, 3), made(4, 3)
    many.add("FullyConnected", [x], x @ w.T, {"out-size": 4}, {"weights": w})
    many.check(backend, tmp_path)


def test_contradictions(tmp_path: Path) -> None:
    x, w = made(1, 4, 6, 6), {"weights": made(2, 4, 3, 3)}
    good: dict[str, Any] = {"kernel": (3, 3), "output": 2}
    shape = [(1, 2, 4, 4)]
    for wrong, match in (
        ({"kernel": (3, 3, 3)}, "kernel"), ({"kernel": (3,)}, "kernel"), ({"strides": (1,)}, "str"),
        ({"strides": (0, 1)}, "strides"), ({"kernel": (3, 0)}, "kernel"), ({"group": 3}, "groups"),
        ({"dilations": (1, 0)}, "dil"), ({"pads_begin": (-1, 0)}, "pads"), ({"group": 0}, "groups"),
        ({"output": 3}, "weights"), ({"output": 0}, "output"), ({"auto_pad": "some"}, "auto_pad"),
        ({"kernel": (7, 7), "output": 2}, "weights"), ({"kernel": "a,b"}, "kernel"),
    ):  # fmt: skip
        refuse(tmp_path, "Convolution", [x], shape, {**good, **wrong}, match, blobs=w)
    refuse(tmp_path, "Convolution", [x], shape, good, "weights")
    empty = {"kernel": "", "output": 2}
    refuse(tmp_path, "Convolution", [x], shape, empty, "kernel", blobs=w)
    refuse(tmp_path, "Convolution", [x], [(1, 2, 5, 4)], good, "shape", blobs=w)
    refuse(tmp_path, "Convolution", [x], shape, good, "biases", blobs={**w, "biases": made(3)})
    large = {"kernel": (9, 1), "output": 2}
    refuse(
        tmp_path, "Convolution", [x], shape, large, "kernel", blobs={"weights": made(2, 4, 9, 1)}
    )
    refuse(tmp_path, "Convolution", [x[0]], [(1, 2, 4)], good, "kernel", blobs=w)
    refuse(tmp_path, "FullyConnected", [x], [(1, 3)], {"out-size": 3}, "weights", blobs=w)
    deformable = {**good, "deformable_group": 3}
    offsets = made(1, 54, 4, 4)
    refuse(tmp_path, "DeformableConvolution", [x, offsets], shape, deformable, "group", blobs=w)
    binary = {**good, "input": 4, "mode": "xnor-popcount", "pad_value": 0}
    bits = {"weights": np.zeros(9, np.uint8)}
    refuse(
        tmp_path, "BinaryConvolution", [x], shape, {**binary, "input": 3}, "4 channels", blobs=bits
    )
    refuse(tmp_path, "BinaryConvolution", [x], shape, {**binary, "mode": "and"}, "mode", blobs=bits)
    few = {"weights": np.zeros(5, np.uint8)}
    refuse(tmp_path, "BinaryConvolution", [x], shape, binary, "weights", blobs=few)
