"""Einsum: sums of products in Einstein's notation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Slice, Transpose
from vknn.ops.reduction import ReduceSum

_ARROW, _TRACE = "->", "ii"
_RESULT, _LAST = "ijkl", "x"


@attributes
class EinsumParams(Params):
    """Parameters of Einsum: the equation as the codes of its characters."""

    equation: tuple[int, ...] = param(0, ())

    @property
    def text(self) -> str:
        """The equation as text."""
        return "".join(map(chr, self.equation))

    @property
    def terms(self) -> list[str]:
        """The letters of each input."""
        return self.text.split(_ARROW)[0].split(",")

    @property
    def result(self) -> str:
        """The letters of the result, none for a trace."""
        return "" if self.text == _TRACE else self.text.split(_ARROW)[1]

    def check(self) -> None:
        require(all(32 < code < 127 for code in self.equation), "the equation is no text")
        if self.text == _TRACE:
            return
        parts = self.text.split(_ARROW)
        require(len(parts) == 2, f"the equation {self.text!r} has no arrow, or several")
        good = parts[1] and _RESULT.startswith(parts[1])
        require(bool(good), f"the result of {self.text!r} should be i, ij, ijk or ijkl")
        for term in self.terms:
            good = 1 <= len(term) <= 4 and all("i" <= x <= _LAST for x in term)
            require(good, f"the term {term!r} of {self.text!r} should have letters of i to x")
        found = set("".join(self.terms))
        missing = [x for x in self.result if x not in found]
        require(not missing, f"no term of {self.text!r} has the letters {missing} of the result")


@dataclass(frozen=True)
class _Term:
    """A value and the letters of its axes (without the leading one), each of which occurs once."""

    value: Value
    letters: str

    def size(self, letters: str) -> int:
        """Product of the sizes of these axes."""
        return math.prod(self.value.type.dims[1 + self.letters.index(x)] for x in letters)


@layer("Einsum", params=EinsumParams, inputs=(1, None))
def einsum(c: Context[EinsumParams]) -> Value:
    """Sum of products of all inputs over the letters that the result lacks, computed from left to
    right, two inputs at a time.

    ncnn differs: letters are i to x, and the result has to be i, ij, ijk or ijkl.
    """
    p = c.params
    terms = [_term(c, x, letters) for x, letters in _pairs(c)]
    for at, term in enumerate(terms):
        elsewhere = {x for other in terms[at + 1 :] + terms[:at] for x in other.letters}
        terms[at] = _summed(c, term, elsewhere | set(p.result))
    product = terms[0]
    for at, term in enumerate(terms[1:], 2):
        kept = set(p.result).union(*(other.letters for other in terms[at:]))
        product = _product(c, product, term, kept)
    y = _ordered(c, product, p.result)
    return y if p.result else c.reshape(y, (1, 1))


def _pairs(c: Context[EinsumParams]) -> list[tuple[Value, str]]:
    """Inputs with their letters; checks that a letter has the same size everywhere."""
    terms = c.params.terms
    c.require(len(c.inputs) == len(terms), f"takes {len(terms)} inputs, not {len(c.inputs)}")
    sizes: dict[str, int] = {}
    for x, letters in zip(c.inputs, terms, strict=True):
        c.require(rank(x) == len(letters), f"{letters!r} cannot be of shape {list(shape(x))}")
        for letter, size in zip(letters, shape(x), strict=True):
            good = sizes.setdefault(letter, size) == size
            c.require(good, f"{letter!r} is {sizes[letter]} and {size} in {c.params.text!r}")
    return list(zip(c.inputs, terms, strict=True))


def _term(c: Context[EinsumParams], x: Value, letters: str) -> _Term:
    """A term of the equation, with diagonals for letters that occur twice."""
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            rest = [i for i in range(len(letters)) if i not in (first, second)]
            x = c.add(Transpose(perm=(0, *(i + 1 for i in (*rest, first, second)))), x)
            *outer, size, _ = x.type.dims
            x = c.reshape(x, (*outer, size * size))
            step = Slice(starts=(0,), ends=(size * size,), axes=(len(outer),), steps=(size + 1,))
            x = c.add(step, x)
            letters = "".join(letters[i] for i in rest) + letter
    return _Term(x, letters)


def _summed(c: Context[EinsumParams], term: _Term, kept: set[str]) -> _Term:
    """``term`` summed over the letters that are not ``kept``."""
    gone = tuple(i + 1 for i, letter in enumerate(term.letters) if letter not in kept)
    if not gone:
        return term
    letters = "".join(x for x in term.letters if x in kept)
    return _Term(c.add(ReduceSum(axes=gone, keepdims=False), term.value), letters)


def _product(c: Context[EinsumParams], a: _Term, b: _Term, kept: set[str]) -> _Term:
    """Product of two terms as a matrix product: letters of both are batches if ``kept``, otherwise
    summed over; letters of ``a`` alone are rows, those of ``b`` alone columns."""
    shared = [x for x in a.letters if x in b.letters]
    batch = "".join(x for x in shared if x in kept)
    summed = "".join(x for x in shared if x not in kept)
    rows = "".join(x for x in a.letters if x not in shared)
    columns = "".join(x for x in b.letters if x not in shared)
    left = _matrix(c, a, (batch, rows, summed))
    right = _matrix(c, b, (batch, columns, summed))
    y = c.add(MatMul(transpose_b=True), left, right)
    sizes = [*(a.size(x) for x in batch + rows), *(b.size(x) for x in columns)]
    return _Term(c.reshape(y, (1, *sizes)), batch + rows + columns)


def _matrix(c: Context[EinsumParams], term: _Term, parts: Sequence[str]) -> Value:
    """``term`` with an axis for the letters of each part."""
    y = _ordered(c, term, "".join(parts))
    return c.reshape(y, (1, *(term.size(part) for part in parts)))


def _ordered(c: Context[EinsumParams], term: _Term, letters: str) -> Value:
    if letters == term.letters:
        return term.value
    perm = (0, *(term.letters.index(x) + 1 for x in letters))
    return c.add(Transpose(perm=perm), term.value)
