"""Rules of differentiation, by family of ops; importing the package registers them."""

from vknn.training.rules import (
    activations,
    binary,
    convolution,
    lookup,
    matmul,
    movement,
    normalization,
    pooling,
    reduction,
    unary,
)

__all__ = [
    "activations",
    "binary",
    "convolution",
    "lookup",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "reduction",
    "unary",
]
