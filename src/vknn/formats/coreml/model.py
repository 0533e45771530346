"""A neural network of a file, and its graph for given input shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.errors import InputError
from vknn.formats.coreml.driver import finish, start
from vknn.formats.coreml.reader import read_network
from vknn.formats.coreml.records import COUNTER
from vknn.formats.coreml.scopes import check_blobs, check_layers
from vknn.formats.coreml.stages import COUNTER_TYPE, Source
from vknn.formats.model import Model, TensorSpec
from vknn.graph import DType, Graph, GraphBuilder, TensorType


class CoremlModel(Model):
    """See :class:`Model`."""

    def __init__(self, message: Any, file: str | None = None) -> None:
        self.message, self.file = message, file
        self.part = getattr(message, message.WhichOneof("Type"))
        self.network = read_network(self.part, file)
        self.rank5 = self.part.arrayInputShapeMapping == 0
        description = message.description
        self.inputs = tuple(
            TensorSpec(f.name, tuple(f.type.multiArrayType.shape), DType.FLOAT32)
            for f in description.input
        )
        self.outputs = tuple(TensorSpec(f.name, None, DType.FLOAT32) for f in description.output)
        self._declared = {f.name: tuple(f.type.multiArrayType.shape) for f in description.output}
        check_layers(self.network, file)
        wanted = {f.name: "an output of the model" for f in description.output}
        check_blobs(self.network, {s.name for s in self.inputs}, wanted, file)
        self.draws = any(layer.draws for layer in self.network.everything())
        if self.draws:
            self.state = {COUNTER: COUNTER_TYPE}

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        builder = GraphBuilder("coreml")
        blobs = {
            s.name: builder.input(s.name, TensorType(self._mapped(types[s.name].dims)))
            for s in self.inputs
        }
        outputs = {s.name: s.name for s in self.outputs}
        if self.draws:
            outputs[COUNTER] = COUNTER
        source = Source(self.network, tuple(outputs.values()), self.rank5, self.file)
        stage = start(source, builder, blobs, self.draws)
        return finish(source, builder, stage.blobs, stage, outputs)

    def _mapped(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if not self.rank5 or len(shape) == 5:
            return shape
        if len(shape) == 1:
            return (1, 1, shape[0], 1, 1)
        if len(shape) == 3:
            return (1, 1, *shape)
        raise InputError(f"rank {len(shape)}")

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        array = np.ascontiguousarray(array, np.float32)
        return array.reshape(self._mapped(array.shape))

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        declared = self._declared[name]
        if declared and math.prod(declared) == array.size:
            return array.reshape(declared)
        return array
