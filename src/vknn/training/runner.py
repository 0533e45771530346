"""Gradients of mini-batches, however many examples the network takes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn import reference
from vknn.compile import Target, compile_graph
from vknn.errors import InputError, VknnError
from vknn.graph import Graph
from vknn.training.losses import LOSS, rows_name, targets_of
from vknn.training.step import (
    Forward,
    TrainingParts,
    alone,
    as_one,
    forward,
    gradient_name,
    training,
    weight_input,
)
from vknn.training.task import CROSS_ENTROPY, Arrays, Example, Task

#: Share of the range of a loss's input by which joined examples may differ from single ones.
_SAME = 1e-4
#: Elements in all results of a graph below which NumPy is done before a plan would be made.
_SMALL = 1 << 21


class TrainingRunner:
    """Gradients for any of the examples. ``weights`` may be changed between the steps."""

    def __init__(self, task: Task, target: Target, examples: Sequence[Example], most: int) -> None:
        self._task = task
        self._targets = [e.targets for e in examples]
        self._target = target
        self._network = self._forward(examples, min(most, len(examples)))
        self.weights = task.weights(self._network.graph)
        parts = training(task, self._network, list(self.weights), len(examples))
        self._axes = parts.axes
        self._widths = [
            parts.step.outputs[rows_name(i)].type.dims[1] for i in range(len(task.losses))
        ]
        self._check_targets()
        self._inputs = self._prepared(parts, examples)
        self._program = compile_graph(parts.step, target)

    def __enter__(self) -> TrainingRunner:
        return self

    def __exit__(self, *details: object) -> None:
        self._program.close()

    def step(self, places: np.ndarray) -> tuple[float, int, Arrays]:
        """The mean loss of some examples, how many were classified right, and the gradients."""
        weight = np.float32(1.0) / np.float32(len(places))
        loss, right, gradients = 0.0, 0, Arrays()
        for first in range(0, len(places), self._network.count):
            part = places[first : first + self._network.count]
            results = self._part(part, weight)
            loss += float(results[LOSS])
            right += self._right(part, results)
            for name in self.weights:
                found = results[gradient_name(name)]
                gradients[name] = gradients[name] + found if name in gradients else found
        return loss, right, gradients

    def _part(self, places: np.ndarray, weight: np.float32) -> Arrays:
        """One run of the program; examples that only fill it up have weight 0."""
        count = self._network.count
        padded = [*places, *[places[0]] * (count - len(places))]
        shares = np.zeros(count, np.float32)
        shares[: len(places)] = weight
        feeds = {
            name: as_one([self._inputs[name][i] for i in padded], axis)
            for name, axis in self._axes.items()
        }
        for index, loss in enumerate(self._task.losses):
            targets = [self._targets[i][index] for i in padded]
            feeds |= targets_of(index, loss, targets, shares, self._widths[index])
        feeds |= {weight_input(name): array for name, array in self.weights.items()}
        return self._program.run(feeds)

    def _right(self, places: np.ndarray, results: Arrays) -> int:
        for index, loss in enumerate(self._task.losses):
            if loss.kind == CROSS_ENTROPY:
                best = results[rows_name(index)][: len(places)].argmax(axis=1)
                wanted = [self._targets[i][index] for i in places]
                return int((best == np.asarray(wanted)).sum())
        return 0

    def _forward(self, examples: Sequence[Example], count: int) -> Forward:
        """The network for ``count`` examples; for one, where joining them changes the results."""
        task = self._task
        if count > 1:
            network = self._joined(examples, count)
            if network is not None:
                return network
        return alone(task, examples[0].inputs)

    def _joined(self, examples: Sequence[Example], count: int) -> Forward | None:
        task = self._task
        first = [task.stacked(e.inputs) or {} for e in examples[:2]]
        if not first[0]:
            return None
        try:
            network = forward(task, first[0], count)
            both = forward(task, first[0], 2)
        except VknnError:
            return None  # the graph for one says what is wrong, if it is wrong for one, too
        outputs = [network.graph.outputs[loss.input] for loss in task.losses]
        pair = [both.graph.outputs[loss.input] for loss in task.losses]
        if any(v not in network.axes for v in outputs) or any(v not in both.axes for v in pair):
            return None
        feeds = {n: as_one([f[n] for f in first], task.axis(n)) for n in first[0]}
        (together,) = self._once(both.graph, [feeds])
        single = alone(task, examples[0].inputs).graph
        runs = self._once(single, [e.inputs for e in examples[:2]])
        for place, apart in enumerate(runs):
            for loss, value in zip(task.losses, pair, strict=True):
                found = together[loss.input].take(place, both.axes[value]).reshape(-1)
                if not _same(found, apart[loss.input].reshape(-1)):
                    return None
        return network

    def _once(self, graph: Graph, feeds: Sequence[Arrays]) -> list[Arrays]:
        """The outputs for some feeds: a small graph is not worth being compiled."""
        if sum(v.type.size for n in graph.nodes for v in n.outputs if v.type.is_static) < _SMALL:
            return [reference.run(graph, f) for f in feeds]
        program = compile_graph(graph, self._target)
        try:
            return [program.run(f) for f in feeds]
        finally:
            program.close()

    def _check_targets(self) -> None:
        for index, (loss, width) in enumerate(zip(self._task.losses, self._widths, strict=True)):
            if loss.classes is not None and loss.classes != width:
                raise InputError(
                    f"the network gives {width} probabilities for {loss.classes} class labels"
                )
            for number, targets in enumerate(self._targets):
                _check_target(loss.kind, targets[index], width, f"example {number}")

    def _prepared(
        self, parts: TrainingParts, examples: Sequence[Example]
    ) -> dict[str, list[np.ndarray]]:
        """The inputs of the steps for each example: those of the network, or what is frozen."""
        count, task = self._network.count, self._task
        joins = bool(self._network.axes)
        inputs = [(task.stacked(e.inputs) if joins else None) or e.inputs for e in examples]
        if parts.frozen is None:
            return {name: [i[name] for i in inputs] for name in parts.axes}
        program = compile_graph(parts.frozen, self._target)
        try:
            rows: dict[str, list[np.ndarray]] = {name: [] for name in parts.axes}
            for first in range(0, len(inputs), count):
                group = inputs[first : first + count]
                padded = [*group, *[group[0]] * (count - len(group))]
                feeds = {
                    n: as_one([g[n] for g in padded], task.axis(n) if joins else None)
                    for n in group[0]
                }
                for name, array in program.run(feeds).items():
                    rows[name] += _split(array, parts.axes[name], count)[: len(group)]
            return rows
        finally:
            program.close()


def _split(array: np.ndarray, axis: int | None, count: int) -> list[np.ndarray]:
    return [array] * count if axis is None else np.split(array, count, axis)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    size = np.abs(b)
    scale = max(float(size.max(initial=0.0, where=np.isfinite(size))), 1e-30)
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=0, atol=_SAME * scale, equal_nan=True))


def _check_target(kind: str, target: Any, width: int, place: str) -> None:
    if kind == CROSS_ENTROPY:
        if not 0 <= target < width:
            raise InputError(f"{place}: its class {target} is none of 0 to {width - 1}")
    elif target.size != width:
        raise InputError(f"{place}: its target has {target.size} numbers, not {width}")
