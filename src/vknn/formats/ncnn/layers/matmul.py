"""Gemm: the general matrix product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.elementwise import scaled
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.problems import Unsupported
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value
from vknn.ops.elementwise import Add
from vknn.ops.matmul import MatMul
from vknn.ops.movement import Transpose

#: How C lies in the (M, N) result.
_NONE, _SCALAR, _PER_ROW, _COLUMN, _FULL, _PER_COLUMN = -1, 0, 1, 2, 3, 4


@dataclass(frozen=True)
class GemmParams(Params):
    """Parameters of Gemm; those that only hint at memory layouts are left out."""

    alpha: float = param(0, 1.0)
    beta: float = param(1, 1.0)
    transA: int = param(2)
    transB: int = param(3)
    constantA: int = param(4)
    constantB: int = param(5)
    constantC: int = param(6)
    constantM: int = param(7)
    constantN: int = param(8)
    constantK: int = param(9)
    constant_broadcast_type_C: int = param(10)
    output_N1M: int = param(11)
    output_transpose: int = param(14)
    quantize_term: int = param(18)

    def check(self) -> None:
        if self.quantize_term:
            raise Unsupported(f"quantized matrices (parameter 18 is {self.quantize_term})")
        m, n, k = self.constantM, self.constantN, self.constantK
        if self.constantA:
            require(m > 0 and k > 0, "a constant A needs constantM and constantK")
        if self.constantB:
            require(n > 0 and k > 0, "a constant B needs constantN and constantK")
        kind = self.constant_broadcast_type_C
        if self.constantC:
            require(_NONE <= kind <= _PER_COLUMN, f"unknown constant_broadcast_type_C {kind}")
            rows, columns = kind in (_PER_ROW, _COLUMN, _FULL), kind in (_FULL, _PER_COLUMN)
            require(m > 0 or not rows, "this constant C needs constantM")
            require(n > 0 or not columns, "this constant C needs constantN")


def _weights(p: GemmParams) -> list[WeightSpec]:
    m, n, k = p.constantM, p.constantN, p.constantK
    specs = []
    if p.constantA:
        specs.append(WeightSpec("A", (k, m) if p.transA else (m, k), tagged=True))
    if p.constantB:
        specs.append(WeightSpec("B", (n, k) if p.transB else (k, n), tagged=True))
    if p.constantC and p.constant_broadcast_type_C != _NONE:
        shapes = {
            _SCALAR: (1,),
            _PER_ROW: (m,),
            _COLUMN: (m, 1),
            _FULL: (m, n),
            _PER_COLUMN: (1, n),
        }
        specs.append(WeightSpec("C", shapes[p.constant_broadcast_type_C], tagged=True))
    return specs


@layer("Gemm", params=GemmParams, weights=_weights, bottoms=(0, 3))
def gemm(c: Context[GemmParams]) -> Value:
    """(op(A) op(B) + beta C) alpha; inputs stand in the order A, B, C without the constant ones."""
    p, given = c.params, list(c.inputs)
    a = _operand(c, "A", bool(p.constantA), given)
    b = _operand(c, "B", bool(p.constantB), given)
    m = a.type.dims[-1 if p.transA else -2]
    n = b.type.dims[-2 if p.transB else -1]
    bias, addend = _addend(c, given, m, n)
    op = MatMul(transpose_a=bool(p.transA), transpose_b=bool(p.transB))
    y = c.add(op, a, b, bias)
    if addend is not None:
        y = c.add(Add(), y, addend)
    y = scaled(c, y, p.alpha)
    rows, columns = m, n
    if p.output_transpose:
        y = c.add(Transpose(perm=(0, 2, 1)), y)
        rows, columns = n, m
    return c.reshape(y, (1, rows, 1, columns)) if p.output_N1M else y


def _operand(c: Context[GemmParams], name: str, constant: bool, given: list[Value]) -> Value:
    """A matrix as a value of rank 3, a constant B of rank 2. The rows of a 3-D blob are its c."""
    if constant:
        matrix = _float(c, name)
        return c.constant(matrix[None] if name == "A" else matrix, name)
    c.require(len(given) > 0, f"matrix {name} is neither constant nor an input")
    x = given.pop(0)
    sizes = shape(x)
    if rank(x) == 1:
        return c.reshape(x, (1, 1, *sizes))
    if rank(x) == 2:
        return x
    good = rank(x) == 3 and sizes[1] == 1
    c.require(good, f"a matrix cannot have the shape {list(sizes)}")
    return c.reshape(x, (1, sizes[0], sizes[2]))


def _float(c: Context[GemmParams], name: str) -> np.ndarray:
    array = c.weight(name)
    c.require(array.dtype != np.int8, f"matrix {name} is stored as int8")
    return array


def _addend(
    c: Context[GemmParams], given: list[Value], m: int, n: int
) -> tuple[Value | None, Value | None]:
    """beta * C as the product's bias vector, or as a value to add."""
    p = c.params
    if p.constantC:
        if p.constant_broadcast_type_C == _NONE:
            return None, None
        array = _float(c, "C") * np.float32(p.beta)
        kind = p.constant_broadcast_type_C
        if kind == _PER_COLUMN and array.size == n:
            return c.constant(array.reshape(n), "C"), None
        c.require(array.size == _count(kind, m, n), f"C has {array.size} values for {m} x {n}")
        return None, c.constant(array.reshape(_broadcast_shape(kind, m, n)), "C")
    if not given:
        return None, None
    lies = _runtime_kind(shape(given[0]), m, n)
    if lies is None:
        c.fail(f"C of shape {list(shape(given[0]))} does not suit {m} x {n}")
    value = c.reshape(given[0], _broadcast_shape(lies, m, n))
    return None, scaled(c, value, p.beta)


def _runtime_kind(sizes: tuple[int, ...], m: int, n: int) -> int | None:
    """The broadcast type of a C of this shape; the later reading wins where several fit."""
    if sizes == (1, n) or sizes == (n,):
        return _PER_COLUMN
    if sizes == (m, n):
        return _FULL
    if sizes == (m, 1):
        return _COLUMN
    if sizes == (m,):
        return _PER_ROW
    return _SCALAR if sizes == (1,) else None


def _broadcast_shape(kind: int, m: int, n: int) -> tuple[int, int, int]:
    return 1, m if kind in (_PER_ROW, _COLUMN, _FULL) else 1, n if kind >= _FULL else 1


def _count(kind: int, m: int, n: int) -> int:
    _, rows, columns = _broadcast_shape(kind, m, n)
    return rows * columns
