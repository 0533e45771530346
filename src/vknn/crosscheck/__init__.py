"""The cross-check: every operator on the device, held against NumPy."""

from vknn.crosscheck.comparison import Comparison, compare
from vknn.crosscheck.report import Report, Row
from vknn.crosscheck.tolerance import UNIT, Allowance, allowances
from vknn.crosscheck.verify import verify

__all__ = [
    "UNIT",
    "Allowance",
    "Comparison",
    "Report",
    "Row",
    "allowances",
    "compare",
    "verify",
]
