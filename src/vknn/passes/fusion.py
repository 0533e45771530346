"""Fusion: chains of elementwise ops joined to the op that computes their input."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType, Fusion, Node, Op, TensorType, Value
from vknn.graph.graph import Graph
from vknn.ops.elementwise import Binary, Fused, FusedStep, Unary
from vknn.ops.elementwise.zeros import has_zero_factor
from vknn.ops.movement.shape import Reshape
from vknn.ops.quantized.arithmetic import QuantizedBinary
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.passes.patterns import scalar_constant, varying_axes
from vknn.passes.rewriter import Rewriter, merged, sweep

#: Steps that the kernels' epilogue has room for (shaders/common/epilogue.glsl).
MAX_STEPS = 6


def fuse_elementwise(graph: Graph) -> Graph:
    """Fusion of base, f, g... into Fused(base, f, g...) where nothing else reads what lies between.

    The second operand of a binary step is a number, a tensor of the shape of the result, or a
    vector along the base's channel axis. Of two possible bases the later one takes the steps, so
    that the other's result is ready when it runs. A quantized convolution takes the sum with
    another quantized tensor of its own type.
    """
    return sweep(graph, _fuse, (Unary, Binary, QuantizedBinary))


def unfuse(node: Node) -> list[Node]:
    """The nodes that a Fused node stands for: its base, then a node for each step."""
    op = node.op
    assert isinstance(op, Fused)
    own, extra = op.split(node.inputs)
    (type_,) = node.output_types
    names = [f"{node.name}.{i}" for i in range(len(op.steps))]
    results = [*(Value(name, type_) for name in names), node.outputs[0]]
    nodes = [Node(op.base, own, (results[0],), names[0], node.origin)] if op.steps else []
    for number, step in enumerate(op.steps):
        inputs: list[Value] = [results[number]]
        if step.scalar is not None:
            scalar = np.asarray(step.scalar, type_.dtype.numpy)
            inputs.append(Value(f"{names[number]}.scalar", TensorType.of(scalar), scalar))
        elif step.operand is not None:
            inputs.append(extra[step.operand])
        inputs = inputs[::-1] if step.reverse else inputs
        name = names[number + 1] if number + 1 < len(names) else node.name
        nodes.append(Node(step.op, tuple(inputs), (results[number + 1],), name, node.origin))
    return nodes or [Node(op.base, own, node.outputs, node.name, node.origin)]


def _fuse(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    if not isinstance(node.op, Unary | Binary | QuantizedBinary):
        return None
    of = _Tail.of_sum if isinstance(node.op, QuantizedBinary) else _Tail.of
    targets = [of(rewriter, node, index) for index in range(len(node.inputs))]
    found = [t for t in targets if t is not None]
    for target in sorted(found, key=lambda t: rewriter.position(t.base), reverse=True):
        results = target.extend(rewriter, node)
        if results is not None:
            return results
    return None


@dataclass(frozen=True)
class _Tail:
    """A base that may take ``node``, whose input ``index`` is its result, as one more step."""

    base: Node
    index: int

    @classmethod
    def of(cls, rewriter: Rewriter, node: Node, index: int) -> _Tail | None:
        base = rewriter.sole_producer(node.inputs[index])
        if base is None or not _takes_steps(base.op):
            return None
        type_ = base.outputs[0].type
        fits = type_.is_static and type_.dtype is DType.FLOAT32 and type_ == node.outputs[0].type
        steps = len(base.op.steps) if isinstance(base.op, Fused) else 0
        return cls(base, index) if fits and steps < MAX_STEPS else None

    @classmethod
    def of_sum(cls, rewriter: Rewriter, node: Node, index: int) -> _Tail | None:
        """As :meth:`of`, where the node is a sum of two quantized tensors."""
        assert isinstance(node.op, QuantizedBinary)
        base = rewriter.sole_producer(node.inputs[index])
        if base is None or not isinstance(base.op, QuantizedConv) or node.op.kind != "add":
            return None
        types = {base.outputs[0].type, *node.input_types, node.outputs[0].type}
        return cls(base, index) if len(types) == 1 and node.outputs[0].type.is_static else None

    def extend(self, rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
        """The node as a step of the base's epilogue; None where its other operand does not fit."""
        op, inputs = self.base.op, list(self.base.inputs)
        if isinstance(node.op, QuantizedBinary):
            added = Fused(op, (FusedStep(node.op, operand=0, reverse=self.index == 1),))
            origin = merged(self.base.origin, node.origin)
            return rewriter.emit(added, [*inputs, node.inputs[1 - self.index]], origin, node)
        assert isinstance(node.op, Unary | Binary)
        if has_zero_factor(
            node.op,
            scalar_constant(node.inputs[1 - self.index]) if isinstance(node.op, Binary) else None,
        ):
            return None
        base, steps = (op.base, op.steps) if isinstance(op, Fused) else (op, ())
        own = len(inputs) - (op.operand_count if isinstance(op, Fused) else 0)
        step = self._unary_or_scalar(node)
        if step is None:
            fusion = type(base).fusion
            value = node.inputs[1 - self.index]
            shape = _operand_shape(value, node.outputs[0].type, fusion) if fusion else None
            if value is None or shape is None or fusion is None:
                return None
            if value not in inputs[own:]:
                if len(inputs) - own >= fusion.operands:
                    return None
                value = _reshaped(rewriter, value, shape, node)
                inputs.append(value)
            number = inputs.index(value, own) - own
            step = FusedStep(node.op, operand=number, reverse=self.index == 1)
        origin = merged(self.base.origin, node.origin)
        return rewriter.emit(Fused(base, (*steps, step)), inputs, origin, node)

    def _unary_or_scalar(self, node: Node) -> FusedStep | None:
        if isinstance(node.op, Unary):
            return FusedStep(node.op)
        assert isinstance(node.op, Binary)
        number = scalar_constant(node.inputs[1 - self.index])
        if number is None or not math.isfinite(number):
            return None
        return FusedStep(node.op, reverse=self.index == 1, scalar=number)


def _operand_shape(
    value: Value | None, target: TensorType, fusion: Fusion
) -> tuple[int, ...] | None:
    """The shape in which kernels read the other input of a binary op; None where they cannot.

    That is the shape of the result, (1, C, 1, ...) for a vector along the channels, or (N,) for
    one along the last axis.
    """
    if value is None or not value.type.is_static:
        return None
    if value.type.size == target.size:
        return target.dims
    if fusion.channel_axis is None or target.rank < 2:
        return None
    axis = fusion.channel_axis % target.rank
    if varying_axes(value.type, target.rank) != (axis,):
        return None
    size = target.dims[axis]
    if fusion.channel_axis < 0:
        return (size,)
    return tuple(size if a == axis else 1 for a in range(target.rank))


def _takes_steps(op: Op) -> bool:
    return type(op.base if isinstance(op, Fused) else op).fusion is not None


def _reshaped(rewriter: Rewriter, value: Value, shape: tuple[int, ...], node: Node) -> Value:
    if value.type.shape == shape:
        return value
    if value.constant is not None:
        return rewriter.constant(value.constant.reshape(shape), value.name)
    return rewriter.emit(Reshape(shape), (value,), node.origin)[0]
