"""Normalisation against the formulas in float64."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, refuse

from vknn.errors import ModelFormatError

Missing = ModelFormatError
SHAPE = (2, 5, 4, 6, 3)


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def spread(array: np.ndarray, rank: int) -> np.ndarray:
    """A vector of channels along axis 1."""
    return array.reshape(-1, *(1,) * (rank - 2)).astype(np.float64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_normalization(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for rank, epsilon in itertools.product(range(2, 6), (1e-5, 0.1, 9.99e-06)):
        x = made(*SHAPE[:rank]) * 3
        variance, mean = np.abs(made(5)), made(5, seed=1)
        y = (x - spread(mean, rank)) / np.sqrt(spread(variance, rank) + epsilon)
        blobs = {"weights": variance, "biases": mean}
        many.add("BatchNormalization", [x], y.astype(np.float32), {"epsilon": epsilon}, blobs)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scale_shift(backend: str, tmp_path: Path) -> None:
    many = Many(1e-6)
    scale, shift = made(5), made(5, seed=1)
    for rank in range(1, 6):
        x = made(*SHAPE[:rank]) if rank > 1 else made(5)
        s, b = (scale, shift) if rank == 1 else (spread(scale, rank), spread(shift, rank))
        for blobs, y in (
            ({"weights": scale, "biases": shift}, x * s + b), ({"weights": scale}, x * s),
            ({"biases": shift}, x + b), ({"weights": scale[:1], "biases": shift}, x * scale[0] + b),
            ({"weights": scale.astype(np.float16)}, x * s.astype(np.float16).astype(np.float32)),
            ({}, x),
        ):  # fmt: skip
            many.add("ScaleShift", [x], y.astype(np.float32), {"broadcast": 0}, blobs)
    many.check(backend, tmp_path)


def local(x: np.ndarray, size: int, axes: tuple[int, ...]) -> np.ndarray:
    """Sums of squares in windows of so many elements along each axis."""
    squares, half = x.astype(np.float64) ** 2, (size - 1) // 2
    for axis in axes:
        total = np.zeros_like(squares)
        for place in range(squares.shape[axis]):
            window = range(max(place - half, 0), min(place + half + 1, squares.shape[axis]))
            np.moveaxis(total, axis, 0)[place] = squares.take(list(window), axis).sum(axis)
        squares = total
    return squares


@pytest.mark.parametrize("backend", BACKENDS)
def test_norm(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for region, size, (alpha, beta, k) in itertools.product(
        ("across", "same"), (1, 3, 5, 7), ((1e-4, 0.75, 1), (1.0, 1.0, 1), (0.5, 0.5, 2))
    ):
        x = 4 * made(2, 9, 5, 6)
        axes = (1,) if region == "across" else (2, 3)
        y = x / (k + alpha / size ** len(axes) * local(x, size, axes)) ** beta
        attributes: dict[str, Any] = {"alpha": alpha, "beta": beta, "local-size": size}
        if k != 1:
            attributes["k"] = k
        if region == "same" or size == 3:
            attributes["region"] = region.upper() if size == 5 else region
        many.add("Norm" if k == 1 else "LRN", [x], y.astype(np.float32), attributes)
    x = made(2, 6, 3)
    y = x / (1 + 0.1 / 3 * local(x, 3, (1,))) ** 0.75
    old = {"alpha": 0.1, "beta": 0.75, "local_size": 3, "region": "across"}
    many.add("Norm", [x], y.astype(np.float32), old)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mean_variance(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for rank, across, variance, eps in itertools.product(
        (3, 4, 5), (0, 1), (None, 0, 1), (1e-9, 0.3)
    ):
        x = 2 * made(*SHAPE[:rank]) + 5
        wide, axes = x.astype(np.float64), tuple(range(1 if across else 2, rank))
        y = wide - wide.mean(axes, keepdims=True)
        if variance != 0:
            y = y / np.sqrt((y * y).mean(axes, keepdims=True) + eps)
        attributes: dict[str, Any] = {"across_channels": across, "eps": eps}
        if variance is not None:
            attributes["normalize_variance"] = variance
        many.add("MVN", [x], y.astype(np.float32), attributes)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_response(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for rank, bias in itertools.product((2, 3, 4, 5), (None, 0.0, 1.0, 1e-3)):
        x = made(*SHAPE[:rank])
        y = x / np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True) + (bias or 0))
        attributes = {} if bias is None else {"bias": bias}
        many.add("GRN", [x], y.astype(np.float32), attributes)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_normalize(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for rank, across, shared, eps in itertools.product((2, 3, 4), (0, 1), (0, 1), (1e-10, 0.5)):
        x = made(*SHAPE[:rank])
        x[0].reshape(5, -1)[:, :1] = 0  # nothing to normalise
        axes = tuple(range(1, rank)) if across else (1,)
        norm = np.sqrt((x.astype(np.float64) ** 2).sum(axes, keepdims=True)) + eps
        scale = made(1 if shared else 5, seed=3)
        y = spread(scale, rank) * x / norm
        attributes = {"across_spatial": across, "channel_shared": shared, "eps": f"{eps:.10f}"}
        many.add("Normalize", [x], y.astype(np.float32), attributes, {"weights": scale})
    x, same = made(2, 5, 3), np.full(5, 1.5, np.float32)
    norm = np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True))
    for blobs, factor in (({"weights": same}, 1.5), ({}, 1.0)):
        attributes = {"channel_shared": 1, "eps": 0}
        many.add("Normalize", [x], (factor * x / norm).astype(np.float32), attributes, blobs)
    many.check(backend, tmp_path)


def test_contradictions(tmp_path: Path) -> None:
    x, five, four = made(1, 5, 2, 2), made(5), made(4)
    shape = [x.shape]
    both = {"weights": np.abs(five), "biases": five}
    batch: dict[str, Any] = {"epsilon": 0.1}
    refuse(tmp_path, "BatchNormalization", [x], shape, {}, "has no epsilon", Missing, both)
    short = {**both, "weights": four}
    refuse(tmp_path, "BatchNormalization", [x], shape, batch, "4 numbers", blobs=short)
    refuse(tmp_path, "BatchNormalization", [x], shape, batch, "no weights", blobs={"biases": five})
    refuse(tmp_path, "BatchNormalization", [five], [five.shape], batch, "rank", blobs=both)
    refuse(tmp_path, "ScaleShift", [x], shape, {}, "5 channels", blobs={"weights": four})
    good = {"alpha": 1, "beta": 1, "local-size": 3, "region": "same"}
    for wrong, match in (
        ({"region": "over"}, "region"), ({"local-size": 0}, "local"), ({"alpha": "a"}, "alpha"),
    ):  # fmt: skip
        refuse(tmp_path, "Norm", [x], shape, {**good, **wrong}, match)
    refuse(tmp_path, "Norm", [x], shape, {"alpha": 1, "beta": 1}, "local-size", Missing)
    refuse(tmp_path, "Normalize", [x], shape, {}, "has no eps", Missing, {"weights": five})
    one = {"eps": 1, "channel_shared": 1}
    refuse(tmp_path, "Normalize", [x], shape, one, "not one number", blobs={"weights": five})
    refuse(tmp_path, "MVN", [five], [five.shape], {"eps": 1}, "rank")
