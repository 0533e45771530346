"""Matrix products, and sums of products in Einstein's notation."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.einsum import Labelled, Labels, contracted
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Transpose

_REST = "..."
#: Integers that are summed in others: the results keep their lowest bits.
_NARROW = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


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
    if beta == 0.0:
        bias = None
    elif bias is not None and beta != 1.0:
        bias = _scaled(c, bias, beta)
    if not kind.is_float:
        a, b = (
            c.add(Transpose((1, 0)), m) if t else m for m, t in zip((a, b), turned, strict=True)
        )
        found = _scaled(c, c.add(IntegerProduct(), a, b), alpha)
        return found if bias is None else c.add(ew.Add(), found, bias)
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


def _scaled(c: Context, value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    kind = value.type.dtype
    if not kind.is_float and factor != int(factor):
        c.refuse(f"the factor {factor} of {kind.value}")
    return c.add(ew.Mul(), value, c.scalar(factor, kind))


@operator("Einsum", 12, 28, inputs=(1, None))
def einsum(c: Context) -> Value:
    """Sums of products in Einstein's notation, of any number of operands"""
    equation = "".join(c.text("equation").split())
    sides = equation.split("->")
    texts = sides[0].split(",")
    values = [c.value(number) for number in range(len(c.inputs))]
    c.require(len(sides) <= 2, f"the equation {equation!r} has several arrows")
    same = len(texts) == len(values)
    c.require(same, f"the equation {equation!r} is of {len(texts)} operands, not {len(values)}")
    kind = values[0].type.dtype
    c.require(all(v.type.dtype is kind for v in values), "has operands of different types")
    if kind in _NARROW:
        values = [c.cast(value, DType.INT32) for value in values]
    labels = [_labels(c, text, v.type.rank) for text, v in zip(texts, values, strict=True)]
    result = _result(c, labels, sides[1] if len(sides) == 2 else None)
    return c.cast(contracted(c, _terms(c, values, labels), result), kind)


def _labels(c: Context, text: str, rank: int) -> Labels:
    """A label for each axis of an operand; axes of "..." are numbered from the last one on."""
    before, rest, after = text.partition(_REST)
    letters = before + after
    good = all(x.isascii() and x.isalpha() for x in letters)
    c.require(good, f"cannot read {text!r} in its equation")
    count = rank - len(letters)
    fits = count >= 0 if rest else count == 0
    c.require(fits, f"{text!r} does not suit an operand of rank {rank}")
    return (*before, *(f"{_REST}{n}" for n in range(count - 1, -1, -1)), *after)


def _result(c: Context, labels: Sequence[Labels], text: str | None) -> Labels:
    """Labels of the result; by default "..." and then the letters that stand once, A to z."""
    every = [label for term in labels for label in term]
    rest = sorted({x for x in every if x.startswith(_REST)}, key=lambda x: -int(x[len(_REST) :]))
    if text is None:
        once = sorted(x for x in set(every) if every.count(x) == 1 and not x.startswith(_REST))
        return (*rest, *once)
    before, dots, after = text.partition(_REST)
    found = (*before, *(rest if dots else ()), *after)
    good = len(set(found)) == len(found) and set(found) <= set(every)
    c.require(good, f"the result {text!r} has a label twice, or one that no operand has")
    return found


def _terms(c: Context, values: Sequence[Value], labels: Sequence[Labels]) -> list[Labelled]:
    """Operands without the axes of size 1 that go with larger ones, which need no copies."""
    sizes: dict[str, int] = {}
    for value, own in zip(values, labels, strict=True):
        for label, size in zip(own, value.type.dims, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            c.require(size in (1, known) or known == 1, f"{label!r} is {known} and {size}")
    terms = []
    for value, own in zip(values, labels, strict=True):
        dims = value.type.dims
        kept = [i for i, x in enumerate(own) if dims[i] == sizes[x]]
        terms.append(
            Labelled(c.reshape(value, [dims[i] for i in kept]), tuple(own[i] for i in kept))
        )
    return terms
