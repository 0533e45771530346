"""Source of graphs: the records of a file, with what all of its graphs have in common."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.formats.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord, TensorRecord
from vknn.formats.tflite.resources import Resources


@dataclass(frozen=True)
class FileSource:
    """The records of a file and its name for error messages.

    ``generators``: names of all generators of random numbers. Their positions are inputs and
    outputs of every graph.
    """

    model: ModelRecord
    file: str | None = None
    generators: tuple[str, ...] = ()

    @functools.cached_property
    def resources(self) -> Resources:
        """The file's variables and tables."""
        return Resources(self.model)

    @functools.cached_property
    def state_names(self) -> frozenset[str]:
        """Names of all that a session keeps from run to run, but for variable tensors."""
        return frozenset((*self.resources.names, *self.generators))

    def place(self, graph: SubgraphRecord, operator: OperatorRecord) -> str:
        """Index, type, subgraph and output of an operator, for error messages."""
        of = f" of subgraph {graph.index}" if graph.index else ""
        name = f", {graph.tensors[operator.outputs[0]].name!r}" if operator.outputs else ""
        return f"operator {operator.index} ({operator.type}){of}{name}"


def initial_array(tensor: TensorRecord) -> np.ndarray:
    """Initial content of a variable tensor."""
    return np.full([d or 0 for d in tensor.shape], tensor.initial_value, tensor.dtype.numpy)


def port(index: int) -> str:
    """Name of a tensor as an input or output between two graphs."""
    return f"tensor:{index}"
