"""Einsum: sums of products in Einstein's notation."""

from __future__ import annotations

from vknn.formats.einsum import Labelled, contracted
from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes

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


@layer("Einsum", params=EinsumParams, inputs=(1, None))
def einsum(c: Context[EinsumParams]) -> Value:
    """Sum of products of all inputs over the letters that the result lacks, two at a time.

    ncnn differs: letters are i to x, and the result has to be i, ij, ijk or ijkl.
    """
    # The leading axis, which no letter stands for, is kept throughout.
    terms = [Labelled(x, ("", *letters)) for x, letters in _pairs(c)]
    y = contracted(c, terms, ("", *c.params.result))
    return y if c.params.result else c.reshape(y, (1, 1))


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
