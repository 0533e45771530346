"""Lists for stacked runs, and what is noted of the runs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import pytest
from tests.small_model import SHAPE

from vknn.batching import Stacker

#: Inputs that are enough to be measured in tests.
FEW = 14


def array(seed: int, size: int = SHAPE[1]) -> np.ndarray:
    """An input of the small model."""
    return np.random.default_rng(seed).standard_normal((3, size, 8), np.float32)


class Noted:
    """Sizes of the packs of stacked streams."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def taken(self) -> list[int]:
        """Those since the last call."""
        sizes, self.sizes = self.sizes, []
        return sizes


def noted_runs(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Note of what stacked streams compute from now on."""
    noted, stream = Noted(), Stacker.stream

    def watched(self: Stacker, packs: Any, in_flight: int = 2) -> Generator[Any, None, None]:
        def each() -> Iterator[Any]:
            for pack in packs:
                noted.sizes.append(len(pack))
                yield pack

        yield from stream(self, each(), in_flight)

    monkeypatch.setattr(Stacker, "stream", watched)
    return noted
