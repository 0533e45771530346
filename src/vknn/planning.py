"""Planning: a graph becomes graphs that run together, and each of these on a device a plan. Pure.

Nothing here needs a device: limits stand for one, so that plans can be made for a device that is
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.chaining import chain_nodes
from vknn.graph import Graph, validate
from vknn.lowering import LoweringOptions, WeightCache, lower
from vknn.partition import Partition, partition
from vknn.passes import run_passes
from vknn.plan import DeviceLimits, Plan
from vknn.stacking import stack_products


@dataclass(frozen=True, eq=False)
class Outline:
    """A graph cut into segments, before any of these is lowered.

    ``limits``: of the device; None: all runs on the host.
    """

    parts: Partition
    limits: DeviceLimits | None
    options: LoweringOptions

    @property
    def segments(self) -> list[Graph]:
        """The graphs that run together, in order."""
        return self.parts.segments

    def is_on_device(self, segment: Graph) -> bool:
        """Whether a segment runs on the device."""
        return self.limits is not None and self.parts.placement[segment.nodes[0]] != "host"

    def lowered(self, segment: Graph, weights: WeightCache) -> Plan:
        """The plan of a segment on the device; ``weights`` keeps what is packed for it."""
        assert self.limits is not None
        own = {node: self.parts.candidates[node] for node in segment.nodes}
        return lower(segment, self.limits, self.options, weights, own)


def outlined(
    graph: Graph,
    limits: DeviceLimits | None,
    options: LoweringOptions,
    *,
    passes: bool = True,
    keep_values: bool = False,
) -> Outline:
    """The segments of a graph for a device of these limits; None: all run on the host.

    Args:
        graph: The graph.
        limits: The device's limits.
        options: For lowering; what it disables counts for passes, too.
        passes: False: the graph is neither checked nor rewritten.
        keep_values: Whether every value leaves its segment.
    """
    if passes:
        if options.layers is not None:
            options.layers.learn(node.origin.name for node in graph.nodes)
        validate(graph)
        graph = run_passes(graph, options.disabled)
        if limits is not None:
            graph = stack_products(graph, limits, options)
            graph = chain_nodes(graph, limits, options)
    parts = partition(graph, limits, options, keep_values=keep_values)
    return Outline(parts, limits, options)
