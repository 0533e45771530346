"""Loops: what their rounds share, and rounds whose nodes stand in the graph one after another.

Short loops whose rounds are known while the graph is built are taken apart: the nodes of all rounds
become one graph, in which the numbers of the rounds are constants. All others are run
(``loop_runs``): the body is a graph of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.onnx.functions import all_nodes
from vknn.formats.onnx.records import GraphRecord, NodeRecord
from vknn.formats.onnx.steps import (
    Adder,
    BindStep,
    Item,
    Key,
    Known,
    NameScope,
    NodeStep,
    RunNeeded,
    Step,
    Steps,
    TensorList,
)
from vknn.graph import DType, Origin, Value
from vknn.ops.movement.shape import Concat, Slice

#: Nodes that the rounds of all loops may add to one graph; a longer loop is run.
MOST_UNROLLED = 512


@dataclass(frozen=True)
class RoundNumber:
    """Argument of a body: the number of the round."""


@dataclass(frozen=True)
class Condition:
    """Argument of a body: the condition, as the round before left it."""


@dataclass(frozen=True)
class Carried:
    """Argument of a body: what the round before made of value ``number``."""

    number: int


@dataclass(frozen=True)
class Sliced:
    """Argument of a body: the next slice of a tensor, or the next element of a sequence.

    ``name``: in the node's scope. ``axis`` None: the elements of a sequence.
    """

    name: str
    axis: int | None
    backwards: bool = False


@dataclass(frozen=True)
class Same:
    """Argument of a body: the same value in all rounds. ``name``: in the node's scope."""

    name: str


Argument = RoundNumber | Condition | Carried | Sliced | Same


@dataclass(frozen=True)
class Stacked:
    """Results of all rounds, stacked along a new axis; ``axis`` None: as a sequence."""

    axis: int | None = 0
    backwards: bool = False

    def place(self, rank: int, origin: Origin) -> int:
        """The axis among ``rank``, those of the result. Raises ShapeError."""
        assert self.axis is not None
        axis = self.axis + rank if self.axis < 0 else self.axis
        if not 0 <= axis < rank:
            raise ShapeError(f"layer {origin.name!r} stacks along axis {self.axis}")
        return axis


@dataclass(frozen=True, eq=False)
class LoopNode:
    """The node of a loop: what all of its rounds share.

    ``arguments``: for the body's inputs; ``carried``: how many values go from round to round, the
    first of the body's outputs behind the condition; ``rounds``: how many there are at most, None
    where only the condition decides, or where the value "limit" of the state says it (``limited``);
    ``counted``: whether the body gives a condition; ``conditional``: whether that one counts.
    ``state``: the scope of what goes from round to round.
    """

    node: NodeRecord
    scope: NameScope
    origin: Origin
    body: GraphRecord
    arguments: tuple[Argument, ...]
    carried: int = 0
    rounds: int | None = None
    limited: bool = False
    counted: bool = False
    conditional: bool = False
    stacked: tuple[Stacked, ...] = ()
    state: NameScope = field(default_factory=lambda: NameScope("", {}))

    @property
    def size(self) -> int:
        """Number of the nodes of a round."""
        return 1 + sum(1 for _ in all_nodes(self.body.nodes))

    def first(self) -> Step:
        """The step that begins the loop."""
        return RoundStep(self, self.size)

    def outer_reads(self) -> Iterator[Key]:
        """The names outside of the state that its rounds read."""
        for argument in self.arguments:
            if isinstance(argument, Sliced | Same) and argument.name:
                yield self.scope, argument.name
        yield from ((self.scope, name) for name in self.body.captured)

    def body_scope(self, path: str) -> NameScope:
        """A new scope for the nodes of a round."""
        return NameScope(
            path, self.scope.imports, self.scope, self.body.initializers, self.scope.attributes
        )

    def nothing_stacked(self, number: int) -> np.ndarray:
        """The result ``number`` of no rounds: an empty array of the type that the file declares."""
        outputs = self.body.outputs
        declared = outputs[len(outputs) - len(self.stacked) + number].type
        inner = tuple(d if isinstance(d, int) else 0 for d in declared.shape or ())
        return np.zeros((0, *inner), (declared.dtype or DType.FLOAT32).numpy)

    def element_type(self, number: int) -> DType | None:
        """The element type of the stacked result ``number`` by the file's declaration."""
        outputs = self.body.outputs
        return outputs[len(outputs) - len(self.stacked) + number].type.dtype


