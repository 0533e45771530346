"""Comparisons of profiles that were never measured."""

from __future__ import annotations

from vknn.profiling.comparison.result import ProfileComparison, Row


def row(name: str, before: float | None, after: float | None, word: str) -> Row:
    ratio = None if before is None or after is None else after / before
    kernels = (("a/b",), ("a/c",))
    return Row((name,), kernels, before, after, ratio, ratio, ratio, 0.001, word)


def comparison(*rows: Row, word: str = "slower") -> ProfileComparison:
    whole = Row((), ((), ()), 1e-3, 1.2e-3, 1.2, 1.1, 1.3, 0.001, word)
    parts = {"wall": (1e-3, 1.2e-3), "busy": (0.9e-3, 1.1e-3)}
    return ProfileComparison("net on a GPU", "net --x", "pairs", (12, 12), whole, rows, parts)
