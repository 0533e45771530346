"""Task of an updatable pipeline: its last model is trained on the results of the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from vknn.compile import Target, compile_graph
from vknn.errors import InputError, UnsupportedLayerError, VknnError
from vknn.formats.coreml.model import CoremlModel
from vknn.formats.coreml.pipeline import PipelineModel, run_stage
from vknn.graph import Arrays, Graph
from vknn.program import Program
from vknn.training.coreml import CoremlTask, Features, each_example
from vknn.training.task import Example


class PipelineTask(CoremlTask):
    """A pipeline whose last model is updatable, as Core ML wants it. ``target`` runs the others."""

    def __init__(self, pipeline: PipelineModel, target: Target) -> None:
        file, last = pipeline.file, pipeline.stages[-1]
        if not pipeline.message.isUpdatable:
            raise VknnError(f"{file or 'the model'} is not updatable: it cannot be trained")
        if not isinstance(last, CoremlModel):
            what = "the last model of an updatable pipeline is a pipeline; vknn trains networks"
            raise UnsupportedLayerError([what], file=file)
        super().__init__(last)
        self._pipeline, self._last, self._target = pipeline, last, target

    def examples(self, batches: Iterable[Features] | Features) -> list[Example]:
        programs: dict[Hashable, Program] = {}

        def call(
            key: Hashable, make: Callable[[], Graph], feeds: Mapping[str, np.ndarray]
        ) -> Arrays:
            if key not in programs:
                programs[key] = compile_graph(make(), self._target)
            return programs[key].run(feeds)

        try:
            pairs = [(self._passed(f, place, call), place) for f, place in each_example(batches)]
        finally:
            for program in programs.values():
                program.close()
        return [self.example(features, place) for features, place in pairs]

    def _passed(self, features: Features, place: str, call: Any) -> Features:
        """The features that the last model is trained with."""
        pipeline = self._pipeline
        try:
            known = pipeline.complete({n: v for n, v in features.items() if n in pipeline.features})
            pipeline.check_names(known)
            for number, stage in enumerate(pipeline.stages[:-1]):
                first = stage.first_state
                state = {
                    name: np.full(type_.dims, first.get(name, 0), type_.dtype.numpy)
                    for name, type_ in stage.state.items()
                }
                made, _ = run_stage(stage, number, known, state, call)
                known |= made
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        own = {n: known[n] for n in self._last.features if n in known}
        return own | {n: v for n, v in features.items() if n not in pipeline.features}
