"""Dead code: nodes that no output depends on are removed."""

from __future__ import annotations

from vknn.graph import Graph
from vknn.passes.rewriter import sweep


def remove_dead_code(graph: Graph) -> Graph:
    """Removal of nodes whose results nobody reads. The inputs of the graph stay."""
    return sweep(graph, lambda rewriter, node: None)
