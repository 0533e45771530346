"""Training: gradients of graphs, losses, optimizers, and the update of a model."""

from vknn.training import rules
from vknn.training.gradients import differentiable_ops, differentiate, is_differentiable

__all__ = ["differentiable_ops", "differentiate", "is_differentiable", "rules"]
