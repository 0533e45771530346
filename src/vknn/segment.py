"""Segment: nodes of a program that run together, as one plan on the device or on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vknn import reference
from vknn.graph import Graph
from vknn.plan import Plan
from vknn.runtime import Executable


@dataclass(eq=False)
class Segment:
    """A graph of nodes that run together. ``plan`` and ``executable`` are None on the host.

    Its inputs are known by the names of their values, its outputs by those of ``graph.outputs``.
    """

    graph: Graph
    plan: Plan | None = None
    executable: Executable | None = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results by output name, for arrays by input name."""
        if self.executable is not None:
            return self.executable.run(feeds)
        return reference.run(self.graph, feeds)

    def close(self) -> None:
        """Release of the device objects; may be called twice."""
        if self.executable is not None:
            self.executable.close()
            self.executable = None
