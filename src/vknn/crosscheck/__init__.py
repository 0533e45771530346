"""The cross-check: every operator on the device, held against NumPy."""

from vknn.crosscheck.comparison import ArrayComparison, compare
from vknn.crosscheck.outputs import output_errors
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.row import VerifyRow
from vknn.crosscheck.tolerance import UNIT, Allowance, allowances
from vknn.crosscheck.verify import verify

__all__ = [
    "UNIT",
    "Allowance",
    "ArrayComparison",
    "VerifyReport",
    "VerifyRow",
    "allowances",
    "compare",
    "output_errors",
    "verify",
]
