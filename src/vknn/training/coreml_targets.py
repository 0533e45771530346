"""Targets of the losses of a network: labels, indices, arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vknn.errors import InputError
from vknn.formats.coreml.model import CoremlModel
from vknn.training.task import CROSS_ENTROPY, Loss


class Targets:
    """Targets among an example's features.

    A target goes by the loss's own name for it, by the name of the label that a classifier
    predicts, or by that of a training input that is no input of the network.
    """

    def __init__(self, model: CoremlModel, losses: Sequence[Loss], names: Sequence[str]) -> None:
        self._losses = losses
        self._labels = list(model.classes.labels) if model.classes is not None else []
        self._label = model.classes.label if model.classes is not None else ""
        self._inputs = set(model.features)
        others = [f.name for f in model.message.description.trainingInput]
        others = [name for name in others if name not in self._inputs]
        alone = [self._label, *others] if len(losses) == 1 else []
        self._names = [[n for n in dict.fromkeys((name, *alone)) if n] for name in names]

    def of(self, features: Mapping[str, Any], place: str) -> tuple[Any, ...]:
        """A target for each loss: a class's index, or a flat float32 array."""
        known = self._inputs.union(*self._names)
        unknown = [name for name in features if name not in known]
        if unknown:
            listed = ", ".join(sorted(map(repr, known)))
            raise InputError(f"{place}: unknown feature {unknown[0]!r} (there are {listed})")
        found: list[Any] = []
        for loss, names in zip(self._losses, self._names, strict=True):
            given = [name for name in names if name in features]
            if not given:
                raise InputError(f"{place}: the target {' or '.join(map(repr, names))} is missing")
            value, where = features[given[0]], f"{place}: target {given[0]!r}"
            if loss.kind == CROSS_ENTROPY:
                found.append(self._class(value, given[0] == self._label, where))
            else:
                found.append(_numbers(value, where))
        return tuple(found)

    def _class(self, value: Any, is_label: bool, where: str) -> int:
        """The index of a class: from its label, from {label: probability}, or an index itself."""
        if isinstance(value, Mapping):
            if not value:
                raise InputError(f"{where} is an empty dict")
            value, is_label = max(value, key=lambda key: float(value[key])), True
        if isinstance(value, np.ndarray):
            if value.size != 1:
                raise InputError(f"{where} is one class, not an array of {value.size} elements")
            value = value.reshape(-1)[0]
        if isinstance(value, bytes):
            value = value.decode()
        if isinstance(value, str):
            value, is_label = str(value), True
        else:
            value = _whole(value, where)
        if not (is_label and self._labels):
            return _index(value, where)
        if value not in self._labels:
            some = ", ".join(map(repr, self._labels[:10]))
            raise InputError(f"{where} is {value!r}, which is no class label ({some}...)")
        return self._labels.index(value)


def _whole(value: Any, where: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value:
        raise InputError(f"{where} is {value!r}, neither a label nor an index")
    return number


def _index(value: Any, where: str) -> int:
    if isinstance(value, str):
        raise InputError(f"{where} is {value!r}, but the model has no class labels: give an index")
    return int(value)


def _numbers(value: Any, where: str) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{where} takes numbers, not {array.dtype}")
    with np.errstate(all="ignore"):  # what has no float32 makes the loss infinite, which is told
        return np.ascontiguousarray(array, np.float32).reshape(-1)
