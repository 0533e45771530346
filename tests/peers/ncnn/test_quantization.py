"""Quantize, Dequantize, Requantize and Cast against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, whole_net

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


@pytest.mark.parametrize("activation", ["", "3=1", "3=2 -23304=1,0.25"])
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
