"""Activations: unary elementwise operators."""

from __future__ import annotations

import math

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import attributes
from vknn.ops.elementwise.special import erf
from vknn.ops.elementwise.unary import Unary


@attributes
class Relu(Unary):
    """max(x, 0)"""

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, x.dtype.type(0))


@attributes
class LeakyRelu(Unary):
    """x where x >= 0, else alpha * x"""

    alpha: float = 0.01

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.where(x >= 0, x, self.alpha * x)


@attributes
class Elu(Unary):
    """x where x > 0, else alpha * (e^x - 1)"""

    alpha: float = 1.0

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x, self.alpha * np.expm1(x))


@attributes
class Selu(Unary):
    """gamma * (x where x > 0, else alpha * (e^x - 1))"""

    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805

    def compute(self, x: np.ndarray) -> np.ndarray:
        return self.gamma * np.where(x > 0, x, self.alpha * np.expm1(x))


@attributes
class Celu(Unary):
    """max(x, 0) + min(0, alpha * (e^(x/alpha) - 1))"""

    alpha: float = 1.0

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x, self.alpha * np.expm1(x / self.alpha))


@attributes
class Sigmoid(Unary):
    """1 / (1 + e^-x)"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return sigmoid(x)


@attributes
class HardSigmoid(Unary):
    """clip(alpha * x + beta, 0, 1)"""

    alpha: float = 1.0 / 6.0
    beta: float = 0.5

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.clip(self.alpha * x + self.beta, 0.0, 1.0)


@attributes
class HardSwish(Unary):
    """x * clip(alpha * x + beta, 0, 1)"""

    alpha: float = 1.0 / 6.0
    beta: float = 0.5

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x * np.clip(self.alpha * x + self.beta, 0.0, 1.0)


@attributes
class Softplus(Unary):
    """ln(1 + e^x)"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return softplus(x)


@attributes
class Softsign(Unary):
    """x / (1 + |x|)"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x / (1.0 + np.abs(x))


@attributes
class Swish(Unary):
    """x / (1 + e^-x), also called SiLU"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x * sigmoid(x)


@attributes
class Mish(Unary):
    """x * tanh(ln(1 + e^x))"""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x * np.tanh(softplus(x))


@attributes
class Gelu(Unary):
    """x/2 * (1 + erf(x/sqrt 2)), or x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))

    ``approximate``: "none" for the first, "tanh" for the second formula.
    """

    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise ShapeError(f"Gelu: approximate is {self.approximate!r}, not 'none' or 'tanh'")

    def compute(self, x: np.ndarray) -> np.ndarray:
        if self.approximate == "none":
            return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


@attributes
class Clip(Unary):
    """min(max(x, min), max); the bounds are rounded to the element type"""

    min: float = -math.inf
    max: float = math.inf

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        low, high = self.min, self.max
        if x.dtype.kind != "f":
            info = np.iinfo(x.dtype)
            low, high = (int(np.clip(v, info.min, info.max)) for v in (low, high))
        return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


@attributes
class Threshold(Unary):
    """1 where x > threshold, else 0"""

    threshold: float = 0.0

    exact = True

    def compute(self, x: np.ndarray) -> np.ndarray:
        # Compared in the element type, as a device does.
        bound = x.dtype.type(self.threshold) if x.dtype.kind == "f" else self.threshold
        return (x > bound).astype(x.dtype)


@attributes
class Shrink(Unary):
    """x - bias where x > lambd, x + bias where x < -lambd, else 0"""

    bias: float = 0.0
    lambd: float = 0.5

    def compute(self, x: np.ndarray) -> np.ndarray:
        y = np.where(x > self.lambd, x - self.bias, 0.0 * x)
        return np.where(x < -self.lambd, x + self.bias, y)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x); an overflowing exponential gives 0, as it should."""
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    """ln(1 + e^x) without overflow."""
    return np.logaddexp(x, 0.0)
