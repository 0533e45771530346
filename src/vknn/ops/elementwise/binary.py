"""Binary elementwise operators, and Cast."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Fusion, Op, TensorType, attributes
from vknn.ops.common.blocks import in_blocks
from vknn.ops.common.checks import arguments, broadcast, require, require_float


class Binary(Op):
    """Two inputs of one dtype, broadcast by NumPy's rules.

    ``exact``: computed in the dtype of the inputs (one correctly rounded operation), integers
    allowed; otherwise floats are computed in float64 and rounded once. ``complexes``: complex64 is
    allowed, too.
    """

    fusion = Fusion(operands=1, channel_axis=1)
    exact: ClassVar[bool] = False
    integers: ClassVar[bool] = True
    complexes: ClassVar[bool] = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        name = type(self).__name__
        require(a.dtype is b.dtype, f"{name}: dtypes of {a} and {b} differ")
        if not self.integers:
            require_float(self, a)
        elif not (a.dtype.is_float or a.dtype.is_integer) and not (
            self.complexes and a.dtype is DType.COMPLEX64
        ):
            raise ShapeError(f"{name} wants numbers, not {a}")
        return (a.with_shape(broadcast(self, a.shape, b.shape)),)

    @in_blocks()
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = arguments(self, inputs, 2)
        dtype = a.dtype
        if not self.exact and dtype.kind == "f":
            a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            return (np.asarray(self.compute(a, b)).astype(dtype, copy=False),)

    @abstractmethod
    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The function of broadcastable arrays of one dtype."""


@attributes
class Add(Binary):
    """a + b; integers wrap around"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b


@attributes
class Sub(Binary):
    """a - b; integers wrap around"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a - b


@attributes
class Mul(Binary):
    """a * b; integers wrap around; complex numbers too, on the host"""

    exact = True
    complexes = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * b


@attributes
class Div(Binary):
    """a / b; integers towards zero, and 0 where b is 0"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind == "f":
            return a / b
        return (a - np.fmod(a, b)) // np.where(b == 0, 1, b) * (b != 0)


@attributes
class FloorDiv(Binary):
    """floor(a / b), the quotient rounded first; integers: 0 where b is 0"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.floor(a / b) if a.dtype.kind == "f" else np.floor_divide(a, b)


@attributes
class Max(Binary):
    """The larger of a and b; NaN where either is"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.maximum(a, b)


@attributes
class Min(Binary):
    """The smaller of a and b; NaN where either is"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.minimum(a, b)


@attributes
class Larger(Binary):
    """a where a > b, else b, which it also is where only a is NaN"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(a > b, a, b)


@attributes
class Smaller(Binary):
    """a where a < b, else b, which it also is where only a is NaN"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(a < b, a, b)


@attributes
class Pow(Binary):
    """a^b; NaN for a fractional power of a negative number; integers truncate"""

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind == "f":
            y = np.power(a, b)
            # NumPy takes one exponent 0.5 for all as a square root: NaN for -inf, and -0 for -0.
            root = (np.asarray(b) == 0.5) & (np.isneginf(a) | (a == 0))
            return np.where(root, np.abs(a), y) if np.any(root) else y
        if not np.any(b < 0):
            return np.power(a, b)
        positive = np.power(a, np.maximum(b, 0))
        inverse = np.trunc(np.nan_to_num(np.power(a.astype(np.float64), b), posinf=0.0, neginf=0.0))
        return np.where(b < 0, inverse.astype(a.dtype), positive)


@attributes
class Atan2(Binary):
    """The angle of the point (x=b, y=a), in (-pi, pi]"""

    integers = False

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.arctan2(a, b)


@attributes
class Fmod(Binary):
    """a - b * trunc(a / b) exactly, the sign of a (C's fmod); integers: 0 where b is 0"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.fmod(a, b)


@attributes
class Mod(Binary):
    """a - b * floor(a / b) exactly, the sign of b; integers: 0 where b is 0"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        rest = np.fmod(a, b)
        return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@attributes
class Remainder(Binary):
    """a - b * n exactly, n the whole number nearest to a / b, ties to even (C's remainder)"""

    integers = False

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # The remainder by 2|b| keeps the parity of the quotient, which decides the ties.
        divisor = np.abs(b)
        rest = np.fmod(np.abs(a), 2.0 * divisor)
        odd = np.where(rest < 1.5 * divisor, rest - divisor, rest - 2.0 * divisor)
        magnitude = np.where(rest <= 0.5 * divisor, rest, odd)
        return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a < 0, -magnitude, magnitude))


@attributes
class LogAddExp(Binary):
    """ln(e^a + e^b) without overflow"""

    integers = False

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.logaddexp(a, b)


@attributes
class PRelu(Binary):
    """x where x >= 0, else slope * x; inputs x, slope"""

    exact = True

    def compute(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(a >= 0, a, a * b)


@attributes
class Cast(Op):
    """x in another dtype.

    Floats become integers towards zero and saturate, NaN gives 0, or with ``nan_to_most`` the
    largest integer; integers wrap around when narrowed; bool is x != 0; of complex numbers only
    the real part becomes another type.
    """

    to: DType = DType.FLOAT32
    nan_to_most: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        strings = DType.STRING in (x.dtype, self.to)
        require(not strings or x.dtype is self.to, f"Cast: {x} cannot become {self.to.value}")
        return (x.with_dtype(self.to),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        with np.errstate(all="ignore"):
            x = x.real if x.dtype.kind == "c" and self.to.numpy.kind != "c" else x
            if x.dtype.kind != "f" or not self.to.is_integer:
                return (x.astype(self.to.numpy),)
            info = np.iinfo(self.to.numpy)
            nan = np.inf if self.nan_to_most else 0.0
            whole = np.trunc(np.where(np.isnan(x), nan, x.astype(np.float64)))
            # The largest int64 is no float64: the cast would overflow, so it is put in afterwards.
            low, high = whole <= float(info.min), whole >= float(info.max)
            y = np.where(low | high, 0.0, whole).astype(self.to.numpy)
            y[low], y[high] = info.min, info.max
            return (y,)
