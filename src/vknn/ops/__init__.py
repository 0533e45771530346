"""The canonical ops, one module a family. Importing this makes every op known."""

from vknn.ops import (
    attention,
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
