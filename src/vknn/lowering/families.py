"""Every family, imported so that its rules are registered."""

from vknn.lowering import (
    attention,
    channel_normalization,
    convolution,
    detection,
    elementwise,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
)

__all__ = [
    "attention",
    "channel_normalization",
    "convolution",
    "detection",
    "elementwise",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "resize",
]
