"""Settings of a training: the model's own, and which of them a call may change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import InputError
from vknn.training.optimizers import SGD, Adam, Optimizer

OPTIMIZERS = ("sgd", "adam")


@dataclass(frozen=True)
class Setting:
    """A number (or, with ``truth``, a bool) and its default; None: the model gives none.

    ``low``, ``high``: the range that the model allows; ``allowed``: the only values that it allows.
    ``least`` and ``most`` bound what makes sense at all.
    """

    name: str
    default: float | None = None
    low: float | None = None
    high: float | None = None
    allowed: tuple[int, ...] = ()
    whole: bool = False
    truth: bool = False
    least: float | None = None
    most: float | None = None

    def choose(self, given: object) -> Any:
        """``given``, or the default where that is None. Raises InputError for what is not allowed.

        None, where neither says anything.
        """
        value = self.default if given is None else given
        if value is None:
            return None
        if self.truth:
            return bool(value)
        number = self._number(value)
        if self.allowed and number not in self.allowed:
            listed = ", ".join(map(str, self.allowed))
            self._refuse(value, f"the model allows {listed}")
        if self.low is not None and self.high is not None and not self.low <= number <= self.high:
            self._refuse(value, f"the model allows {self.low:g} to {self.high:g}")
        if self.least is not None and number < self.least:
            self._refuse(value, f"it must be at least {self.least:g}")
        if self.most is not None and number > self.most:
            self._refuse(value, f"it must be at most {self.most:g}")
        return number

    def _number(self, value: object) -> int | float:
        fits = isinstance(value, int | float | np.integer | np.floating)
        if isinstance(value, bool) or not fits or not math.isfinite(float(value)):  # type: ignore[arg-type]
            self._refuse(value, "it must be a number")
        number = float(value)  # type: ignore[arg-type]
        if not self.whole:
            return number
        if number != int(number):
            self._refuse(value, "it must be a whole number")
        return int(value)  # type: ignore[call-overload,no-any-return]

    def _refuse(self, value: object, why: str) -> None:
        raise InputError(f"{self.name} is {value!r}; {why}")


@dataclass(frozen=True)
class Settings:
    """The settings of a model by name, and which optimizer it wants ("sgd" or "adam")."""

    optimizer: str
    settings: Mapping[str, Setting]

    def choose(self, given: Mapping[str, object]) -> Chosen:
        """The settings of a call. Raises InputError for those that are missing or not allowed."""
        foreign = [n for n, v in given.items() if v is not None and n not in self.settings]
        if foreign:
            names = ", ".join(foreign)
            raise InputError(f"{names}: the model's optimizer, {self.optimizer}, has no such thing")
        found = {name: s.choose(given.get(name)) for name, s in self.settings.items()}
        for name in ("epochs", "mini_batch_size", "learning_rate"):
            if found.get(name) is None:
                raise InputError(f"the model gives no {name}: say which")
        return Chosen(self.optimizer, found)


@dataclass(frozen=True)
class Chosen:
    """The settings of one training."""

    optimizer: str
    values: Mapping[str, Any]

    @property
    def epochs(self) -> int:
        return int(self.values["epochs"])

    @property
    def mini_batch_size(self) -> int:
        return int(self.values["mini_batch_size"])

    @property
    def shuffle(self) -> bool:
        return bool(self.values.get("shuffle"))

    @property
    def seed(self) -> int | None:
        """None: another order each time."""
        seed = self.values.get("seed")
        return None if seed is None else int(seed) % (1 << 64)

    def make_optimizer(self) -> Optimizer:
        """A fresh optimizer."""
        rate = float(self.values["learning_rate"])
        if self.optimizer == "sgd":
            return SGD(rate, self.values.get("momentum") or 0.0)
        named = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        found = {name: self.values.get(name) for name in named}
        return Adam(rate, **{n: named[n] if v is None else float(v) for n, v in found.items()})
