"""State of one graph's conversion, shared by all its layers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.openvino.records import Net, PortRef
from vknn.formats.openvino.weights import Weights
from vknn.graph import GraphBuilder, Value

#: The most layers converted for one graph; a loop of absurd length would otherwise fill memory.
MAX_LAYERS = 200_000


@dataclass(frozen=True)
class NetSource:
    """A net and its weights, to build graphs of.

    ``outputs``: name -> port, ``states``: Memory id -> the graph input that holds it.
    """

    net: Net
    weights: Weights
    outputs: Mapping[str, PortRef]
    states: Mapping[str, str]
    file: str | None = None


@dataclass
class GraphBuild:
    """A graph under construction.

    ``as_declared``: the inputs have the shapes of the file. ``given``: data computed at run time
    that are known by now, by (scope, layer id, input index). ``states``: graph inputs that hold
    state, by Memory id; ``written``: the new values of states.
    """

    builder: GraphBuilder
    source: NetSource
    as_declared: bool
    given: Mapping[Hashable, np.ndarray] = field(default_factory=dict)
    states: Mapping[str, Value] = field(default_factory=dict)
    written: dict[str, Value] = field(default_factory=dict)
    layers: int = 0

    @property
    def weights(self) -> Weights:
        """The weights file."""
        return self.source.weights

    def count_layers(self, name: str, coming: int = 0) -> None:
        """Count of one converted layer.

        Raises ShapeError if that many and ``coming`` more exceed MAX_LAYERS.
        """
        self.layers += 1
        if self.layers + coming > MAX_LAYERS:
            raise ShapeError(f"layer {name!r}: more than {MAX_LAYERS} layers with all repetitions")
