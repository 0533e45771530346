"""Matrix products."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Transpose


@operator("MatMul", 1, 9, 13, inputs=2)
def matmul(c: Context) -> Value:
    """numpy.matmul: batches broadcast, a vector gets an axis for the time of the product"""
    return product(c, c.value(0), c.value(1))


def product(c: Context, a: Value, b: Value) -> Value:
    """numpy.matmul of two values of one dtype."""
    c.require(a.type.rank > 0 and b.type.rank > 0, f"takes no {a.type} and {b.type}")
    c.require(a.type.dtype is b.type.dtype, f"takes no {a.type} and {b.type}")
    row, column = a.type.rank == 1, b.type.rank == 1
    a = c.reshape(a, (1, *a.type.dims)) if row else a
    b = c.reshape(b, (*b.type.dims, 1)) if column else b
    op = MatMul() if a.type.dtype.is_float else IntegerProduct()
    found = c.add(op, a, b)
    dims = found.type.dims
    lead = dims[:-2]
    kept = (*lead, *([] if row else dims[-2:-1]), *([] if column else dims[-1:]))
    return c.reshape(found, kept)


@operator("Gemm", 1, 6, 7, 9, 11, 13, inputs=(2, 3))
def gemm(c: Context) -> Value:
    """alpha * a @ b + beta * c, a and b transposed where the file says so"""
    a, b, bias = c.value(0), c.value(1), c.optional(2)
    c.require(a.type.rank == b.type.rank == 2, f"takes matrices, not {a.type} and {b.type}")
    alpha, beta = c.float("alpha", 1.0), c.float("beta", 1.0)
    turned = c.flag("transA"), c.flag("transB")
    kind = a.type.dtype
    good = bias is None or bias.type.rank <= 2
    c.require(good, f"adds {bias and bias.type}, which does not broadcast to a matrix")
    if not kind.is_float:
        a, b = (
            c.add(Transpose((1, 0)), m) if t else m for m, t in zip((a, b), turned, strict=True)
        )
        found = c.add(IntegerProduct(), a, b)
        return _whole_sum(c, found, alpha, bias if beta else None, beta)
    if beta == 0.0:
        bias = None
    elif bias is not None and beta != 1.0:
        bias = _scaled(c, bias, beta)
    inside = bias if bias is not None and alpha == 1.0 and _is_row(bias) else None
    if inside is not None:
        width = b.type.dims[0 if turned[1] else 1]
        inside = c.reshape(inside, (inside.type.size,)) if inside.type.size == width else None
    found = c.add(MatMul(*turned), a, b, inside)
    found = _scaled(c, found, alpha)
    return found if bias is None or inside is not None else c.add(ew.Add(), found, bias)


def _is_row(value: Value) -> bool:
    dims = value.type.dims
    return len(dims) == 1 or (len(dims) == 2 and dims[0] == 1)


def _whole_sum(c: Context, a: Value, alpha: float, b: Value | None, beta: float) -> Value:
    """alpha * a + beta * b of integers; where a factor has a fraction, without the sum's."""
    kind = a.type.dtype
    if not (alpha.is_integer() and beta.is_integer()):
        a, b = c.cast(a, DType.FLOAT64), None if b is None else c.cast(b, DType.FLOAT64)
    found = _scaled(c, a, alpha)
    return c.cast(found if b is None else c.add(ew.Add(), found, _scaled(c, b, beta)), kind)


def _scaled(c: Context, value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    return c.add(ew.Mul(), value, c.scalar(factor, value.type.dtype))
