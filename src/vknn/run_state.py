"""State of a model between its runs: recurrent cells, counters, variables, tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from vknn.errors import OutOfMemoryError
from vknn.formats import Model
from vknn.graph import DType, TensorType
from vknn.memory_budget import MemoryBudget
from vknn.runtime import DeviceArray


class RunState:
    """Arrays by name, of a model and of the same model by its signatures.

    Those of ``model.state`` have a first value and keep their type. Those of ``model.variables``
    have none until a run gives one; they stay on the device where it was computed there.
    """

    def __init__(self, memory_limit: int | None) -> None:
        self._limit = memory_limit
        self._arrays: dict[str, np.ndarray | DeviceArray] = {}

    def clear(self) -> None:
        """Loss of everything: the next look finds first values."""
        self._arrays.clear()

    @contextmanager
    def same(self, names: Collection[str]) -> Iterator[None]:
        """Block after which what these names hold is what it was before."""
        before = {name: self._arrays[name] for name in names if name in self._arrays}
        try:
            yield
        finally:
            for name in names:
                self._arrays.pop(name, None)
            self._arrays.update(before)

    def begin(self, model: Model) -> None:
        """First values of a model's state, as far as it has none. Raises OutOfMemoryError."""
        new = {name: t for name, t in model.state.items() if name not in self._arrays}
        MemoryBudget(self._limit).check_state(new, model.file)
        first = model.first_state
        self._arrays.update({name: _filled(t, first.get(name, 0)) for name, t in new.items()})

    def present(self, model: Model) -> dict[str, np.ndarray | DeviceArray]:
        """Values of a model's state, and of those of its variables that have one."""
        if not model.state.keys() <= self._arrays.keys():
            self.begin(model)
        names = (*model.state, *model.variables)
        return {name: self._arrays[name] for name in names if name in self._arrays}

    def types(self, model: Model) -> dict[str, TensorType]:
        """Types of a model's variables that have a value."""
        found = {n: self._arrays[n] for n in model.variables if n in self._arrays}
        return {n: TensorType(a.shape, _dtype(a.dtype)) for n, a in found.items()}

    def take(self, model: Model, results: dict[str, Any]) -> None:
        """New values from the results of a run, which are left without them."""
        for name in (*model.state, *model.variables):
            if name in results:
                self._arrays[name] = results.pop(name)


def _dtype(dtype: np.dtype) -> DType:
    return DType.of(np.empty(0, dtype))


def _filled(type_: TensorType, number: float) -> np.ndarray:
    """An array of one number; zeros take no memory before they are written."""
    try:
        array = np.zeros(type_.dims, type_.dtype.numpy)
    except MemoryError as error:
        raise OutOfMemoryError(f"host memory is exhausted by the state {type_}") from error
    if number:
        array.fill(number)
    return array
