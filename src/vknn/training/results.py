"""Reports of a training: progress on its way, the result at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """Progress of a training, behind a mini-batch.

    Attributes:
        epoch: Number of the epoch, from 1.
        epochs: How many there are.
        batch: Number of the mini-batch in its epoch, from 1.
        batches: How many there are in an epoch.
        loss: Mean loss of the examples of this epoch so far.
        batch_loss: Mean loss of the mini-batch.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    batch_loss: float


#: Is told of each mini-batch; gives False to stop behind it.
Callback = Callable[[Progress], object]


@dataclass(frozen=True)
class UpdateResult:
    """Result of :meth:`vknn.Session.update`.

    Attributes:
        losses: Mean loss of each epoch, taken before each step.
        metrics: Further numbers an epoch by name; "accuracy" for classifiers is the share of
            examples whose largest score was the right one, likewise before each step.
        examples: How many examples there were.
        steps: How often the weights were changed.
        stopped: Whether the progress callable ended the training.
    """

    losses: list[float]
    metrics: dict[str, list[float]] = field(default_factory=dict)
    examples: int = 0
    steps: int = 0
    stopped: bool = False

    @property
    def epochs(self) -> int:
        """Number of epochs that were begun."""
        return len(self.losses)
