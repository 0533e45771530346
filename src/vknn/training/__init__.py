"""Training: gradients of graphs, losses, optimizers, and the update of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vknn.compile import Target
from vknn.errors import VknnError
from vknn.formats import Model
from vknn.training import rules  # registers them
from vknn.training.gradients import differentiable_ops, differentiate, is_differentiable
from vknn.training.results import Callback, Progress, UpdateResult
from vknn.training.task import Task
from vknn.training.trainer import update

__all__ = [
    "Callback",
    "Progress",
    "UpdateResult",
    "differentiable_ops",
    "differentiate",
    "is_differentiable",
    "rules",
    "train",
]


def train(
    model: Model,
    target: Target,
    batches: Iterable[Mapping[str, Any]] | Mapping[str, Any],
    given: Mapping[str, object],
    progress: Callback | bool | None = None,
) -> UpdateResult:
    """Training of a model on a target; see :meth:`vknn.session.Session.update`."""
    return update(_task(model, target), target, batches, given, progress)


def _task(model: Model, target: Target) -> Task:
    from vknn.formats.coreml.model import CoremlModel
    from vknn.formats.coreml.pipeline import PipelineModel
    from vknn.training.coreml import CoremlTask
    from vknn.training.coreml_pipeline import PipelineTask

    if isinstance(model, CoremlModel):
        return CoremlTask(model)
    if isinstance(model, PipelineModel):
        return PipelineTask(model, target)
    file = f"{model.file}: " if model.file is not None else ""
    raise VknnError(f"{file}only updatable Core ML models can be trained")
