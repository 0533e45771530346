"""Chain: operators that one dispatch computes, each from the result of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import require

T = TypeVar("T")


@attributes
class Chain(Op):
    """Operators one after the other, each on the (only) output of the one before.

    Inputs: those of the first operator, then of each other all but its first, which is the
    result before it; ``counts`` says how many of each. Outputs: the results of the links whose
    numbers are in ``kept``, which others read, too, then the last one. Results between links are
    not rounded here; a kernel may round them as a plan stores them. Made for devices on which a
    dispatch costs more than it saves to split the work.
    """

    links: tuple[Op, ...]
    counts: tuple[int, ...]
    kept: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.links) == len(self.counts) > 1, "a chain has two links at least")
        require(not any(isinstance(op, Chain) for op in self.links), "a chain in a chain")
        between = range(len(self.links) - 1)
        require(all(number in between for number in self.kept), "a chain keeps what is no link's")

    @property
    def type_name(self) -> str:
        """The names of the links, joined by "+"."""
        return "+".join(op.type_name for op in self.links)

    def split(self, inputs: Sequence[T]) -> list[tuple[T, ...]]:
        """The inputs of each link, without the results that stand before those of all but one."""
        require(len(inputs) == sum(self.counts), f"{self.type_name}: {len(inputs)} inputs")
        ends = np.cumsum(self.counts).tolist()
        return [tuple(inputs[end - n : end]) for end, n in zip(ends, self.counts, strict=True)]

    def followed(
        self, inputs: Sequence[T], step: Callable[[Op, tuple[Any, ...]], Any]
    ) -> Iterator[Any]:
        """The result of ``step(link, inputs)`` of each link, told the result before it."""
        value: Any = None
        for number, (op, own) in enumerate(zip(self.links, self.split(inputs), strict=True)):
            value = step(op, (value, *own) if number else own)
            yield value

    def outputs(self, results: Sequence[T]) -> tuple[T, ...]:
        """Results that are outputs, where each link has one of ``results``."""
        return (*(results[number] for number in self.kept), results[-1])

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        return self.outputs(list(self.followed(inputs, _one_type)))

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return self.outputs(list(self.followed(inputs, _one_array)))


def _one_type(op: Op, inputs: tuple[TensorType | None, ...]) -> TensorType:
    types = op.infer(*inputs)
    require(len(types) == 1, f"{op.type_name} has {len(types)} outputs: no link of a chain")
    return types[0]


def _one_array(op: Op, inputs: tuple[np.ndarray | None, ...]) -> np.ndarray:
    return op.reference(*inputs)[0]
