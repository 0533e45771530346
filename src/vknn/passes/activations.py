"""Activations that a file spells out in several layers, recognised and made one op.

Swish: Ramachandran et al. 2017; HardSwish and its HardSigmoid: Howard et al. 2019 (MobileNetV3);
Mish: Misra 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.graph import Graph, Node, Op, Origin, Value
from vknn.ops.elementwise import (
    Add,
    Clip,
    Div,
    HardSigmoid,
    HardSwish,
    Mish,
    Mul,
    Sigmoid,
    Softplus,
    Swish,
    Tanh,
)
from vknn.passes.patterns import scalar_constant
from vknn.passes.rewriter import Rewriter, merged, sweep


@dataclass(frozen=True)
class _Match:
    """An activation of ``source`` and the layers that spelled it."""

    op: Op
    source: Value
    origins: tuple[Origin, ...]


def recognise_activations(graph: Graph) -> Graph:
    """x * sigmoid(x) is Swish, x * hard_sigmoid(x) HardSwish, x * tanh(softplus(x)) Mish, and
    clip(x + d, 0, c) / c is HardSigmoid."""
    return sweep(graph, _recognise, (Mul, Div))


def _recognise(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    match = _hard_sigmoid(rewriter, node) or _gated(rewriter, node)
    if match is None:
        return None
    origin = merged(*match.origins, node.origin)
    return rewriter.emit(match.op, (match.source,), origin, replacing=node)


def _gated(rewriter: Rewriter, node: Node) -> _Match | None:
    """x * gate(x), either way round."""
    if not isinstance(node.op, Mul):
        return None
    first, second = node.inputs
    for value, other in ((first, second), (second, first)):
        gate = rewriter.sole_producer(other)
        if value is None or gate is None:
            continue
        match gate.op:
            case Sigmoid() if gate.inputs[0] is value:
                return _Match(Swish(), value, (gate.origin,))
            case HardSigmoid(alpha=alpha, beta=beta) if gate.inputs[0] is value:
                return _Match(HardSwish(alpha, beta), value, (gate.origin,))
            case Tanh():
                inner = rewriter.sole_producer(gate.inputs[0])
                if inner and isinstance(inner.op, Softplus) and inner.inputs[0] is value:
                    return _Match(Mish(), value, (inner.origin, gate.origin))
    return None


def _hard_sigmoid(rewriter: Rewriter, node: Node) -> _Match | None:
    """clip(x + d, 0, c) / c, or times 1 / c."""
    if not isinstance(node.op, Div | Mul):
        return None
    factor = scalar_constant(node.inputs[1])
    clip = rewriter.sole_producer(node.inputs[0])
    if not factor or clip is None or not isinstance(clip.op, Clip) or clip.op.min != 0.0:
        return None
    limit = factor if isinstance(node.op, Div) else 1.0 / factor
    add = rewriter.sole_producer(clip.inputs[0])
    if abs(limit - clip.op.max) > 1e-6 * abs(limit) or not add or not isinstance(add.op, Add):
        return None
    shift, source = scalar_constant(add.inputs[1]), add.inputs[0]
    if shift is None or source is None or source.type != node.outputs[0].type:
        return None
    return _Match(HardSigmoid(1.0 / limit, shift / limit), source, (add.origin, clip.origin))
