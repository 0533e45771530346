"""Values, nodes, the graph they make, and the continuation of a graph that data decide about."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.graph.op import Op
from vknn.graph.types import TensorType


@dataclass(frozen=True)
class Origin:
    """The layer of the source file that a node came from, in the file's own words."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name!r}"


@dataclass(frozen=True)
class Quantization:
    """Affine quantization: real = scale * (q - zero_point), along ``axis`` if there are several.

    Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", equation 1.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...] = (0,)
    axis: int = 0


@dataclass(eq=False)
class Value:
    """A tensor in the graph. Compared by identity; ``constant`` holds the data of a constant."""

    name: str
    type: TensorType
    constant: np.ndarray | None = field(default=None, repr=False)
    quantization: Quantization | None = None


@dataclass(eq=False)
class Node:
    """An op applied to values. An absent optional input is None. Compared by identity."""

    op: Op
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    name: str
    origin: Origin

    @property
    def input_types(self) -> tuple[TensorType | None, ...]:
        return tuple(v.type if v is not None else None for v in self.inputs)

    @property
    def is_static(self) -> bool:
        """True when the types of all inputs are known (those of outputs may still be open)."""
        return all(v is None or v.type.is_static for v in self.inputs)

    @functools.cached_property
    def bounds(self) -> tuple[TensorType, ...]:
        """Largest possible types of the outputs (:meth:`Op.bound`); raises ShapeError."""
        return self.op.bound(*self.input_types)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.outputs)


@dataclass(eq=False)
class Graph:
    """Nodes in topological order.

    ``inputs`` are fed at run time. ``outputs`` maps the user's names to values; two names may
    share one value, and an input or a constant may be an output. ``continuation`` goes on from some
    of the outputs where their data decide what comes next. ``blobs``: values by the names that the
    model's file has for them, as far as it is known when the graph is built; passes drop them.
    """

    inputs: list[Value]
    outputs: dict[str, Value]
    nodes: list[Node]
    name: str = "graph"
    continuation: Continuation | None = None
    blobs: Mapping[str, Value] = field(default_factory=dict, repr=False)

    def producers(self) -> dict[Value, Node]:
        """The node that makes each value (inputs and constants have none)."""
        return {v: node for node in self.nodes for v in node.outputs}

    def consumers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order; a node that reads it twice stands twice."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    readers.setdefault(value, []).append(node)
        return readers

    def values(self) -> list[Value]:
        """Every value once: inputs, then constants and results in order of appearance."""
        seen: dict[Value, None] = dict.fromkeys(self.inputs)
        for node in self.nodes:
            seen.update(dict.fromkeys(v for v in node.inputs if v is not None))
            seen.update(dict.fromkeys(node.outputs))
        seen.update(dict.fromkeys(self.outputs.values()))
        return list(seen)

    def replace(self, nodes: Iterable[Node], mapping: dict[Value, Value] | None = None) -> Graph:
        """A graph of ``nodes`` with values substituted along ``mapping`` (chains are followed)."""
        mapping = mapping or {}

        def final(value: Value) -> Value:
            while value in mapping:
                value = mapping[value]
            return value

        renewed = []
        for node in nodes:
            inputs = tuple(final(v) if v is not None else None for v in node.inputs)
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            renewed.append(
                node if same else Node(node.op, inputs, node.outputs, node.name, node.origin)
            )
        outputs = {name: final(value) for name, value in self.outputs.items()}
        return Graph(list(self.inputs), outputs, renewed, self.name, self.continuation)


Arrays = dict[str, np.ndarray]
#: ``call(key, make, feeds)`` runs the graph that ``make`` gives on arrays by input name, and gives
#: those of its outputs. Graphs are kept by ``key``: equal keys must mean equal graphs.
Call = Callable[[Hashable, Callable[[], Graph], Mapping[str, np.ndarray]], Arrays]


class Continuation(ABC):
    """The computation that follows a graph whose results decide how it goes on.

    Loops and branches, and shapes that are computed at run time: a format builds its graph up to
    such a place and leaves what follows to a continuation, which is shown the arrays. ``takes``
    names the outputs of its graph that it is shown, ``decided_by`` those whose data decide, where
    the format tells them apart, ``layers`` the types of the file's layers that follow, as far as
    they are known before.
    """

    takes: tuple[str, ...]
    decided_by: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()

    @abstractmethod
    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        """The outputs that are still missing, by name, for the arrays of ``takes``."""


def unique_name(stem: str, taken: set[str] | Sequence[str]) -> str:
    """``stem``, or ``stem.1``, ``stem.2``... where it is taken."""
    if stem not in taken:
        return stem
    number = 1
    while f"{stem}.{number}" in taken:
        number += 1
    return f"{stem}.{number}"
