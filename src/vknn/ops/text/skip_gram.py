"""SkipGram on text, which lives on the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require

_SPACE = b" \t\n\v\f\r"
#: Bytes of an object beside its text.
_OBJECT = 64


@attributes
class SkipGram(Op):
    """Groups of ``ngram_size`` words of a text in its order, which skip at most ``max_skip_size``.

    The input is one string; words stand between white space. ``include_all_ngrams``: smaller groups
    too. Each group stands behind the larger ones that begin with it; words are joined by spaces.
    Gives strings [n]; n depends on data. As in TensorFlow Lite a word behind white space at the
    very beginning is lost, and a text with fewer words than ``ngram_size`` has no groups.
    """

    ngram_size: int
    max_skip_size: int = 0
    include_all_ngrams: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype is DType.STRING and x.size >= 1, f"SkipGram: takes a text, not {x}")
        require(1 <= self.ngram_size <= 64, f"SkipGram: groups of {self.ngram_size} words")
        return (TensorType((None,), DType.STRING),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        words = split_words(bytes(x.reshape(-1)[0]))
        groups: list[bytes] = []
        kept = run_limits.Growth()
        if len(words) >= self.ngram_size:
            for first in range(len(words)):
                for group in self._groups(words, [first]):
                    run_limits.check()
                    groups.append(b" ".join(words[i] for i in group))
                    kept.add(
                        len(groups[-1]) + _OBJECT,
                        lambda: f"SkipGram: {len(groups)} groups",
                    )
        result = np.empty(len(groups), object)
        result[:] = groups
        return (result,)

    def _groups(self, words: list[bytes], begun: list[int]) -> Iterator[list[int]]:
        """Groups that begin with these words, larger ones first."""
        if len(begun) < self.ngram_size:
            end = min(begun[-1] + self.max_skip_size + 2, len(words))
            for following in range(begun[-1] + 1, end):
                yield from self._groups(words, [*begun, following])
        if self.include_all_ngrams or len(begun) == self.ngram_size:
            yield begun


def split_words(text: bytes) -> list[bytes]:
    """The words of a text as TensorFlow Lite's kernel finds them: the first byte ends none."""
    words, start = [], 0
    for place in range(1, len(text)):
        if text[place] in _SPACE:
            if place > start and text[start] not in _SPACE:
                words.append(text[start:place])
            start = place + 1
    if len(text) > start:
        words.append(text[start:])
    return words
