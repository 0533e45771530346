"""Quantize, Dequantize, Requantize and Cast against ncnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, whole_net

from vknn import formats
from vknn.errors import UnsupportedLayerError

SHAPES = [(7,), (5, 7), (3, 5, 7), (3, 2, 5, 7)]


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-300, 300, shape).astype(np.int32)


def count(shape: tuple[int, ...], per_channel: bool) -> int:
    return shape[0] if per_channel and len(shape) > 1 else 1


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_quantize(shape: tuple[int, ...], per_channel: bool, backend: str) -> None:
    n = count(shape, per_channel)
    scale = np.linspace(20, 90, n, dtype=np.float32)
    check(f"Quantize 0={n}", image(*shape), weights={"scale": scale}, backend=backend)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_dequantize(shape: tuple[int, ...], per_channel: bool, bias: bool, backend: str) -> None:
    n = count(shape, per_channel)
    check(f"Dequantize 0={n} 1={n if bias else 0}", integers(*shape), backend=backend)


ACTIVATIONS = [
    "",
    "3=1",
    "3=2 -23304=1,0.25",
    "3=3 -23304=2,-20.5,33.0",
    "3=4",
    "3=5",
    "3=6 -23304=2,0.2,0.5",
]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_requantize(
    shape: tuple[int, ...], per_channel: bool, activation: str, backend: str
) -> None:
    n = count(shape, per_channel)
    scales = np.linspace(0.2, 0.9, n, dtype=np.float32)
    weights = {"scale_in": scales, "scale_out": scales[::-1] * 2}
    line = f"Requantize 0={n} 1={n} 2={n} {activation}"
    check(line, integers(*shape), weights=weights, backend=backend)


def test_half_precision_and_back(backend: str) -> None:
    text = whole_net("Input i 0 1 x", "Cast a 1 1 x h 0=1 1=2", "Cast b 1 1 h y 0=2 1=1")
    compare_with_ncnn(text, None, {"x": image(3, 5, 7)}, (backend,), tolerance=0)


def test_int8_as_floats(backend: str) -> None:
    text = whole_net("Input i 0 1 x", "Quantize q 1 1 x q", "Cast b 1 1 q y 0=3 1=1")
    scale = {"q": {"scale": np.array([40], np.float32)}}
    compare_with_ncnn(text, scale, {"x": image(3, 5, 7)}, (backend,), tolerance=0)


@pytest.mark.parametrize("sizes", [(1, 1, 0), (1, 5, 1), (5, 1, 5), (1, 1, 5), (5, 5, 1)])
@pytest.mark.parametrize("shape", [(5, 7), (5, 3, 4), (5, 2, 3, 4)])
def test_requantize_sizes(
    shape: tuple[int, ...], sizes: tuple[int, int, int], backend: str
) -> None:
    """Scales and bias each for all or for each outermost index; some thousand values, exact."""
    a, b, n = sizes
    weights = {
        "scale_in": np.linspace(0.13, 0.71, a, dtype=np.float32),
        "scale_out": np.linspace(0.9, 1.7, b, dtype=np.float32),
        "bias": np.linspace(-3, 5, n, dtype=np.float32),
    }
    check(f"Requantize 0={a} 1={b} 2={n}", integers(*shape), weights=weights, backend=backend)


def test_dequantize_rounds_once(backend: str) -> None:
    """To the last bit: product and bias are one step."""
    rng = np.random.default_rng(1)
    x = rng.integers(-3000, 3000, (500, 16)).astype(np.int32)
    weights = {"scale": rng.uniform(3e-4, 5e-3, 500), "bias": rng.uniform(-1, 1, 500)}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    check("Dequantize 0=500 1=500", x, weights=weights, backend=backend, tolerance=0)


@pytest.mark.parametrize("sizes", [(1, 5), (5, 1)])
@pytest.mark.parametrize("shape", [(5, 7), (5, 3, 4), (5, 2, 3, 4)])
def test_dequantize_sizes(shape: tuple[int, ...], sizes: tuple[int, int], backend: str) -> None:
    check(f"Dequantize 0={sizes[0]} 1={sizes[1]}", integers(*shape), backend=backend)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4)])
def test_more_scales_than_channels(shape: tuple[int, ...], backend: str) -> None:
    scale = np.linspace(20, 90, 6, dtype=np.float32)
    check("Quantize 0=6", image(*shape), weights={"scale": scale}, backend=backend)
    check("Dequantize 0=6 1=5", integers(*shape), backend=backend)


def test_quantize_halves_and_limits(backend: str) -> None:
    """Halves away from zero, never -128, in every place of a long vector."""
    x = np.concatenate([np.arange(-260, 261) / 2, [1e9, -1e9, 127.49, -127.5]]).astype(np.float32)
    scale = {"scale": np.ones(1, np.float32)}
    check("Quantize", x, weights=scale, backend=backend)


@pytest.mark.parametrize("shape", SHAPES)
def test_half_precision_is_handed_out(shape: tuple[int, ...], backend: str) -> None:
    check("Cast 0=1 1=2", image(*shape), backend=backend, tolerance=0)
    check("Cast 0=2 1=1", image(*shape).astype(np.float16), backend=backend, tolerance=0)
    check("Cast 0=1 1=1", image(*shape), backend=backend, tolerance=0)
    check("Cast", image(*shape), backend=backend, tolerance=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_and_back(shape: tuple[int, ...], backend: str) -> None:
    """ncnn cuts or rounds, by CPU: the last digit of eight may differ."""
    text = whole_net("Input i 0 1 x", "Cast a 1 1 x h 0=1 1=4", "Cast b 1 1 h y 0=4 1=1")
    compare_with_ncnn(text, None, {"x": image(*shape)}, (backend,), tolerance=2.0**-8)


@pytest.mark.parametrize("pair", [(1, 3), (0, 1), (1, 0), (2, 4), (3, 2), (5, 1)])
def test_casts_that_ncnn_leaves_undefined(pair: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(whole_net("Input i 0 1 x", f"Cast a 1 1 x y 0={pair[0]} 1={pair[1]}"))
    with pytest.raises(UnsupportedLayerError, match=f"Cast 'a' with conversion {pair[0]} -> "):
        formats.load(path)
