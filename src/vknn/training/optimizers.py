"""Optimizers: steps of weights along their gradients, in float32 on the host."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np


class Optimizer(ABC):
    """Optimizer: keeps what it needs from step to step. Weights and gradients go by name."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    @abstractmethod
    def step(self, weights: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> None:
        """Change of the weights in place."""


class SGD(Optimizer):
    """v = momentum * v + g; w = w - learning_rate * v, v being g at the first step.

    Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", with
    the learning rate outside of v, as in torch.optim.SGD.
    """

    def __init__(self, learning_rate: float, momentum: float = 0.0) -> None:
        super().__init__(learning_rate)
        self.momentum = momentum
        self._velocity: dict[str, np.ndarray] = {}

    def step(self, weights: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> None:
        rate = np.float32(self.learning_rate)
        for name, gradient in gradients.items():
            moved = gradient
            if self.momentum:
                before = self._velocity.get(name, np.float32(0.0))
                moved = np.float32(self.momentum) * before + gradient
                self._velocity[name] = moved
            weights[name][...] -= rate * moved


class Adam(Optimizer):
    """Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.

    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; at step t
    w = w - learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
    """

    def __init__(
        self, learning_rate: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self._moments: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._steps = 0

    def step(self, weights: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> None:
        self._steps += 1
        # With a beta of 1 the moment stays 0, and so does its correction.
        first = (1.0 - self.beta1**self._steps) or 1.0
        second = (1.0 - self.beta2**self._steps) or 1.0
        rate, root = np.float32(self.learning_rate / first), np.float32(math.sqrt(second))
        for name, gradient in gradients.items():
            zero = np.zeros_like(gradient)
            mean, square = self._moments.get(name, (zero, zero))
            mean = _blend(self.beta1, mean, gradient)
            square = _blend(self.beta2, square, gradient * gradient)
            self._moments[name] = mean, square
            with np.errstate(all="ignore"):
                moved = mean / (np.sqrt(square) / root + np.float32(self.eps))
            weights[name][...] -= rate * moved


def _blend(share: float, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.asarray(np.float32(share) * old + np.float32(1.0 - share) * new, np.float32)
