"""Constant folding: nodes that depend on constants alone are computed beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.errors import RunCancelledError, RunTimeoutError
from vknn.graph import Graph, Node, TensorType, Value
from vknn.passes.rewriter import Rewriter, sweep

#: A result may be this many times as large as what it is made from...
GROWTH = 4
#: ...or this many bytes: an Expand of a scalar had better run on the device.
SMALL = 1 << 16
#: What no device computes (int64, float64, ...) would be a step of each run on the host. It is
#: folded as long as all results of a graph that are large have no more bytes than these.
OF_THE_HOST = 1 << 27


def fold_constants(graph: Graph) -> Graph:
    """Folding of deterministic nodes of constant inputs into results that are not large.

    Masks and places that exporters make of sizes are large; they are integers of 64 bits.
    """
    room = _Room(OF_THE_HOST)
    return sweep(graph, lambda rewriter, node: _fold(rewriter, node, room))


@dataclass
class _Room:
    """Bytes that large results may still have."""

    left: int


def _fold(rewriter: Rewriter, node: Node, room: _Room) -> tuple[Value, ...] | None:
    if any(v is not None and v.constant is None for v in node.inputs):
        return None
    limit = _limit(node)
    most = max(limit, room.left) if _is_of_the_host(node) else limit
    if not node.op.deterministic or not _bounded(node, most):
        return None
    arrays = [v.constant if v is not None else None for v in node.inputs]
    try:
        results = node.op.computed(arrays, sum(t.size for t in _static(node)))
    except (RunTimeoutError, RunCancelledError):
        raise
    except Exception:
        return None  # The run will say what is wrong, in the user's words.
    nbytes = sum(r.nbytes for r in results)
    if nbytes > most:
        return None
    if nbytes > limit:
        room.left -= nbytes
    return tuple(rewriter.constant(r, v.name) for r, v in zip(results, node.outputs, strict=True))


def _is_of_the_host(node: Node) -> bool:
    """Whether no device can compute a node, for the element types of its tensors."""
    values = (*node.inputs, *node.outputs)
    return not all(v is None or v.type.dtype.on_device for v in values)


def _bounded(node: Node, most: int) -> bool:
    """False where the result is known to have more than ``most`` bytes before it is computed."""
    return sum(t.size * t.dtype.itemsize for t in _static(node)) <= most


def _static(node: Node) -> list[TensorType]:
    return [v.type for v in node.outputs if v.type.is_static]


def _limit(node: Node) -> int:
    given = sum(v.constant.nbytes for v in node.inputs if v is not None and v.constant is not None)
    return max(SMALL, GROWTH * given)
