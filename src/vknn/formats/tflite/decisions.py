"""Decisions of control flow at run time: which subgraph runs, and with what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.tflite.records import OperatorRecord, SubgraphRecord


def next_inputs(
    body: SubgraphRecord, state: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Inputs of a loop's body for the next iteration.

    TensorFlow Lite copies the outputs to the inputs one after the other. An output that is itself
    an input of the body is read after the copies before it, so that a body that swaps two inputs
    gives both the same array.
    """
    held = dict(zip(body.inputs, state, strict=True))
    for source, target, result in zip(body.outputs, body.inputs, results, strict=True):
        held[target] = held.get(source, result)
    return [held[index] for index in body.inputs]


def branch_of(operator: OperatorRecord, condition: np.ndarray) -> int:
    """Number of the subgraph that an IF or a CASE runs for this condition. Raises ShapeError."""
    if operator.code == "STABLEHLO_CASE":
        if condition.size != 1 or condition.dtype != np.int32:
            kind = f"{condition.size} numbers of {condition.dtype}, not one of int32"
            raise ShapeError(f"operator {operator.index} ({operator.code}) chooses by {kind}")
        branches, chosen = operator.options["branch_subgraph_indices"], int(condition.reshape(()))
        return int(branches[chosen] if 0 <= chosen < len(branches) else branches[-1])
    decided = decision_of(operator, condition)
    return int(operator.options["then_subgraph_index" if decided else "else_subgraph_index"])


def decision_of(operator: OperatorRecord, condition: np.ndarray) -> bool:
    """The one bool that an IF or a WHILE decides by. Raises ShapeError."""
    if condition.size != 1 or condition.dtype != bool:
        kind = f"{condition.size} conditions of {condition.dtype}, not one of bool"
        raise ShapeError(f"operator {operator.index} ({operator.code}) has {kind}")
    return bool(condition.reshape(-1)[0])
