"""TfIdfVectorizer: counts of n-grams of integers or strings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require

MODES = ("TF", "IDF", "TFIDF")
_TAKES = (DType.INT32, DType.INT64, DType.STRING)


@attributes
class TfIdfVectorizer(Op):
    """Counts of each known n-gram in a row: x [C] or [N, C] -> float32 [K] or [N, K].

    ``pool``: n-grams of integers or of bytes, from those of one item on; ``begins[n - 1]``: where
    those of n items begin. ``columns``: the column of each n-gram in the result. Of n-grams with
    ``least`` to ``most`` items those count whose items stand 1 to ``skips`` + 1 places apart, all
    of them equally. ``mode``: "TF": the count; "IDF": ``weights`` where there is any; "TFIDF":
    the count times the weight. ``weights``: an n-gram's, in the pool's order; none: all are 1.
    """

    pool: tuple[int | bytes, ...]
    begins: tuple[int, ...]
    columns: tuple[int, ...]
    least: int
    most: int
    skips: int
    mode: str = "TF"
    weights: tuple[float, ...] = ()

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        name = self.type_name
        require(x.dtype in _TAKES and x.rank in (1, 2), f"{name}: takes rows of items, not {x}")
        require(self.mode in MODES, f"{name}: no mode {self.mode!r}")
        good = 1 <= self.least <= self.most and self.skips >= 0
        require(good, f"{name}: n-grams of {self.least} to {self.most}, {self.skips} skipped")
        self._check_pool()
        return (TensorType((*x.shape[:-1], self.width), DType.FLOAT32),)

    def _check_pool(self) -> None:
        require(bool(self.begins), "TfIdfVectorizer: it has no ngram_counts")
        ends = (*self.begins[1:], len(self.pool))
        grams = 0
        for items, (begin, end) in enumerate(zip(self.begins, ends, strict=True), 1):
            whole = 0 <= begin <= end and (end - begin) % items == 0
            require(whole, f"TfIdfVectorizer: {begin}..{end} are no n-grams of {items} items")
            grams += (end - begin) // items
        right = grams == len(self.columns) and min(self.columns, default=0) >= 0
        require(right, f"TfIdfVectorizer: {len(self.columns)} columns for {grams} n-grams")
        right = len(self.weights) in (0, len(self.columns))
        require(right, f"TfIdfVectorizer: {len(self.weights)} weights for {grams} n-grams")
        known = self.most <= len(self.begins)
        require(known, f"TfIdfVectorizer: no n-grams of {self.most} items in the pool")

    @property
    def width(self) -> int:
        """Columns of the result."""
        return max(self.columns, default=-1) + 1

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        known = self._grams()
        rows = x if x.ndim == 2 else x[None]
        counts = np.zeros((len(rows), self.width), np.int64)
        for row, count in zip(rows, counts, strict=True):
            run_limits.check()
            self._count(row.tolist(), known, count)
        found = counts.astype(np.float32)
        if self.mode != "TF":
            factors = np.ones(self.width, np.float32)
            factors[list(self.columns)[: len(self.weights)]] = self.weights
            found = (
                np.where(counts > 0, factors, np.float32(0))
                if self.mode == "IDF"
                else (found * factors)
            )
        return (found.astype(np.float32).reshape(*x.shape[:-1], self.width),)

    def _count(
        self, row: Sequence[int | bytes], known: dict[tuple[int | bytes, ...], int],
        count: np.ndarray,
    ) -> None:  # fmt: skip
        for items in range(self.least, min(self.most, len(row)) + 1):
            steps = (len(row) - 1) // (items - 1) if items > 1 else 1
            for step in range(1, min(self.skips + 1, steps) + 1):
                reach = (items - 1) * step
                for first in range(len(row) - reach):
                    run_limits.check()
                    column = known.get(tuple(row[first : first + reach + 1 : step]))
                    if column is not None:
                        count[column] += 1

    def _grams(self) -> dict[tuple[int | bytes, ...], int]:
        """The column of each n-gram."""
        found: dict[tuple[int | bytes, ...], int] = {}
        ends, number = (*self.begins[1:], len(self.pool)), 0
        for items, (begin, end) in enumerate(zip(self.begins, ends, strict=True), 1):
            for at in range(begin, end, items):
                if self.least <= items <= self.most:
                    found[self.pool[at : at + items]] = self.columns[number]
                number += 1
        return found
