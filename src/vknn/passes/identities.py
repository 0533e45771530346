"""Identities: ops that change nothing are removed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vknn.graph import DType, Graph, Node, Op, Value
from vknn.ops.elementwise import Add, Cast, Clip, Div, Mul, Pow, Sub
from vknn.ops.movement.shape import (
    ChannelShuffle,
    Concat,
    Expand,
    Identity,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from vknn.ops.sampling.resize import Resize
from vknn.passes.patterns import scalar_constant
from vknn.passes.rewriter import Rewriter, sweep

_FLOATS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)


def remove_identities(graph: Graph) -> Graph:
    """Replacement of a no-op's result (Identity, Reshape to the same shape, x * 1, a
    cast to a wider type and back) by its input.
    """
    return sweep(graph, _remove, tuple(_TESTS))


def _remove(rewriter: Rewriter, node: Node) -> tuple[Value] | None:
    test = _TESTS.get(type(node.op))
    source = node.inputs[0] if node.inputs else None
    if isinstance(node.op, Cast):
        source = _before_a_wider_type(rewriter, node) or source
    if source is None or test is None or source.type != node.outputs[0].type:
        return None
    return (source,) if source.type.is_static and test(node.op, node) else None


def _before_a_wider_type(rewriter: Rewriter, node: Node) -> Value | None:
    """The value that was cast to a type that holds all its numbers, for this node to cast back."""
    before = rewriter.producer(node.inputs[0])
    if before is None or not isinstance(before.op, Cast) or before.inputs[0] is None:
        return None
    narrow, wide = before.inputs[0].type.dtype, before.outputs[0].type.dtype
    alike = (narrow.is_integer and wide.is_integer) or (narrow in _FLOATS and wide in _FLOATS)
    held = alike and np.can_cast(narrow.numpy, wide.numpy, "safe")
    return before.inputs[0] if held and narrow is node.outputs[0].type.dtype else None


def _always(op: Any, node: Node) -> bool:
    # The types of input and output are equal, which is all that these ops can change.
    return True


def _in_order(op: Any, node: Node) -> bool:
    return all(a == i for i, a in enumerate(op.perm))


def _steps_forward(op: Any, node: Node) -> bool:
    return op.steps is None or all(s > 0 for s in op.steps)


def _pads_nothing(op: Any, node: Node) -> bool:
    return not any(op.pads)


def _alone(op: Any, node: Node) -> bool:
    return len(node.inputs) == 1


def _unit_steps(op: Any, node: Node) -> bool:
    sizes = node.outputs[0].type.dims[2:]
    return all(op.step(axis, size) == 1.0 for axis, size in enumerate(sizes))


def _one_group(op: Any, node: Node) -> bool:
    return bool(op.group == 1)


def _unbounded(op: Any, node: Node) -> bool:
    return bool(op.min == -math.inf and op.max == math.inf)


def _by(neutral: float) -> Callable[[Any, Node], bool]:
    return lambda op, node: scalar_constant(node.inputs[1]) == neutral


_TESTS: dict[type[Op], Callable[[Any, Node], bool]] = {
    Identity: _always,
    Reshape: _always,
    Expand: _always,
    Cast: _always,
    Transpose: _in_order,
    Slice: _steps_forward,
    Pad: _pads_nothing,
    Concat: _alone,
    Resize: _unit_steps,
    ChannelShuffle: _one_group,
    Clip: _unbounded,
    Add: _by(0.0),
    Sub: _by(0.0),
    Mul: _by(1.0),
    Div: _by(1.0),
    Pow: _by(1.0),
}
