"""Zeros among the numbers of elementwise operators that kernels have as constants.

Compilers of drivers know them. Mesa's takes 0 * x to be 0 whatever x is, so that no NaN and no
infinity comes through, and makes any bits of x / 0. Where such a zero is an input, in memory, they
cannot know it.
"""

from __future__ import annotations

from vknn.graph import Op
from vknn.ops.elementwise.activation import Celu, HardSigmoid, HardSwish, LeakyRelu, Selu
from vknn.ops.elementwise.binary import Add, Binary, Larger, Max, Min, Smaller, Sub

#: Operator -> the attribute that multiplies (or divides) what it computes of its input.
_FACTORS: dict[type[Op], str] = {
    LeakyRelu: "alpha",
    Selu: "gamma",
    Celu: "alpha",
    HardSigmoid: "alpha",
    HardSwish: "alpha",
}
#: Operators that do the same with a constant 0 as with any other number.
_PLAIN = (Add, Sub, Max, Min, Larger, Smaller)


def has_zero_factor(op: Op, scalar: float | None = None) -> bool:
    """Whether a compiler that knows the numbers of an operator may hide what its input is.

    ``scalar``: the other operand of a binary operator, where it is a constant.
    """
    if isinstance(op, Binary):
        return scalar == 0 and not isinstance(op, _PLAIN)
    name = _FACTORS.get(type(op))
    return name is not None and getattr(op, name) == 0
