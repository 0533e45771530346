"""Passes: rewrites of graphs, in the order in which they run.

Each pass takes a graph and gives a new one that computes the same; none depends on another having
run. ``VKNN_DISABLE`` and the ``disabled`` argument switch them off by name.
"""

from __future__ import annotations

from collections.abc import Callable

from vknn.graph import Graph
from vknn.passes.activations import recognise_activations
from vknn.passes.batch_norm import fold_batch_norm
from vknn.passes.common_subexpressions import merge_common_subexpressions
from vknn.passes.constant_folding import fold_constants
from vknn.passes.dead_code import remove_dead_code
from vknn.passes.dilations import merge_dilations
from vknn.passes.fusion import fuse_elementwise
from vknn.passes.identities import remove_identities
from vknn.passes.integers import compute_on_integers
from vknn.passes.padding import fold_padding
from vknn.passes.quantized_shifts import fold_shifts
from vknn.passes.transposes import cancel_transposes

Pass = Callable[[Graph], Graph]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("dead-code", remove_dead_code),
    ("constant-folding", fold_constants),
    ("identities", remove_identities),
    ("common-subexpressions", merge_common_subexpressions),
    ("integers", compute_on_integers),
    ("activations", recognise_activations),
    ("transposes", cancel_transposes),
    ("dilations", merge_dilations),
    ("padding", fold_padding),
    ("batch-norm", fold_batch_norm),
    ("quantized-shifts", fold_shifts),
    ("fusion", fuse_elementwise),
)


def run_passes(graph: Graph, disabled: frozenset[str] = frozenset()) -> Graph:
    """``graph`` after every pass whose name is not in ``disabled``."""
    for name, rewrite in PASSES:
        if name not in disabled:
            graph = rewrite(graph)
    return graph


__all__ = ["PASSES", "Pass", "run_passes"]
