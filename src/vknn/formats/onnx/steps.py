"""Steps of a conversion: nodes and what control flow puts in their place, in a list.

Functions, branches and loops are not converted as calls. Their nodes take the place of the node
that calls them, in scopes of their own, so that a conversion is a flat list of steps; where data
are needed that are computed at run time, it can end between any two of them and go on later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from vknn.formats.layer_context import LayerContext
from vknn.formats.onnx.records import (
    AttributeRecord,
    GraphRecord,
    NodeRecord,
    OnnxModelRecord,
    TensorProtoRecord,
)
from vknn.graph import DType, GraphBuilder, Origin, Value


@dataclass(frozen=True)
class TensorList:
    """A sequence of tensors, whose number is known while the graph is built."""

    values: tuple[Value, ...]
    dtype: DType | None = None


#: What a name stands for: a tensor, a sequence of tensors, or nothing (an absent optional).
Item = Value | TensorList | None


@dataclass(frozen=True, eq=False)
class NameScope:
    """The names of one graph, or of one call of a function. Compared by identity.

    ``path``: prefix of its nodes' names for people. ``outer``: the scope whose names a subgraph
    reads, too; a function has none. ``attributes``: those of the call of a function.
    """

    path: str
    imports: Mapping[str, int]
    outer: NameScope | None = None
    initializers: Mapping[str, TensorProtoRecord] = field(default_factory=dict)
    attributes: Mapping[str, AttributeRecord] = field(default_factory=dict)


Key = tuple[NameScope, str]


class Adder(LayerContext):
    """Addition of ops that steps other than nodes need, to the graph that is being made then."""

    def __init__(self, builder: GraphBuilder, origin: Origin) -> None:
        self.builder, self._origin, self.inputs = builder, origin, ()

    @property
    def origin(self) -> Origin:
        return self._origin


class RunNeeded(Exception):
    """A loop is to be run, rather than to be taken apart into the nodes of its rounds."""


class Known(Protocol):
    """Knowledge of values while steps are taken (:class:`conversion.Conversion`).

    ``unrolled``: nodes that rounds of loops added to the graph so far.
    """

    builder: GraphBuilder
    unrolled: int

    def item(self, scope: NameScope, name: str) -> Item:
        """Item that a name stands for in a scope."""

    def set(self, scope: NameScope, name: str, item: Item) -> None:
        """Assignment of what a name stands for."""

    def convert(self, step: NodeStep) -> Steps | None:
        """Conversion of a node, or the steps that take its place."""


class Step(ABC):
    """One step of a conversion.

    ``is_round``: whether it decides about a round of a loop (:class:`loops.RoundStep`).
    """

    is_round: ClassVar[bool] = False

    def again(self) -> Step:
        """The step to go back to where what stands behind this one has to wait."""
        return self

    @abstractmethod
    def reads(self) -> Iterator[Key]:
        """The names that this step reads."""

    @abstractmethod
    def take(self, known: Known) -> Steps | None:
        """The step taken; the steps that are to be taken next, if it asks for such.

        Raises NeedsData and ShapeNeeded where it has to wait.
        """


@dataclass(frozen=True, eq=False)
class NodeStep(Step):
    """Conversion of a node."""

    node: NodeRecord
    scope: NameScope

    def reads(self) -> Iterator[Key]:
        return ((self.scope, name) for name in self.node.reads)

    def take(self, known: Known) -> Steps | None:
        return known.convert(self)


@dataclass(frozen=True)
class Source:
    """Model and scope that are converted. ``main``: the scope of the graph that is built.

    ``ends``: its results, names in ``main`` by the names of the outputs. ``kinds``: whether a
    further output says which of them are no tensors (``loop_runs.kinds_of``). ``root``: the scope
    of the model's graph, which random draws are counted in.
    """

    model: OnnxModelRecord
    main: NameScope
    ends: Mapping[str, str]
    root: NameScope
    file: str | None = None
    kinds: bool = False

    def place(self, step: NodeStep) -> str:
        """Name and operator of a node, for error messages."""
        return f"node {step.scope.path + step.node.label!r} ({step.node.type})"


@dataclass(frozen=True, eq=False)
class BindStep(Step):
    """Results of a scope under the names of another; "" among the targets: not wanted."""

    source: NameScope
    names: tuple[str, ...]
    target: NameScope
    targets: tuple[str, ...]

    def reads(self) -> Iterator[Key]:
        return ((self.source, name) for name in self.names if name)

    def take(self, known: Known) -> Steps | None:
        for name, target in zip(self.names, self.targets, strict=False):
            if target:
                known.set(self.target, target, known.item(self.source, name) if name else None)
        return None


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps that stand in a node's place; ``given``: what names of their scopes stand for."""

    steps: Sequence[Step]
    given: Mapping[Key, Item] = field(default_factory=dict)


def body_steps(
    graph: GraphRecord, scope: NameScope, arguments: Sequence[Item], target: NameScope,
    targets: Sequence[str],
) -> Steps:  # fmt: skip
    """The steps of a subgraph in a scope of its own, which is made for it.

    ``arguments``: for its inputs. ``targets``: names in ``target`` of its outputs.
    """
    names = [value.name for value in graph.inputs]
    given = {(scope, name): item for name, item in zip(names, arguments, strict=False)}
    nodes = [NodeStep(node, scope) for node in graph.nodes]
    ends = tuple(value.name for value in graph.outputs)
    return Steps([*nodes, BindStep(scope, ends, target, tuple(targets))], given)


def first_steps(nodes: Sequence[NodeRecord], scope: NameScope) -> list[Step]:
    """The steps of a graph's nodes, the next one last."""
    return [NodeStep(node, scope) for node in reversed(nodes)]
