"""Scope of a rule of differentiation: adds nodes for one node of the graph, in its layer's name."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, GraphBuilder, Node, Op, Origin, TensorType, Value
from vknn.ops.elementwise import Add, Cast, Div, Mul, Neg, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Expand, Reshape, Slice, Transpose
from vknn.ops.reduction import ReduceSum

Number = int | float
AnyOp = TypeVar("AnyOp", bound=Op)


class Scope:
    """Writer of nodes on behalf of ``node``. ``wanted``: values whose gradient is asked for.

    Arithmetic takes values or numbers, broadcasts, and gives values.
    """

    def __init__(
        self, builder: GraphBuilder, node: Node, wanted: Collection[Value], suffix: str = ""
    ) -> None:
        self.node = node
        self._builder, self._wanted = builder, wanted
        self._origin = Origin(node.origin.name, node.origin.type)
        self._name = f"{node.name}{suffix}"

    def op(self, kind: type[AnyOp]) -> AnyOp:
        """The node's op, which is of this class."""
        assert isinstance(self.node.op, kind)
        return self.node.op

    def x(self, index: int = 0) -> Value:
        """The node's input; raises ShapeError where it is absent."""
        value = self.node.inputs[index]
        if value is None:
            raise ShapeError(f"{self.node.op.type_name}: input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """The node's input, or None where it is absent."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    @property
    def y(self) -> Value:
        """The node's first output."""
        return self.node.outputs[0]

    def wants(self, index: int) -> bool:
        """True where the gradient of this input is asked for."""
        value = self.optional(index)
        return value is not None and value in self._wanted

    def add_many(self, op: Op, *inputs: Value | None) -> tuple[Value, ...]:
        """Addition of a node; gives all its outputs."""
        return self._builder.add_many(op, *inputs, origin=self._origin, name=self._name)

    def add(self, op: Op, *inputs: Value | None) -> Value:
        """Addition of a node of one output; gives it."""
        return self._builder.add(op, *inputs, origin=self._origin, name=self._name)

    def constant(self, array: np.ndarray) -> Value:
        """A constant."""
        return self._builder.constant(array, f"{self._name} constant")

    def scalar(self, number: Number, dtype: DType = DType.FLOAT32) -> Value:
        """A constant of rank 0."""
        return self.constant(np.asarray(number, dtype.numpy))

    def zeros(self, type_: TensorType) -> Value:
        """A constant of zeros."""
        return self.constant(np.zeros(type_.dims, type_.dtype.numpy))

    # --- arithmetic -------------------------------------------------------------------------------

    def plus(self, a: Value, b: Value | Number) -> Value:
        """a + b"""
        return a if _is(b, 0) else self.add(Add(), a, self._operand(b, a))

    def minus(self, a: Value, b: Value | Number) -> Value:
        """a - b"""
        return self.add(Sub(), a, self._operand(b, a))

    def times(self, a: Value, b: Value | Number) -> Value:
        """a * b"""
        if _is(b, -1):
            return self.add(Neg(), a)
        return a if _is(b, 1) else self.add(Mul(), a, self._operand(b, a))

    def over(self, a: Value | Number, b: Value) -> Value:
        """a / b"""
        return self.add(Div(), self._operand(a, b), b)

    def complement(self, a: Value) -> Value:
        """1 - a"""
        return self.add(Sub(), self.scalar(1, a.type.dtype), a)

    def unary(self, op: Op, a: Value) -> Value:
        """An elementwise op of one input."""
        return self.add(op, a)

    def cast(self, a: Value, dtype: DType) -> Value:
        """``a`` in another dtype."""
        return a if a.type.dtype is dtype else self.add(Cast(dtype), a)

    def matmul(self, a: Value, b: Value, ta: bool = False, tb: bool = False) -> Value:
        """The product of two matrices, or of stacks of them."""
        return self.add(MatMul(ta, tb), a, b)

    # --- shapes -----------------------------------------------------------------------------------

    def reshape(self, a: Value, *shape: int) -> Value:
        """``a`` with another shape."""
        return a if a.type.dims == tuple(shape) else self.add(Reshape(tuple(shape)), a)

    def transpose(self, a: Value, *perm: int) -> Value:
        """``a`` with its axes in another order."""
        return a if list(perm) == list(range(len(perm))) else self.add(Transpose(tuple(perm)), a)

    def cut(self, a: Value, axis: int, start: int, end: int) -> Value:
        """``a`` from ``start`` to ``end`` along ``axis``."""
        if (start, end) == (0, a.type.dims[axis]):
            return a
        return self.add(Slice((start,), (end,), (axis,)), a)

    def sum(self, a: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
        """The sum along ``axes``."""
        if not axes:
            return a
        if all(a.type.dims[axis] == 1 for axis in axes):
            dims = enumerate(a.type.dims)
            kept = a.type.dims if keepdims else [d for i, d in dims if i not in axes]
            return self.reshape(a, *kept)
        return self.add(ReduceSum(tuple(axes), keepdims), a)

    def expand(self, a: Value, shape: Sequence[int]) -> Value:
        """``a`` broadcast to ``shape``."""
        return a if a.type.dims == tuple(shape) else self.add(Expand(tuple(shape)), a)

    def fitted(self, dy: Value, type_: TensorType) -> Value:
        """The gradient of a tensor of ``type_`` that was broadcast to the shape of ``dy``."""
        own, full = type_.dims, dy.type.dims
        extra = len(full) - len(own)
        repeated = [i for i, d in enumerate(own, start=extra) if d == 1 and full[i] != 1]
        return self.reshape(self.sum(dy, [*range(extra), *repeated]), *own)

    def along(self, a: Value, axis: int, matrix: np.ndarray) -> Value:
        """The lines of ``a`` along ``axis`` multiplied by ``matrix`` [new, old]."""
        dims = a.type.dims
        before, after = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
        flat = self.reshape(a, before, dims[axis], after)
        product = self.matmul(self.constant(matrix.astype(np.float32)), flat)
        return self.reshape(product, *dims[:axis], len(matrix), *dims[axis + 1 :])

    def _operand(self, b: Value | Number, like: Value) -> Value:
        return b if isinstance(b, Value) else self.scalar(b, like.type.dtype)


def _is(b: Value | Number, number: Number) -> bool:
    return not isinstance(b, Value) and b == number
