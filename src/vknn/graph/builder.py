"""Builder of graphs: the one way for formats and passes to add nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from vknn.errors import ShapeError, VknnError
from vknn.graph.graph import Continuation, Graph, Node, Origin, Quantization, Value
from vknn.graph.op import Op
from vknn.graph.types import TensorType

_FIXED: ContextVar[dict[str, np.ndarray] | None] = ContextVar("fixed inputs", default=None)


@contextmanager
def fixed_inputs(arrays: Mapping[str, np.ndarray]) -> Iterator[None]:
    """Block in which inputs of these names and types are constants of graphs that are built.

    Of each name the first input counts: bodies of loops have names of their own.
    """
    token = _FIXED.set(dict(arrays))
    try:
        yield
    finally:
        _FIXED.reset(token)


class GraphBuilder:
    """Collector of nodes, whose types it infers and checks as they are added; knows no op."""

    def __init__(self, name: str = "graph") -> None:
        self._name = name
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []
        self._taken: dict[str, int] = {}

    def input(self, name: str, type: TensorType) -> Value:
        """A value fed at run time, or a constant where it is fixed (:func:`fixed_inputs`)."""
        fixed = _FIXED.get()
        if fixed and name in fixed and TensorType.of(fixed[name]) == type:
            return self.constant(fixed.pop(name), name)
        value = Value(self._unique(name), type)
        self._inputs.append(value)
        return value

    def constant(
        self, array: np.ndarray, name: str = "constant", quantization: Quantization | None = None
    ) -> Value:
        """A constant. The array is kept, not copied, and must not change afterwards."""
        array = np.asarray(array)
        return Value(self._unique(name), TensorType.of(array), array, quantization)

    def add(
        self,
        op: Op,
        *inputs: Value | None,
        origin: Origin | None = None,
        name: str | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Value:
        """Addition of a node with one output, which it gives; ``names`` names the output values."""
        outputs = self.add_many(op, *inputs, origin=origin, name=name, names=names)
        if len(outputs) != 1:
            raise ValueError(f"{op.type_name} has {len(outputs)} outputs: use add_many")
        return outputs[0]

    def add_many(
        self,
        op: Op,
        *inputs: Value | None,
        origin: Origin | None = None,
        name: str | None = None,
        names: tuple[str, ...] | None = None,
    ) -> tuple[Value, ...]:
        """Addition of a node; gives all its outputs. Raises ShapeError, naming the layer."""
        stem = name or (origin.name if origin else op.type_name)
        origin = origin or Origin(stem, op.type_name)
        try:
            types = op.infer(*(v.type if v is not None else None for v in inputs))
        except ShapeError as error:
            raise ShapeError(f"layer {origin.name!r} ({origin.type}): {error}") from error
        except VknnError:
            raise
        node_name = self._unique(stem)
        stems = names or tuple(
            node_name if i == 0 else f"{node_name}:{i}" for i in range(len(types))
        )
        outputs = tuple(
            Value(s if s == node_name else self._unique(s), t)
            for s, t in zip(stems, types, strict=True)
        )
        self._nodes.append(Node(op, tuple(inputs), outputs, node_name, origin))
        return outputs

    def finish(
        self,
        outputs: Mapping[str, Value],
        continuation: Continuation | None = None,
        blobs: Mapping[str, Value] | None = None,
    ) -> Graph:
        """The graph with the given outputs, and the computation that goes on from them.

        ``blobs``: values by the names of the model's file.
        """
        named = dict(blobs or {})
        return Graph(self._inputs, dict(outputs), self._nodes, self._name, continuation, named)

    def _unique(self, stem: str) -> str:
        count = self._taken.get(stem, 0)
        self._taken[stem] = count + 1
        return self._unique(f"{stem}.{count}") if count else stem
