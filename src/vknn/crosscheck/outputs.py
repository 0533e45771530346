"""Outputs of runs held against the reference's, without a look at the operators between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vknn.crosscheck.comparison import compare
from vknn.crosscheck.cumulative import widened
from vknn.crosscheck.tolerance import Allowance
from vknn.precision import CUMULATIVE
from vknn.session import Session


def output_errors(
    session: Session,
    outputs: Mapping[str, Any],
    expected: Mapping[str, Any],
    share: float | None = None,
) -> list[tuple[str, float]]:
    """Largest error of each output of a run, as a multiple of what :func:`vknn.verify` allows.

    Args:
        session: What computed them; its precision decides what is allowed.
        outputs: As :meth:`vknn.Session.run` gives them.
        expected: The same by NumPy.
        share: What is allowed in place of that, relative to an output's largest element.

    Returns:
        Names and errors, infinite for another shape or dtype. Labels are left out: scores near to
        each other may change places. So are outputs whose shapes the values decide, where roundings
        to 16 bits do.
    """
    given = share is not None
    share = share or CUMULATIVE[session.precision, session.arithmetic]
    found = []
    for name, actual, right in _arrays(outputs, expected):
        if actual.shape != right.shape and (session.precision != "fp32" or given):
            continue
        exact = Allowance(np.abs(right), np.zeros(1))
        if actual.shape != right.shape or actual.dtype != right.dtype:
            found.append((name, math.inf))
            continue
        found.append((name, compare(actual, right, widened(exact, right, share)).excess))
    return found


def _arrays(
    outputs: Mapping[str, Any], expected: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Numbers of both sides by name."""
    for name, right in expected.items():
        actual = outputs[name]
        if isinstance(right, Mapping):
            labels = sorted(right, key=str)
            same = set(actual) == set(right)
            yield (
                name,
                np.array([actual[label] for label in labels] if same else []),
                np.array([right[label] for label in labels]),
            )
            continue
        for number, (a, b) in enumerate(_each(actual, right)):
            if b.dtype.kind in "fiub":
                yield (f"{name}[{number}]" if isinstance(right, list) else name), a, b


def _each(actual: Any, right: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if not isinstance(right, list):
        yield np.asarray(actual), np.asarray(right)
    elif len(actual) == len(right):
        yield from ((np.asarray(a), np.asarray(b)) for a, b in zip(actual, right, strict=True))
    else:
        yield np.zeros(len(actual)), np.zeros(len(right))
