"""Sums of products in Einstein's notation, as graphs of matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from vknn.formats.layer_context import LayerContext
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Slice
from vknn.ops.reduction import ReduceSum

#: Names of axes; axes of the same label go in step.
Labels = tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """A tensor with a label for each of its axes."""

    value: Value
    labels: Labels

    def size(self, labels: Iterable[str]) -> int:
        """Product of the sizes of these axes."""
        return math.prod(self.value.type.dims[self.labels.index(x)] for x in labels)


def contracted(c: LayerContext, terms: Sequence[Labelled], result: Labels) -> Value:
    """Sum of the products of all terms over the labels that ``result`` lacks.

    ``result``: labels of the axes of what is returned, in order, each of which some term has.
    Labels that one term has twice stand for its diagonal. All axes of a label have one size.
    """
    left = [_diagonal(c, term) for term in terms]
    for at, term in enumerate(left):
        elsewhere = set(result).union(*(o.labels for i, o in enumerate(left) if i != at))
        left[at] = _summed(c, term, elsewhere)
    while len(left) > 1:
        i, j = _cheapest(left, result)
        first, second = left[i], left[j]
        rest = [term for k, term in enumerate(left) if k not in (i, j)]
        kept = set(result).union(*(term.labels for term in rest))
        if not rest and _swapped(first, second, result):
            first, second = second, first
        left = [_product(c, first, second, kept), *rest]
    return ordered(c, left[0], result)


def ordered(c: LayerContext, term: Labelled, labels: Sequence[str]) -> Value:
    """The value of a term with its axes in another order."""
    return c.transpose(term.value, [term.labels.index(x) for x in labels])


def _diagonal(c: LayerContext, term: Labelled) -> Labelled:
    """A term in which each label stands once."""
    x, labels = term.value, list(term.labels)
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [i for i in range(len(labels)) if i not in (first, second)]
            x = c.transpose(x, (*rest, first, second))
            *outer, size, _ = x.type.dims
            x = c.reshape(x, (*outer, size * size))
            x = c.add(Slice((0,), (size * size,), (len(outer),), (size + 1,)), x)
            labels = [*(labels[i] for i in rest), label]
    return Labelled(x, tuple(labels))


def _summed(c: LayerContext, term: Labelled, kept: set[str]) -> Labelled:
    """``term`` summed over the labels that are not ``kept``."""
    gone = tuple(i for i, label in enumerate(term.labels) if label not in kept)
    if not gone:
        return term
    labels = tuple(x for x in term.labels if x in kept)
    return Labelled(c.add(ReduceSum(axes=gone, keepdims=False), term.value), labels)


def _cheapest(terms: Sequence[Labelled], result: Labels) -> tuple[int, int]:
    """The two terms whose product is the smallest, of equal ones the first."""

    def cost(pair: tuple[int, int]) -> int:
        i, j = pair
        others = (term.labels for k, term in enumerate(terms) if k not in pair)
        kept = set(result).union(*others)
        sizes = dict(zip(terms[i].labels, terms[i].value.type.dims, strict=True))
        sizes |= dict(zip(terms[j].labels, terms[j].value.type.dims, strict=True))
        return math.prod(size for label, size in sizes.items() if label in kept)

    return min(combinations(range(len(terms)), 2), key=cost)


def _swapped(a: Labelled, b: Labelled, result: Labels) -> bool:
    """Whether the product of ``b`` and ``a`` has the axes in the order of the result."""
    both = [x for x in a.labels if x in b.labels and x in result]
    alone = [[x for x in t.labels if x not in o.labels] for t, o in ((b, a), (a, b))]
    return tuple(both + alone[0] + alone[1]) == result


def _product(c: LayerContext, a: Labelled, b: Labelled, kept: set[str]) -> Labelled:
    """Product of two terms: labels of both are batches if ``kept``, otherwise summed over; labels
    of ``a`` alone are rows, those of ``b`` alone columns."""
    shared = [x for x in a.labels if x in b.labels]
    batch = tuple(x for x in shared if x in kept)
    summed = tuple(x for x in shared if x not in kept)
    rows = tuple(x for x in a.labels if x not in shared)
    columns = tuple(x for x in b.labels if x not in shared)
    if summed:
        y = _matrix_product(c, a, b, batch, rows, columns, summed)
    else:
        left = _blocks(c, a, (batch, rows, ()))
        y = c.add(ew.Mul(), left, _blocks(c, b, (batch, (), columns)))
    sizes = [a.value.type.dims[a.labels.index(x)] for x in batch + rows]
    sizes += [b.value.type.dims[b.labels.index(x)] for x in columns]
    return Labelled(c.reshape(y, sizes), batch + rows + columns)


def _matrix_product(
    c: LayerContext,
    a: Labelled,
    b: Labelled,
    batch: Labels,
    rows: Labels,
    columns: Labels,
    summed: Labels,
) -> Value:
    # Where the axes stand already as a product may have them, they are not moved.
    turned_a = a.labels == batch + summed + rows and a.labels != batch + rows + summed
    turned_b = b.labels != batch + summed + columns
    left = _blocks(c, a, (batch, summed, rows) if turned_a else (batch, rows, summed))
    right = _blocks(c, b, (batch, columns, summed) if turned_b else (batch, summed, columns))
    if left.type.dtype.is_float:
        return c.add(MatMul(turned_a, turned_b), left, right)
    left = c.transpose(left, (0, 2, 1)) if turned_a else left
    right = c.transpose(right, (0, 2, 1)) if turned_b else right
    return c.add(IntegerProduct(), left, right)


def _blocks(c: LayerContext, term: Labelled, parts: Sequence[Labels]) -> Value:
    """``term`` with one axis for the labels of each part."""
    y = ordered(c, term, [label for part in parts for label in part])
    return c.reshape(y, [term.size(part) for part in parts])
