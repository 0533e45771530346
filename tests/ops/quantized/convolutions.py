"""Convolutions of quantized integers that several tests take."""

from __future__ import annotations

import numpy as np

from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.convolution import QuantizedConv


def operands(
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    channels: int,
    dtype: str = "int8",
    seed: int = 0,
    scale: float = 2e-4,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, w, bias, multipliers and shifts of random values."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, x_shape).astype(dtype)
    w = rng.integers(-127, 128, w_shape).astype(np.int8)
    bias = rng.integers(-5000, 5000, channels).astype(np.int32)
    q, shift = fp.quantize_multiplier(scale * rng.uniform(0.5, 8.0, channels))
    return x, w, bias, q, shift


def conv(**settings: object) -> QuantizedConv:
    geometry = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    return QuantizedConv(**{**geometry, **settings})  # type: ignore[arg-type]


GEOMETRIES = {
    "3x3": ({"pads": (1, 1, 1, 1)}, (2, 5, 7, 5), (11, 5, 3, 3)),
    "1x1": ({}, (1, 7, 5, 3), (6, 7, 1, 1)),
    "strided": ({"strides": (2, 3), "pads": (0, 1, 2, 1)}, (1, 3, 9, 11), (5, 3, 3, 2)),
    "dilated": ({"dilations": (2, 1), "pads": (2, 0, 2, 1)}, (1, 4, 7, 7), (4, 4, 3, 3)),
    "groups": ({"group": 2}, (1, 8, 5, 5), (8, 4, 2, 2)),
    "odd groups": ({"group": 3, "pads": (1, 1, 0, 0)}, (1, 9, 4, 5), (6, 3, 2, 3)),
    "depthwise": ({"group": 7, "pads": (1, 1, 1, 1)}, (2, 7, 6, 5), (7, 1, 3, 3)),
    "multiplied": ({"group": 3}, (1, 3, 5, 5), (6, 1, 3, 2)),
}
