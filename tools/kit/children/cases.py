"""Convolutions and matrix products that are measured alone. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Conv:
    """A convolution of (channels, size, size) to ``filters``, padded to keep the size."""

    name: str
    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def flops(self) -> int:
        """Floating point operations, two a multiply-add."""
        out = -(-self.size // self.stride)
        taps = self.kernel * self.kernel * self.channels // self.groups
        return 2 * out * out * self.filters * taps


@dataclass(frozen=True)
class Product:
    """A product of (rows, inner) with constant weights (inner, columns)."""

    name: str
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Floating point operations, two a multiply-add."""
        return 2 * self.rows * self.inner * self.columns


CASES: tuple[Conv | Product, ...] = (
    Conv("7x7 stride 2 3-64 at 224", 3, 224, 64, 7, 2),
    Conv("3x3 64-64 at 56", 64, 56, 64, 3),
    Conv("3x3 128-128 at 28", 128, 28, 128, 3),
    Conv("3x3 256-256 at 14", 256, 14, 256, 3),
    Conv("3x3 512-512 at 7", 512, 7, 512, 3),
    Conv("3x3 64-64 at 224", 64, 224, 64, 3),
    Conv("1x1 64-256 at 56", 64, 56, 256, 1),
    Conv("1x1 512-512 at 14", 512, 14, 512, 1),
    Conv("1x1 960-160 at 7", 960, 7, 160, 1),
    Conv("depthwise 3x3 96 at 112", 96, 112, 96, 3, 1, 96),
    Conv("depthwise 5x5 672 at 14", 672, 14, 672, 5, 1, 672),
    Product("577x768x768", 577, 768, 768),
    Product("577x768x3072", 577, 768, 3072),
    Product("1x1280x1000", 1, 1280, 1000),
    Product("1024x1024x1024", 1024, 1024, 1024),
    Product("4096x4096x4096", 4096, 4096, 4096),
)