@dataclass(frozen=True, eq=False)
class RoundStep(Step):
    """The decision about the round ``number``; the values that go into it stand in the state.

    ``size``: the nodes of a round. ``runs``: whether this round and the next are run.
    """

    loop: LoopNode
    size: int
    number: int = 0
    runs: bool = False
    is_round = True

    def reads(self) -> Iterator[Key]:
        loop = self.loop
        yield from loop.outer_reads()
        if loop.counted:
            yield loop.state, "condition"
        if loop.limited:
            yield loop.state, "limit"
        yield from ((loop.state, f"carried:{i}") for i in range(loop.carried))
        for k in range(len(loop.stacked)):
            yield from ((loop.state, f"stacked:{k}:{n}") for n in range(self.number))

    def again(self) -> RoundStep:
        """The round before, which is under way, to be run from its beginning."""
        return replace(self, number=self.number - 1, runs=True)

    def take(self, known: Known) -> Steps | None:
        loop = self.loop
        if self.runs or (loop.limited and loop.rounds is None):
            raise RunNeeded(self)
        if not self._goes_on(known):
            self._finish(known)
            return None
        certain = loop.rounds is not None and not loop.conditional
        left = loop.rounds - self.number if certain else 1  # type: ignore[operator]
        if known.unrolled + left * self.size > MOST_UNROLLED:
            raise RunNeeded(self)
        known.unrolled += self.size
        return self._body(known)

    def _goes_on(self, known: Known) -> bool:
        loop = self.loop
        if loop.rounds is not None and self.number >= loop.rounds:
            return False
        if not loop.conditional:
            return True
        condition = known.item(loop.state, "condition")
        if not isinstance(condition, Value) or condition.constant is None:
            raise RunNeeded(self)
        return decided(loop, condition.constant)

    def _body(self, known: Known) -> Steps:
        """The steps of this round, and the decision about the next."""
        loop, number = self.loop, self.number
        adder = Adder(known.builder, loop.origin)
        scope = loop.body_scope(f"{loop.origin.name}[{number}]/")
        arguments = [self._argument(adder, known, argument) for argument in loop.arguments]
        names = [value.name for value in loop.body.inputs]
        given = {(scope, name): item for name, item in zip(names, arguments, strict=False)}
        ends = tuple(value.name for value in loop.body.outputs)
        targets = ["condition"] if loop.counted else []
        targets += [f"carried:{i}" for i in range(loop.carried)]
        targets += [f"stacked:{k}:{number}" for k in range(len(loop.stacked))]
        nodes = [NodeStep(node, scope) for node in loop.body.nodes]
        bind = BindStep(scope, ends, loop.state, tuple(targets))
        return Steps([*nodes, bind, replace(self, number=number + 1)], given)

    def _argument(self, adder: Adder, known: Known, argument: Argument) -> Item:
        loop, number = self.loop, self.number
        if isinstance(argument, RoundNumber):
            return adder.constant(np.asarray(number, np.int64), f"round{number}")
        if isinstance(argument, Condition):
            return known.item(loop.state, "condition")
        if isinstance(argument, Carried):
            return known.item(loop.state, f"carried:{argument.number}")
        whole = known.item(loop.scope, argument.name)
        if isinstance(argument, Same):
            return whole
        if isinstance(whole, TensorList):
            return whole.values[number]
        assert isinstance(whole, Value) and argument.axis is not None
        dims, axis = whole.type.dims, argument.axis
        at = dims[axis] - 1 - number if argument.backwards else number
        taken = adder.add(Slice((at,), (at + 1,), (axis,)), whole)
        return adder.reshape(taken, (*dims[:axis], *dims[axis + 1 :]))

    def _finish(self, known: Known) -> None:
        """The node's outputs: the values carried, then the stacked ones."""
        loop = self.loop
        adder = Adder(known.builder, loop.origin)
        for i, target in enumerate(loop.node.outputs):
            if target and i < loop.carried:
                known.set(loop.scope, target, known.item(loop.state, f"carried:{i}"))
            elif target:
                k = i - loop.carried
                parts = [known.item(loop.state, f"stacked:{k}:{n}") for n in range(self.number)]
                known.set(loop.scope, target, _joined(adder, loop, k, parts))


def decided(loop: LoopNode, condition: np.ndarray) -> bool:
    """Whether a loop with this condition goes on. Raises ShapeError."""
    if condition.size != 1 or condition.dtype != bool:
        kind = f"{condition.dtype}{list(condition.shape)}"
        raise ShapeError(f"layer {loop.origin.name!r} has the condition {kind}, not one bool")
    return bool(condition.reshape(-1)[0])


def _joined(adder: Adder, loop: LoopNode, k: int, parts: Sequence[Item]) -> Item:
    """Values of all rounds along a new axis, or as a sequence."""
    stacked, values = loop.stacked[k], [part for part in parts if isinstance(part, Value)]
    if len(values) < len(parts):
        raise ShapeError(f"layer {loop.origin.name!r} stacks what is no tensor")
    if stacked.axis is None:
        return TensorList(tuple(values), values[0].type.dtype if values else loop.element_type(k))
    if not values:
        return adder.constant(loop.nothing_stacked(k), "none")
    axis = stacked.place(values[0].type.rank + 1, loop.origin)
    if any(not v.type.is_static for v in values):
        raise RunNeeded
    made = [adder.reshape(v, (*v.type.dims[:axis], 1, *v.type.dims[axis:])) for v in values]
    return adder.add(Concat(axis), *(made[::-1] if stacked.backwards else made))
