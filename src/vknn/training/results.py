"""Reports of a training: progress on its way, the result at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """Where a training is, behind a mini-batch: ``epoch`` and ``batch`` count from 1.

    ``loss`` is the mean over the examples of this epoch so far, ``batch_loss`` that of the
    mini-batch.
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
    """A training at its end.

    ``losses``: the mean loss of each epoch, taken before each step. ``metrics``: further numbers an
    epoch by name ("accuracy" for classifiers: the share of examples whose largest score was the
    right one, likewise before each step). ``examples``: how many there were; ``steps``: how often
    the weights were changed; ``stopped``: the progress callable ended it.
    """

    losses: list[float]
    metrics: dict[str, list[float]] = field(default_factory=dict)
    examples: int = 0
    steps: int = 0
    stopped: bool = False

    @property
    def epochs(self) -> int:
        """Epochs that were begun."""
        return len(self.losses)
