"""Formulas of sweeps: arithmetic, and nothing else of Python."""

from __future__ import annotations

import pytest

from vknn.errors import VknnError
from vknn.kernel_lab.formula import evaluated

NAMES = {"total": 33, "LX": 8, "half": 0.5}


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("ceil(total / LX), 1, 1", [5, 1, 1]),
        ("total // LX, total % LX, -(-total // LX)", [4, 1, 5]),
        ("min(total, LX) + 1, max(1, 2, 3), floor(total * half)", [9, 3, 16]),
        ("(1, 2, 3)", [1, 2, 3]),
    ],
)
def test_arithmetic(formula: str, expected: list[int]) -> None:
    assert evaluated(formula, NAMES, 3, "groups") == expected


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("__import__('os').getcwd()", "is not arithmetic"),
        ("total.real", "is not arithmetic"),
        ("9 ** 9 ** 9", "is not arithmetic"),
        ("[1 for x in y]", "is not arithmetic"),
        ("True", "is not arithmetic"),
        ("'a' * 9", "is not arithmetic"),
        ("min(total, key=1)", "is not arithmetic"),
        ("open(1)", "is not arithmetic"),
        ("tiles", "'tiles' is not known; known: total, LX, half"),
        ("total / LX", "gives 4.125, which is no integer"),
        ("1 / 0", "division by zero"),
        ("min()", "min expected at least 1 argument"),
        ("9999999 * 9999999 * 9999999", "is too large"),
        ("1, 2", "is not arithmetic"),
        ("1 +", "is no formula"),
        ("\0", "is no formula"),
        ("(" * 450 + "1" + ")" * 450, "is no formula"),
        ("1 + " * 400 + "1", "over 1000 characters"),
        ("1e999", "is too large"),
    ],
)
def test_what_is_none(formula: str, message: str) -> None:
    with pytest.raises(VknnError, match=message):
        evaluated(formula, NAMES, 1, "push constant x")
