"""Unary elementwise operators: mathematical functions, and the base class."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Fusion, Op, TensorType, attributes
from vknn.ops.common.blocks import in_blocks
from vknn.ops.common.checks import arguments, require_float
from vknn.ops.elementwise.special import erf


class Unary(Op):
    """One input, one output of the same type.

    Functions are computed in float64 and rounded once; an op with ``exact`` needs no more than its
    own dtype and takes integers too.
    """

    fusion = Fusion(operands=2, channel_axis=1)
    exact: ClassVar[bool] = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        if not self.exact:
            require_float(self, x)
        elif not (x.dtype.is_float or x.dtype.is_integer):
            raise ShapeError(f"{type(self).__name__} wants numbers, not {x}")
        return (x,)

    @in_blocks()
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            y = self.compute(x if self.exact else x.astype(np.float64))
            return (np.asarray(y).astype(x.dtype, copy=False),)

    @abstractmethod
    def compute(self, x: np.ndarray) -> np.ndarray:
        """The function, in float64 or (``exact``) in the dtype of the input."""


@attributes
class Abs(Unary):
    """|x|"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.abs(x)


@attributes
class Neg(Unary):
    """-x"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.negative(x)


@attributes
class Sign(Unary):
    """-1, 0 or 1; NaN stays NaN"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.sign(x)


@attributes
class Square(Unary):
    """x * x"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x * x


@attributes
class Floor(Unary):
    """The largest whole number not above x"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.floor(x)


@attributes
class Ceil(Unary):
    """The smallest whole number not below x"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.ceil(x)


@attributes
class Round(Unary):
    """The nearest whole number, halves to even"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.rint(x)


@attributes
class Trunc(Unary):
    """x without its fraction"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.trunc(x)


@attributes
class Sqrt(Unary):
    """sqrt(x); NaN below 0"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(x)


@attributes
class Rsqrt(Unary):
    """1 / sqrt(x)"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return 1.0 / np.sqrt(x)


@attributes
class Reciprocal(Unary):
    """1 / x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return 1.0 / x


@attributes
class Exp(Unary):
    """e^x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.exp(x)


@attributes
class Expm1(Unary):
    """e^x - 1, precise near 0"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.expm1(x)


@attributes
class Log(Unary):
    """ln x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.log(x)


@attributes
class Log10(Unary):
    """log10 x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.log10(x)


@attributes
class Log1p(Unary):
    """ln(1 + x), precise near 0"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.log1p(x)


@attributes
class Sin(Unary):
    """sin x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.sin(x)


@attributes
class Cos(Unary):
    """cos x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.cos(x)


@attributes
class Tan(Unary):
    """tan x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.tan(x)


@attributes
class Asin(Unary):
    """arcsin x; NaN outside [-1, 1]"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.arcsin(x)


@attributes
class Acos(Unary):
    """arccos x; NaN outside [-1, 1]"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.arccos(x)


@attributes
class Atan(Unary):
    """arctan x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.arctan(x)


@attributes
class Sinh(Unary):
    """sinh x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.sinh(x)


@attributes
class Cosh(Unary):
    """cosh x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.cosh(x)


@attributes
class Tanh(Unary):
    """tanh x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.tanh(x)


@attributes
class Asinh(Unary):
    """arsinh x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.arcsinh(x)


@attributes
class Acosh(Unary):
    """arcosh x; NaN below 1"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.arccosh(x)


@attributes
class Atanh(Unary):
    """artanh x; NaN outside [-1, 1]"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.arctanh(x)


@attributes
class Erf(Unary):
    """The error function, 2/sqrt(pi) * integral of exp(-t^2) from 0 to x"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return erf(x)
