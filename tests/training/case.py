"""What a case of the gradient tests is, and arrays for them, the same each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.graph import Op

#: Gets the torch module and the inputs as tensors.
Peer = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """``peer`` None: PyTorch has no such function."""

    name: str
    op: Op
    arrays: tuple[np.ndarray | None, ...]
    peer: Peer | None = None
    tolerance: float = 2e-5
    smooth: bool = field(default=True)

    @property
    def wanted(self) -> list[int]:
        """The inputs that have gradients."""
        return [i for i, a in enumerate(self.arrays) if a is not None and a.dtype == np.float32]


random = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    """Normal numbers."""
    return np.asarray(random.standard_normal(shape), np.float32)


def within(low: float, high: float, *shape: int) -> np.ndarray:
    """Numbers of an interval, evenly."""
    return np.asarray(random.uniform(low, high, shape), np.float32)


def apart(*shape: int) -> np.ndarray:
    """Numbers that differ by 0.05 at least, none of them near 0, in any order."""
    size = int(np.prod(shape))
    values = (np.arange(size) - size // 2 + 0.5) * 0.05
    return random.permutation(values).reshape(shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    """Indices."""
    return np.asarray(values, np.int32)
