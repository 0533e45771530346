"""Comparison of outputs with a bundle's example, within its tolerances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vknn.bundle.records import BundleExample, BundlePlan
from vknn.bundle.schema import Direction


@dataclass(frozen=True)
class Difference:
    """Distance of an output from the example's.

    Attributes:
        output: Its name.
        by: What computed it.
        max_abs: Largest difference.
        of_limit: Largest difference as a part of what is allowed there; above 1 it is too far.
        wrong: Elements that are too far.
        elements: All elements.
        worst: Index of the element that is furthest; None where there is none.
        note: What else is wrong; empty where nothing is.
    """

    output: str
    by: str
    max_abs: float
    of_limit: float
    wrong: int
    elements: int
    worst: tuple[int, ...] | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """All of it, for JSON; infinities are texts."""
        plain = {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in asdict(self).items()
        }
        return {**plain, "ok": self.ok}

    @property
    def ok(self) -> bool:
        """Whether it is within its tolerance."""
        return not self.wrong and not self.note


def unanswered(plan: BundlePlan) -> list[str]:
    """Names of the outputs for which a plan's example has no answer: nothing compares them."""
    answered = {id(example.port) for example in plan.examples}
    return [port.name for port in plan.outputs if id(port) not in answered]


def differences(
    examples: Sequence[BundleExample], outputs: Mapping[str, np.ndarray], by: str
) -> list[Difference]:
    """A row for each output of the example."""
    return [
        difference(example, outputs[example.port.name], by)
        for example in examples
        if example.port.direction is Direction.OUTPUT
    ]


def difference(example: BundleExample, got: np.ndarray, by: str) -> Difference:
    """Distance of an array from the example's."""
    name, expected = example.port.name, example.array
    if got.shape != expected.shape or got.dtype != expected.dtype:
        note = f"{got.dtype}{list(got.shape)} in place of {expected.dtype}{list(expected.shape)}"
        return Difference(name, by, np.inf, np.inf, expected.size, expected.size, None, note)
    with np.errstate(all="ignore"):
        b = expected.astype(np.float64)
        # Numbers that are no numbers, and infinite ones, have to be the same.
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        error = np.where(same, 0.0, _distance(got, expected))
        error = np.where(np.isfinite(error), error, np.inf)
        limit = example.absolute + example.relative * np.where(np.isfinite(b), np.abs(b), 0.0)
        limit = np.minimum(limit, np.finfo(np.float64).max)
        share = np.where(same, 0.0, error / limit)
    worst = int(share.argmax()) if share.size else None
    return Difference(
        name,
        by,
        float(error.max(initial=0.0)),
        float(share.max(initial=0.0)),
        int((share > 1).sum()),
        expected.size,
        None if worst is None else tuple(map(int, np.unravel_index(worst, expected.shape))),
    )


def _distance(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Differences as float64; of integers exact before they are rounded: above 2^53 two of them
    may be one float64."""
    if got.dtype.kind not in "iu":
        found: np.ndarray = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        return found
    larger, smaller = np.maximum(got, expected), np.minimum(got, expected)
    # Modulo 2^64, which the difference is below.
    return (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
