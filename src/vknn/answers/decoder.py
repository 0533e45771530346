"""Base of the decoders: what makes an answer of a network's outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from vknn.answers.answer import Answer
from vknn.answers.labels import Labels
from vknn.answers.members import Members
from vknn.errors import VknnError
from vknn.pictures import Placement

#: How scores are made of what the network gives.
ACTIVATIONS = ("none", "sigmoid", "softmax")
LAYOUTS = ("chw", "hwc")
UNITS = ("fraction", "pixels")


@dataclass(frozen=True)
class Reading:
    """All that an answer is made of.

    ``outputs``: of a run; ``place``: of the picture in the input. ``threshold``: the lowest score;
    ``iou``: of non-maximum suppression, None for none; ``most``: things or classes that are told.
    """

    outputs: Mapping[str, Any]
    place: Placement
    threshold: float
    iou: float | None
    most: int
    labels: Labels = field(default_factory=Labels)

    def of_classes(self, count: int, background: int | None = None) -> Reading:
        """The same with the labels of a network of so many classes."""
        return replace(self, labels=self.labels.fitted(count, background=background))

    def value(self, name: str) -> Any:
        """An output as the model gives it. Raises VknnError where there is none of this name."""
        if name not in self.outputs:
            known = ", ".join(self.outputs)
            raise VknnError(f"the recipe wants an output {name!r}; the model has {known}")
        return self.outputs[name]

    def array(self, name: str) -> np.ndarray:
        """An output as float64. Raises VknnError."""
        found = np.asarray(self.value(name))
        if found.dtype.kind not in "fiub":
            raise VknnError(f"output {name!r} holds {found.dtype}, not numbers")
        return found.astype(np.float64)

    def rows(self, name: str, columns: int | None = None) -> np.ndarray:
        """An output as rows [n, columns]: its last axis stays."""
        array = self.array(name)
        width = array.shape[-1] if columns is None and array.ndim else columns or 1
        if array.size % max(1, width):
            raise self.misfit(name, f"rows of {width}")
        return array.reshape(-1, max(1, width))

    def planes(self, name: str, layout: str) -> np.ndarray:
        """An output as [C, H, W], without the batch axis."""
        array = self.array(name)
        while array.ndim > 3 and array.shape[0] == 1:
            array = array[0]
        if array.ndim == 2:
            return array[None]
        if array.ndim != 3 or 0 in array.shape:
            raise self.misfit(name, "planes")
        return array if layout == "chw" else array.transpose(2, 0, 1)

    def misfit(self, name: str, wanted: str) -> VknnError:
        """The error for an output whose shape the recipe cannot mean."""
        shape = list(np.shape(self.outputs[name]))
        return VknnError(
            f"output {name!r} has the shape {shape}, which the recipe's {wanted} do not fit: "
            "vknn run --recipe FILE gives another recipe (docs/recipes.md), --recipe none none"
        )


@dataclass(frozen=True, kw_only=True)
class Decoder(Members, ABC):
    """A way to make answers of outputs. ``task`` and ``kind`` are its names in recipes."""

    task: ClassVar[str]
    kind: ClassVar[str]

    @abstractmethod
    def decode(self, reading: Reading) -> Answer:
        """The answer. Raises VknnError where outputs do not fit."""


#: Decoders by task and kind; the first kind of a task is what a recipe means that names none.
DECODERS: dict[str, dict[str, type[Decoder]]] = {}
D = TypeVar("D", bound=type[Decoder])


def decoder(task: str, kind: str) -> Callable[[D], D]:
    """Registration of a decoder."""

    def register(cls: D) -> D:
        cls.task, cls.kind = task, kind
        DECODERS.setdefault(task, {})[kind] = cls
        return cls

    return register


def activated(array: np.ndarray, how: str, axis: int = -1) -> np.ndarray:
    """Scores of what a network gives: as it is, 1 / (1 + e^-x), or softmax along an axis."""
    if how == "none":
        return array
    with np.errstate(all="ignore"):
        if how == "sigmoid":
            return 1 / (1 + np.exp(-array))
        raised = np.exp(array - array.max(axis=axis, keepdims=True))
        return raised / raised.sum(axis=axis, keepdims=True)
