"""The loop: epochs of mini-batches, gradients on the session's device, weights on the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vknn.compile import Target
from vknn.errors import InputError, VknnError
from vknn.lowering import WeightCache
from vknn.training.optimizers import Optimizer
from vknn.training.progress import reporting
from vknn.training.results import Callback, Progress, UpdateResult
from vknn.training.runner import TrainingRunner
from vknn.training.settings import Chosen
from vknn.training.task import CROSS_ENTROPY, Example, Task


def update(
    task: Task,
    target: Target,
    batches: Iterable[Mapping[str, Any]] | Mapping[str, Any],
    given: Mapping[str, object],
    progress: Callback | bool | None = None,
) -> UpdateResult:
    """Training of ``task`` on ``target``; the trained weights are written into it at the end.

    ``given``: settings by name, None for the model's own. On an error the model stays as it was.
    """
    chosen = task.settings.choose(given)
    examples = task.examples(batches)
    if not examples:
        raise InputError("there are no examples to train with")
    _check_alike(examples)
    optimizer = chosen.make_optimizer()
    with (
        TrainingRunner(task, _single_precision(target), examples, chosen.mini_batch_size) as runner,
        reporting(progress) as tell,
    ):
        result = _train(runner, optimizer, _schedule(chosen, len(examples)), tell)
    task.write(runner.weights)
    classifies = any(loss.kind == CROSS_ENTROPY for loss in task.losses)
    return result.report(classifies, len(examples))


@dataclass(frozen=True)
class _Turn:
    """A mini-batch: which examples, and where in the training (from 0)."""

    epoch: int
    epochs: int
    batch: int
    batches: int
    places: np.ndarray


def _schedule(chosen: Chosen, examples: int) -> Iterator[_Turn]:
    """The mini-batches of all epochs; the last of an epoch may be smaller."""
    size = chosen.mini_batch_size
    random = np.random.default_rng(chosen.seed)
    starts = range(0, examples, size)
    for epoch in range(chosen.epochs):
        order = random.permutation(examples) if chosen.shuffle else np.arange(examples)
        for number, first in enumerate(starts):
            places = order[first : first + size]
            yield _Turn(epoch, chosen.epochs, number, len(starts), places)


def _train(
    runner: TrainingRunner, optimizer: Optimizer, turns: Iterator[_Turn], tell: Callback
) -> _History:
    history = _History()
    for turn in turns:
        loss, hits, gradients = runner.step(turn.places)
        if not np.isfinite(loss):
            raise VknnError(
                f"the loss became {loss} in epoch {turn.epoch + 1}; the model is left as it was "
                "(a smaller learning_rate may help)"
            )
        optimizer.step(runner.weights, gradients)
        history.add(turn, loss, hits)
        now = Progress(
            turn.epoch + 1, turn.epochs, turn.batch + 1, turn.batches, history.losses[-1], loss
        )
        if tell(now) is False:
            history.stopped = True
            break
    return history


def _single_precision(target: Target) -> Target:
    """The target in float32, whatever the session's precision, with packed weights of its own."""
    options = target.options
    if options.half:
        options = replace(options, precision="fp32", arithmetic="fp32", choices={})
    limit = target.memory_limit
    return Target(target.device, options, WeightCache(), target.pool, memory_limit=limit)


def _check_alike(examples: Sequence[Example]) -> None:
    first = {n: (a.shape, a.dtype) for n, a in examples[0].inputs.items()}
    for number, example in enumerate(examples):
        for name, array in example.inputs.items():
            if (array.shape, array.dtype) != first[name]:
                raise InputError(
                    f"example {number}: {name!r} has another shape than in the first example; "
                    "examples of one training have the same shapes"
                )


@dataclass
class _History:
    """Losses and hits, epoch by epoch."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    steps: int = 0
    stopped: bool = False
    _total: float = 0.0
    _count: int = 0
    _hits: int = 0

    def add(self, turn: _Turn, loss: float, hits: int) -> None:
        """A mini-batch."""
        if turn.batch == 0:
            self._total, self._count, self._hits = 0.0, 0, 0
            self.losses.append(0.0)
            self.accuracies.append(0.0)
        self._total += loss * len(turn.places)
        self._count += len(turn.places)
        self._hits += hits
        self.losses[-1] = self._total / self._count
        self.accuracies[-1] = self._hits / self._count
        self.steps += 1

    def report(self, classifies: bool, examples: int) -> UpdateResult:
        """The result for the caller."""
        metrics = {"accuracy": self.accuracies} if classifies else {}
        return UpdateResult(self.losses, metrics, examples, self.steps, self.stopped)
