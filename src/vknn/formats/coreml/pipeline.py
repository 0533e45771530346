"""Core ML pipelines: models that run one after the other, with features matched by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import ModelFormatError
from vknn.formats.coreml.input_shapes import InputShapes
from vknn.formats.coreml.inputs import ArrayInput, Input, read_input
from vknn.formats.coreml.model import CoremlModel, FeatureModel, check_features
from vknn.formats.coreml.reader import NETWORKS, SUPPRESSION, pipeline_models
from vknn.formats.coreml.suppression import SuppressionModel
from vknn.formats.model import Model, TensorSpec
from vknn.graph import Arrays, Call, Continuation, DType, Graph, GraphBuilder, TensorType


def make_model(message: Any, file: str | None = None) -> Model:
    """The model for a Model message that :mod:`vknn.formats.coreml.reader` has checked."""
    kind = message.WhichOneof("Type")
    if kind in NETWORKS:
        return CoremlModel(message, file)
    if kind == SUPPRESSION:
        return SuppressionModel(message, file)
    return PipelineModel(message, file)


class PipelineModel(FeatureModel):
    """A pipeline; ``stages`` are its models, which may be pipelines.

    Features go from stage to stage as a user would see them: an image as 8-bit pixels, a
    classifier's result as a label.
    """

    def __init__(self, message: Any, file: str | None = None) -> None:
        self.message, self.file = message, file
        description = message.description
        check_features(description, file)
        self.stages = [make_model(m, file) for m in pipeline_models(message)]
        self.layer_types = tuple(type_ for stage in self.stages for type_ in stage.layer_types)
        taken = {feature.name for feature in description.input}
        for stage in self.stages:
            found = {name: number for name, number in stage.defaults.items() if name in taken}
            self.defaults = {**found, **self.defaults}
        self.set_inputs(self._input(feature) for feature in description.input)
        known: dict[str, TensorSpec] = {spec.name: spec for spec in self.inputs}
        for number, stage in enumerate(self.stages):
            self._check_stage(stage, number, set(known))
            known |= {spec.name: spec for spec in stage.outputs}
        missing = [f.name for f in description.output if f.name not in known]
        if missing:
            raise ModelFormatError(f"no model of the pipeline gives {missing[0]!r}", file=file)
        self.outputs = tuple(known[f.name] for f in description.output)
        own = frozenset(spec.name for spec in self.outputs)
        self.output_images = own & frozenset().union(*(s.output_images for s in self.stages))
        self.class_scores = own & frozenset().union(*(s.class_scores for s in self.stages))
        boxes = [s.boxes for s in self.stages if s.boxes is not None]
        self.boxes = next((b for b in boxes if {b.boxes, b.scores} <= own), None)
        self.state = {
            _inner(k, name): type
            for k, stage in enumerate(self.stages)
            for name, type in stage.state.items()
        }
        self.first_state = {
            _inner(k, name): value
            for k, stage in enumerate(self.stages)
            for name, value in stage.first_state.items()
        }

    def _input(self, feature: Any) -> Input:
        """The pipeline's input; arrays are mapped as the first stage that takes them does."""
        found = read_input(feature, None, 1, self.file)
        if feature.name in self.defaults:
            # Descriptions rarely say of a threshold that it may be left out; Core ML lets one.
            number = self.defaults[feature.name]
            return ArrayInput(feature.name, InputShapes((1,)), False, number)
        if isinstance(found, ArrayInput):
            for stage in self.stages:
                inner = getattr(stage, "features", {}).get(feature.name)
                if isinstance(inner, ArrayInput):
                    found.rank5 = inner.rank5
                    break
        return found

    def _check_stage(self, stage: Model, number: int, known: set[str]) -> None:
        features: Mapping[str, Input] = getattr(stage, "features", {})
        missing = [n for n, f in features.items() if n not in known and not f.optional]
        if missing:
            raise ModelFormatError(
                f"model {number} of the pipeline takes {missing[0]!r}, which nothing gives",
                file=self.file,
            )

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """A graph without nodes; its continuation runs the stages' graphs."""
        self.check_names(types)
        builder = GraphBuilder("pipeline")
        taken = {}
        for name, feature in self.features.items():
            taken[name] = builder.input(name, feature.feature_type(types[name]))
        taken |= {name: builder.input(name, type) for name, type in self.state.items()}
        continuation = _PipelineContinuation(self.stages, [spec.name for spec in self.outputs])
        continuation.takes = tuple(taken)
        return builder.finish(taken, continuation)

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array as its input feature encodes it, but in the user's shape."""
        encoded = super().encode(name, array)
        type = self.features[name].feature_type(TensorType(np.shape(array), DType.of(encoded)))
        return encoded.reshape(type.dims)

    def decode(self, name: str, array: np.ndarray) -> Any:
        """The value of a feature; values other than arrays come in an array of one object."""
        return array.item() if array.dtype == object and not array.ndim else array


def _inner(number: int, name: str) -> str:
    return f"{number}:{name}"


@dataclass(eq=False)
class _PipelineContinuation(Continuation):
    """Execution of the stages, from features to features."""

    stages: Sequence[Model]
    outputs: Sequence[str]

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        features: dict[str, Any] = dict(arrays)
        states: dict[str, np.ndarray] = {}
        for number, stage in enumerate(self.stages):
            state = {name: arrays[_inner(number, name)] for name in stage.state}
            made, state = run_stage(stage, number, features, state, call)
            features |= made
            states |= {_inner(number, name): array for name, array in state.items()}
        return {name: _boxed(features[name]) for name in self.outputs} | states


def run_stage(
    stage: Model,
    number: int,
    features: Mapping[str, Any],
    state: Mapping[str, np.ndarray],
    call: Call,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The output features of a stage, and its new state."""
    names = [spec.name for spec in stage.inputs]
    feeds = stage.complete({name: features[name] for name in names if name in features})
    stage.check_names(feeds)
    given = {name: np.asarray(feeds[name]) for name in names}
    arrays = {name: stage.encode(name, array) for name, array in given.items()}
    types = {n: TensorType(given[n].shape, DType.of(a)) for n, a in arrays.items()}
    values = {name: given[name] for name in sorted(stage.value_inputs)}
    decisive = tuple(arrays.pop(name).tobytes() for name in values)
    key = ("stage", number, tuple(types.items()), decisive)
    results = call(key, lambda: stage.build(types, values), {**arrays, **state})
    renewed = {name: results.pop(name) for name in state}
    decoded = {name: stage.decode(name, array) for name, array in results.items()}
    return stage.results(decoded), renewed


def _boxed(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    box = np.empty((), object)
    box[()] = value
    return box
