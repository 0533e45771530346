"""Ops of a graph that have no kernel on a device that allows only what Vulkan 1.1 guarantees."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from vknn import reference
from vknn.graph import Graph, Node, TensorType, Value
from vknn.lowering import LoweringOptions, candidates
from vknn.partition import refine
from vknn.passes import run_passes
from vknn.passes.zero_factors import spell_out
from vknn.plan import DeviceLimits

_LIMITS, _OPTIONS = DeviceLimits(), LoweringOptions()


def has_kernel(node: Node) -> bool:
    """Whether kernels take a node, as it is or as the nodes that it is spelled out as."""
    return all(candidates(part, _LIMITS, _OPTIONS) for part in spell_out(node) or [node])


def evaluate(
    graph: Graph, feeds: Mapping[str, np.ndarray], hosted: set[str]
) -> dict[str, np.ndarray]:
    """The graph's outputs, computed with NumPy; ``hosted`` collects the ops without a kernel."""
    graph = run_passes(graph, frozenset({"fusion"}))
    continuation = graph.continuation
    known: dict[Value, np.ndarray] = {v: feeds[v.name] for v in graph.inputs}
    alone = Graph(graph.inputs, graph.outputs, graph.nodes, graph.name)
    outputs = reference.run(
        alone, feeds, observe=lambda n, r: known.update(zip(n.outputs, r, strict=True)), free=False
    )
    for node in graph.nodes:
        present = dict.fromkeys(v for v in node.inputs if v is not None and v.constant is None)
        types = {v: TensorType.of(known[v]) for v in present}
        (refined,) = refine([node], types, {}).nodes
        filled = any(known[v].size for v in node.outputs)  # else there is nothing to compute
        if filled and not has_kernel(refined):
            hosted.add(node.op.type_name)
    if continuation is not None:

        def call(
            key: Hashable, make: Callable[[], Graph], arrays: Mapping[str, np.ndarray]
        ) -> dict[str, np.ndarray]:
            return evaluate(make(), arrays, hosted)

        taken = {name: outputs.pop(name) for name in continuation.takes}
        outputs |= continuation.resume(taken, call)
    return outputs
