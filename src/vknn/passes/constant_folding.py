"""Constant folding: nodes that depend on constants alone are computed beforehand."""

from __future__ import annotations

from vknn.errors import RunCancelledError, RunTimeoutError
from vknn.graph import Graph, Node, TensorType, Value
from vknn.passes.rewriter import Rewriter, sweep

#: A result may be this many times as large as what it is made from...
GROWTH = 4
#: ...or this many bytes: an Expand of a scalar had better run on the device.
SMALL = 1 << 16


def fold_constants(graph: Graph) -> Graph:
    """Folding of deterministic nodes of constant inputs into results that are not large."""
    return sweep(graph, _fold)


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if any(v is not None and v.constant is None for v in node.inputs):
        return None
    if not node.op.deterministic or not _bounded(node):
        return None
    arrays = [v.constant if v is not None else None for v in node.inputs]
    try:
        results = node.op.computed(arrays, sum(t.size for t in _static(node)))
    except (RunTimeoutError, RunCancelledError):
        raise
    except Exception:
        return None  # The run will say what is wrong, in the user's words.
    if sum(r.nbytes for r in results) > _limit(node):
        return None
    return tuple(rewriter.constant(r, v.name) for r, v in zip(results, node.outputs, strict=True))


def _bounded(node: Node) -> bool:
    """False where the result is known to be too large before it is computed."""
    return sum(t.size * t.dtype.itemsize for t in _static(node)) <= _limit(node)


def _static(node: Node) -> list[TensorType]:
    return [v.type for v in node.outputs if v.type.is_static]


def _limit(node: Node) -> int:
    given = sum(v.constant.nbytes for v in node.inputs if v is not None and v.constant is not None)
    return max(SMALL, GROWTH * given)
