"""Task: the interface between training and a model of any format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.graph import Graph, TensorType
from vknn.training.settings import Settings

CROSS_ENTROPY, SQUARED_ERROR = "categorical cross entropy", "mean squared error"

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Loss:
    """A loss: its kind, the tensor it looks at, and the class labels where the model has some."""

    name: str
    kind: str
    input: str
    classes: int | None = None


@dataclass(frozen=True)
class Example:
    """An example as the graph takes it: inputs by name, and a target for each loss.

    A target is an index for cross entropy, and a flat array otherwise.
    """

    inputs: Arrays
    targets: tuple[Any, ...]


class Task(ABC):
    """A model that can be trained."""

    settings: Settings
    losses: tuple[Loss, ...]

    @abstractmethod
    def examples(self, batches: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> list[Example]:
        """The examples. Raises InputError for what is missing, unknown or does not fit."""

    @abstractmethod
    def stacked(self, inputs: Arrays) -> Arrays | None:
        """The inputs of one example, each with its ``axis`` of size 1 to join examples along.

        None, where they have none and cannot get one.
        """

    @abstractmethod
    def axis(self, name: str) -> int:
        """The axis of a (stacked) input along which examples are joined."""

    @abstractmethod
    def graph(self, types: Mapping[str, TensorType]) -> Graph:
        """The graph for such inputs; its outputs are the inputs of the losses, by name.

        What is trained are constants, known by the names in :meth:`weights`. Raises
        UnsupportedLayerError where the losses cannot be reached by one graph.
        """

    @abstractmethod
    def weights(self, graph: Graph) -> dict[str, np.ndarray]:
        """Copies of what is trained, in the layout of the graph's constants of these names."""

    @abstractmethod
    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Transfer of trained weights into the model."""
