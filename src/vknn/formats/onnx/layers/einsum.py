"""Sums of products in Einstein's notation."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.einsum import Labelled, Labels, contracted
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value

_REST = "..."
#: Integers that are summed in others: the results keep their lowest bits.
_NARROW = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


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
