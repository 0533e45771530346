"""Segment: nodes of a program that run together, as one plan on the device or on the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn import reference
from vknn.graph import Graph
from vknn.plan import Plan
from vknn.runtime import DeviceArray, Executable, on_host


@dataclass(eq=False)
class Segment:
    """A graph of nodes that run together. ``plan`` and ``executable`` are None on the host.

    Its inputs are known by the names of their values, its outputs by those of ``graph.outputs``.
    """

    graph: Graph
    plan: Plan | None = None
    executable: Executable | None = None

    def run(
        self, feeds: Mapping[str, np.ndarray | DeviceArray], kept: Collection[str] = ()
    ) -> dict[str, Any]:
        """Results by output name, for arrays by input name, which may lie on the device.

        ``kept``: names of results that stay on the device, where the segment runs there.
        """
        if self.executable is not None:
            return self.executable.run(feeds, kept)
        reason = "a part of the network that the host computes reads it"
        return reference.run(self.graph, {n: on_host(n, a, reason) for n, a in feeds.items()})

    def close(self) -> None:
        """Release of the device objects; may be called twice."""
        if self.executable is not None:
            self.executable.close()
            self.executable = None
