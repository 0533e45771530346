"""Counters of random draws, which a session keeps from run to run.

Numbers are a function of a seed and of the number of the draw (:mod:`vknn.ops.random`). Draws with
a seed are counted from 0 in each session, so that the same session gives the same numbers; others
from a random number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from vknn.formats.onnx.records import NodeRecord
from vknn.graph import DType, TensorType

#: Names of both counters in the graph's scope, which no file can have.
SEEDED, UNSEEDED = "\0draws with a seed", "\0draws"
COUNTER_TYPE = TensorType((1,), DType.INT32)
_DRAWING = frozenset(
    (
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
        "Multinomial",
    )
)  # fmt: skip


def draws(nodes: Iterable[NodeRecord]) -> bool:
    """Whether one of the nodes draws random numbers."""
    return any(_draws(node) for node in nodes)


def _draws(node: NodeRecord) -> bool:
    domain, name = node.key[:2]
    if domain:
        return False
    trains = name == "Dropout" and len(node.inputs) > 2 and bool(node.inputs[2])
    return trains or name in _DRAWING


def first_counts() -> dict[str, int]:
    """The counters at the start of a session."""
    return {SEEDED: 0, UNSEEDED: int.from_bytes(os.urandom(4), "little") >> 2}
