"""Simulation of storage in 16 bits with NumPy: layers whose tensors are rounded, and the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vknn import reference, run_limits
from vknn.crosscheck.storage import as_held, rounded
from vknn.graph import Graph, Node, Value


class Simulation:
    """A graph on one set of inputs: all values in float32, and what becomes of the outputs.

    A layer in 16 bits has its inputs, its weights and its results rounded; one in float32 reads
    what others made as they stored it. Arithmetic is that of the reference.
    """

    def __init__(self, graph: Graph, feeds: Mapping[str, np.ndarray], precision: str) -> None:
        self._graph, self._precision = graph, precision
        self.known: dict[Value, np.ndarray] = {v: feeds[v.name] for v in graph.inputs}

        def keep(node: Node, results: tuple[np.ndarray, ...]) -> None:
            self.known.update(zip(node.outputs, results, strict=True))

        reference.run(graph, feeds, observe=keep)
        self.known.update((v, v.constant) for v in graph.values() if v.constant is not None)

    def outputs(self, narrow: Callable[[Node], bool]) -> dict[str, np.ndarray]:
        """Outputs where some nodes are in 16 bits; only what these change is computed again."""
        changed: dict[Value, np.ndarray] = {}
        for node in self._graph.nodes:
            short = narrow(node)
            if not short and not any(value in changed for value in node.inputs):
                continue
            run_limits.check()
            results = self._computed(node, changed, short)
            for value, result in zip(node.outputs, results, strict=True):
                right = self.known[value]
                same = result.shape == right.shape
                if not (same and np.array_equal(result, right, equal_nan=right.dtype.kind == "f")):
                    changed[value] = result
        found = self._graph.outputs.items()
        return {name: changed.get(v, self.known[v]) for name, v in found}

    def own_error(self, node: Node) -> float:
        """Error of a node's results where it alone is in 16 bits, relative to their size."""
        errors = [0.0]
        for value, result in zip(node.outputs, self._computed(node, {}, True), strict=True):
            if result.dtype.kind == "f":
                errors.append(distance(result, self.known[value]))
        return max(errors)

    def _computed(
        self, node: Node, changed: Mapping[Value, np.ndarray], short: bool
    ) -> list[np.ndarray]:
        inputs = [None if v is None else changed.get(v, self.known[v]) for v in node.inputs]
        if short:
            inputs = as_held(node.op, inputs, self._precision)
        with np.errstate(all="ignore"):
            results = [np.asarray(r) for r in reference.run_node(node, tuple(inputs))]
        if not short:
            return results
        stored = [rounded(r, self._precision) for r in results]
        return [r for r in stored if r is not None]


def distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """Root of the mean square of the differences by that of what is right; infinite for NaN."""
    if actual.shape != expected.shape:
        return float("inf")
    with np.errstate(all="ignore"):
        a, b = actual.astype(np.float64), expected.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        wrong = np.where(same, 0.0, a - b)
        if not np.isfinite(wrong).all():
            return float("inf")
        size = np.sqrt(np.mean(np.square(np.where(np.isfinite(b), b, 0.0)))) if b.size else 0.0
        error = np.sqrt(np.mean(np.square(wrong))) if b.size else 0.0
    return float(error / size) if size else (float("inf") if error else 0.0)
