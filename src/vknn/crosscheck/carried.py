"""Errors that a network carries on: what the operators' own errors come to behind one another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vknn import reference
from vknn.errors import VknnError
from vknn.graph import Graph, Node, Value

#: Of what is carried on, so much may be seen: an error of an operator depends on its inputs.
ROOM = 4.0

Arrays = Mapping[Value, np.ndarray]


def carried_errors(
    graph: Graph, known: Arrays, alone: Mapping[Node, list[np.ndarray]]
) -> dict[Value, float]:
    """The largest error of each result, where each operator errs as it does by itself.

    ``known`` has the reference's values, ``alone`` the device's results of operators that are
    right by themselves. The reference is run once more, with each operator's own error added to its
    results: so a network that makes much of a small error is told from an operator that is handed
    wrong inputs. What cannot be computed so (shapes that depend on data) is left out.
    """
    arrays = {v: known[v] for v in graph.inputs}
    errors: dict[Value, float] = {}
    for node in graph.nodes:
        inputs = [None if v is None else _input(v, arrays) for v in node.inputs]
        if any(v is not None and x is None for v, x in zip(node.inputs, inputs, strict=True)):
            continue
        try:
            results = reference.run_node(node, tuple(inputs))
        except VknnError:
            continue
        for index, (value, result) in enumerate(zip(node.outputs, results, strict=True)):
            right = known[value]
            if result.shape != right.shape:
                continue
            own = alone[node][index] if node in alone else None
            arrays[value] = _moved(result, right, own)
            errors[value] = _largest(arrays[value], right)
    return errors


def _input(value: Value, arrays: Arrays) -> np.ndarray | None:
    return arrays.get(value) if value.constant is None else value.constant


def _moved(result: np.ndarray, right: np.ndarray, own: np.ndarray | None) -> np.ndarray:
    """A result with the operator's own error, where both are numbers."""
    if own is None or own.shape != right.shape or result.dtype.kind != "f":
        return result
    with np.errstate(all="ignore"):
        error = own.astype(np.float64) - right
        return (result + np.where(np.isfinite(error), error, 0.0)).astype(result.dtype)


def _largest(result: np.ndarray, right: np.ndarray) -> float:
    if result.dtype.kind not in "fiu":
        return 0.0
    with np.errstate(all="ignore"):
        error = np.abs(result.astype(np.float64) - right)
    return float(np.max(error, initial=0.0, where=np.isfinite(error)))
