"""Gemm and MatMul, on floats, with int8 matrices, or with blockwise quantized weights."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.elementwise.arithmetic import scaled
from vknn.formats.ncnn.layers.quantized.block import BlockParams
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.elementwise import Add
from vknn.ops.matmul import MatMul, QuantizedMatMul
from vknn.ops.movement.shape import Transpose

#: constant_broadcast_type_C: the shape of C in the (M, N) result.
_NONE, _SCALAR, _PER_ROW, _COLUMN, _FULL, _PER_COLUMN = -1, 0, 1, 2, 3, 4
_TRANSPOSE = Transpose(perm=(0, 2, 1))


@attributes
class GemmParams(BlockParams):
    """Parameters of Gemm; those that are about memory layouts have no effect."""

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
    output_elempack: int = param(12)
    output_elemtype: int = param(13)
    output_transpose: int = param(14)
    constant_TILE_M: int = param(20)
    constant_TILE_N: int = param(21)
    constant_TILE_K: int = param(22)

    def check(self) -> None:
        if self.blocks is not None:
            form = (self.constantA, self.constantB, self.transB)
            require(form == (0, 1, 1), "B in blocks must be constant and transposed")
            kinds = (self.transA, self.output_N1M, self.output_elempack, self.output_transpose)
            good = self.blocks.rounds_inputs or not any(kinds)
            require(good, "with B in blocks of 4 or 6 bits all else must be plain")
            good = self.output_elemtype in (0, 1)
            require(good, f"output_elemtype {self.output_elemtype} with B in blocks")
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
    blocks, specs = p.blocks, []
    if p.constantA:
        specs.append(WeightSpec("A", (k, m) if p.transA else (m, k), tagged=True, int8=p.int8))
    if p.constantB and blocks is not None:
        specs.append(blocks.weight("B", n, k))
    elif p.constantB:
        specs.append(WeightSpec("B", (n, k) if p.transB else (k, n), tagged=True, int8=p.int8))
    if p.constantC and p.constant_broadcast_type_C != _NONE:
        shapes = {
            _SCALAR: (1,),
            _PER_ROW: (m,),
            _COLUMN: (m, 1),
            _FULL: (m, n),
            _PER_COLUMN: (1, n),
        }
        specs.append(WeightSpec("C", shapes[p.constant_broadcast_type_C], tagged=True))
    if blocks is not None:
        return [*specs, blocks.scales("B", n, k), *blocks.inputs("B", k)]
    if p.int8 and p.constantA:
        specs.append(WeightSpec("A_scale", (m,)))
    if p.int8 and p.constantB:
        specs.append(WeightSpec("B_scale", (1,)))
    return specs


@layer("Gemm", params=GemmParams, weights=_weights, inputs=(0, 3))
def gemm(c: Context[GemmParams]) -> Value:
    """Matrix product (op(A) op(B) + beta C) alpha; inputs are A, B, C without constant ones.

    ncnn differs: with a quantize_term it reads constant matrices of floats as int8; vknn refuses.
    ncnn differs: a B in blocks of 8 bits multiplies an A rounded to 8 bits in the same blocks.
    """
    p, given = c.params, list(c.inputs)
    a = _operand(c, "A", bool(p.constantA), given)
    b = _operand(c, "B", bool(p.constantB), given)
    m = a.type.dims[-1 if p.transA else -2]
    n = b.type.dims[-2 if p.transB else -1]
    bias, addend = _addend(c, given, m, n)
    c.require(not given, f"takes {len(c.inputs) - len(given)} inputs with these parameters")
    transposed = bool(p.transA), bool(p.transB)
    if p.blocks is not None:
        if p.transA:
            a, transposed = c.add(_TRANSPOSE, a), (False, True)
        a = p.blocks.rounded(c, a, "B")
    if p.int8:
        scales = (c.weight_value(f"{name}_scale") for name in "AB")
        y = c.add(QuantizedMatMul(*transposed), a, b, *scales)
        addend = bias if addend is None else addend
    else:
        y = c.add(MatMul(*transposed), a, b, bias)
    if addend is not None:
        y = c.add(Add(), y, addend)
    y = scaled(c, y, p.alpha)
    rows, columns = m, n
    if p.output_transpose:
        y = c.add(_TRANSPOSE, y)
        rows, columns = n, m
    return c.reshape(y, (1, rows, 1, columns)) if p.output_N1M else y


def _operand(c: Context[GemmParams], name: str, constant: bool, given: list[Value]) -> Value:
    """A matrix as a value of rank 3 (a constant B: 2). The rows of a 3-D blob are its channels."""
    if constant:
        matrix = _matrix(c, name)
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


def _matrix(c: Context[GemmParams], name: str) -> np.ndarray:
    """A constant matrix: int8 for an int8 product, else float32."""
    p, blocks = c.params, c.params.blocks
    if blocks is not None:
        return blocks.matrix(c, name, p.constantK)
    if not p.int8:
        return _float(c, name)
    array = c.weight(name)
    term = f"quantize_term (parameter 18) {p.quantize_term}"
    c.require(array.dtype == np.int8, f"matrix {name} must be stored as int8 with {term}")
    return array


def _float(c: Context[GemmParams], name: str) -> np.ndarray:
    array = c.weight(name)
    c.require(array.dtype != np.int8, f"matrix {name} is stored as int8 without a quantize_term")
    return array


def _addend(
    c: Context[GemmParams], given: list[Value], m: int, n: int
) -> tuple[Value | None, Value | None]:
    """beta * C as a bias vector of the product, or as a value to add to it."""
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
    addend = given.pop(0)
    lies = _runtime_kind(shape(addend), m, n)
    if lies is None:
        c.fail(f"C of shape {list(shape(addend))} does not suit {m} x {n}")
    value = c.reshape(addend, _broadcast_shape(lies, m, n))
    return None, scaled(c, value, p.beta)


def _runtime_kind(sizes: tuple[int, ...], m: int, n: int) -> int | None:
    """Broadcast type of a C of this shape; the last where several fit. None where none does."""
    if sizes == (1, n) or sizes == (n,):
        return _PER_COLUMN
    if sizes == (m, n):
        return _FULL
    if sizes == (m, 1):
        return _COLUMN
    if sizes == (m,):
        return _PER_ROW
    return _SCALAR if math.prod(sizes) == 1 else None


def _broadcast_shape(kind: int, m: int, n: int) -> tuple[int, int, int]:
    return 1, m if kind in (_PER_ROW, _COLUMN, _FULL) else 1, n if kind >= _FULL else 1


def _count(kind: int, m: int, n: int) -> int:
    _, rows, columns = _broadcast_shape(kind, m, n)
    return rows * columns


@attributes
class MatMulParams(Params):
    """Parameters of MatMul."""

    transB: int = param(0)


@layer("MatMul", params=MatMulParams, inputs=2)
def matmul(c: Context[MatMulParams]) -> Value:
    """Matrix product of NumPy's matmul: vectors are a row on the left, a column on the right."""
    a, b = c.inputs
    ranks = rank(a), rank(b)
    transposed = bool(c.params.transB)
    if ranks[0] == 1:
        a = c.reshape(a, (1, 1, *shape(a)))
    if ranks[1] == 1:
        b = c.reshape(b, (1, *shape(b), 1))
        transposed = False
    y = c.add(MatMul(transpose_b=transposed), a, b)
    dims = list(y.type.dims)
    if ranks[1] == 1:
        dims.pop()
    if ranks[0] == 1:
        dims.pop(-1 if ranks[1] == 1 else -2)
    return c.reshape(y, dims if len(dims) > 1 else (1, 1))
