"""Control flow: the nodes of subgraphs take the place of the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.layer_context import NeedsData
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.records import GraphRecord, NodeRecord
from vknn.formats.onnx.registry import operator
from vknn.formats.onnx.steps import (
    Adder,
    BindStep,
    Item,
    Key,
    Known,
    NameScope,
    NodeStep,
    Step,
    Steps,
    TensorList,
)
from vknn.graph import DType, Origin, Value
from vknn.ops.movement.shape import Concat, Slice

_VERSIONS = (11, 13, 16, 19, 21, 23, 24, 25)
#: Rounds of a loop that nothing else ends.
MAX_ROUNDS = 100_000
_ANY = (0, None)


@operator("If", 1, *_VERSIONS, inputs=1, outputs=_ANY, any_type=True)
def branch(c: Context) -> Steps:
    """The nodes of one of two subgraphs; the other one's are never looked at"""
    name = "then_branch" if bool(c.number(0, "cond")) else "else_branch"
    graph = c.graph(name)
    count = len(graph.outputs)
    c.require(count >= len(c.node.outputs), f"{name} has {count} outputs")
    return c.inlined(graph, (), name)


@dataclass(frozen=True)
class _Sliced:
    """A tensor of which each round gets the next slice. ``name``: in the node's scope."""

    name: str
    axis: int
    backwards: bool


@dataclass(frozen=True)
class _Stacked:
    """Results of all rounds, stacked along a new axis."""

    axis: int = 0
    backwards: bool = False


@dataclass(frozen=True, eq=False)
class _Loop:
    """What all rounds of a loop share.

    ``carried``: how many values go from round to round; ``rounds``: how many there are at most,
    None where only the condition decides; ``counted``: whether a round is told its number and the
    condition, as Loop's are. ``state``: the scope of what goes from round to round.
    """

    node: NodeRecord
    scope: NameScope
    origin: Origin
    body: GraphRecord
    state: NameScope
    carried: int
    rounds: int | None
    counted: bool
    conditional: bool = False
    sliced: tuple[_Sliced, ...] = ()
    stacked: tuple[_Stacked, ...] = ()


@dataclass(frozen=True, eq=False)
class _Round(Step):
    """The decision about the round ``number``; the values that go into it stand in the state."""

    loop: _Loop
    number: int = 0

    def reads(self) -> Iterator[Key]:
        loop = self.loop
        yield from ((loop.scope, part.name) for part in loop.sliced)
        yield from ((loop.scope, name) for name in loop.body.captured)
        if loop.counted:
            yield loop.state, "condition"
        yield from ((loop.state, f"carried:{i}") for i in range(loop.carried))
        for k in range(len(loop.stacked)):
            yield from ((loop.state, f"stacked:{k}:{n}") for n in range(self.number))

    def take(self, known: Known) -> Steps | None:
        if self._goes_on(known):
            return self._body(known)
        self._finish(known)
        return None

    def _goes_on(self, known: Known) -> bool:
        loop = self.loop
        if loop.rounds is not None and self.number >= loop.rounds:
            return False
        if self.number >= MAX_ROUNDS:
            raise ShapeError(f"layer {loop.origin.name!r} did not end in {MAX_ROUNDS} rounds")
        if not loop.conditional:
            return True
        condition = known.item(loop.state, "condition")
        if not isinstance(condition, Value) or not condition.type.is_static:
            raise ShapeError(f"layer {loop.origin.name!r} has no condition")
        if condition.constant is None:
            raise NeedsData(condition)
        if condition.type.size != 1:
            raise ShapeError(f"layer {loop.origin.name!r} has the condition {condition.type}")
        return bool(condition.constant.reshape(-1)[0])

    def _body(self, known: Known) -> Steps:
        """The steps of this round, and the decision about the next."""
        loop, number = self.loop, self.number
        adder = Adder(known.builder, loop.origin)
        path = f"{loop.origin.name}[{number}]/"
        scope = NameScope(
            path, loop.scope.imports, loop.scope, loop.body.initializers, loop.scope.attributes
        )
        arguments: list[Item] = []
        if loop.counted:
            count = adder.constant(np.asarray(number, np.int64), f"round{number}")
            arguments = [count, known.item(loop.state, "condition")]
        arguments += [known.item(loop.state, f"carried:{i}") for i in range(loop.carried)]
        arguments += [_part(adder, known, loop, part, number) for part in loop.sliced]
        names = [value.name for value in loop.body.inputs]
        given = {(scope, name): item for name, item in zip(names, arguments, strict=False)}
        ends = tuple(value.name for value in loop.body.outputs)
        targets = ["condition"] if loop.counted else []
        targets += [f"carried:{i}" for i in range(loop.carried)]
        targets += [f"stacked:{k}:{number}" for k in range(len(loop.stacked))]
        nodes = [NodeStep(node, scope) for node in loop.body.nodes]
        bind = BindStep(scope, ends, loop.state, tuple(targets))
        return Steps([*nodes, bind, replace(self, number=number + 1)], given)

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


def _part(adder: Adder, known: Known, loop: _Loop, part: _Sliced, number: int) -> Value:
    """The slice of a tensor for one round."""
    whole = known.item(loop.scope, part.name)
    assert isinstance(whole, Value)
    dims = whole.type.dims
    at = dims[part.axis] - 1 - number if part.backwards else number
    taken = adder.add(Slice((at,), (at + 1,), (part.axis,)), whole)
    return adder.reshape(taken, (*dims[: part.axis], *dims[part.axis + 1 :]))


def _joined(adder: Adder, loop: _Loop, k: int, parts: Sequence[Item]) -> Value:
    """Values of all rounds along a new axis; of no rounds an empty tensor of the declared type."""
    stacked, values = loop.stacked[k], [part for part in parts if isinstance(part, Value)]
    if not values:
        declared = loop.body.outputs[len(loop.body.outputs) - len(loop.stacked) + k].type
        inner = tuple(d if isinstance(d, int) else 0 for d in declared.shape or ())
        dtype = declared.dtype or DType.FLOAT32
        return adder.constant(np.zeros((0, *inner), dtype.numpy), "none")
    rank = values[0].type.rank + 1
    axis = stacked.axis + rank if stacked.axis < 0 else stacked.axis
    if not 0 <= axis < rank:
        raise ShapeError(f"layer {loop.origin.name!r} stacks along axis {stacked.axis}")
    made = [adder.reshape(v, (*v.type.dims[:axis], 1, *v.type.dims[axis:])) for v in values]
    return adder.add(Concat(axis), *(made[::-1] if stacked.backwards else made))


@operator("Loop", 1, *_VERSIONS, inputs=(2, None), outputs=_ANY, any_type=True, lists=True)
def loop(c: Context) -> Steps:
    """The body's nodes, once for each round"""
    body, carried = c.graph("body"), len(c.items) - 2
    c.require(len(body.inputs) == carried + 2, f"has {carried} values, its body others")
    stacks = len(body.outputs) - 1 - carried
    c.require(stacks >= 0, f"its body gives {len(body.outputs)} values")
    c.require(len(c.node.outputs) <= carried + stacks, f"has {len(c.node.outputs)} outputs")
    rounds = None
    if c.optional(0) is not None:
        rounds = max(0, int(c.number(0, "M")))
    state = NameScope("", {})
    condition = c.optional(1)
    conditional = condition is not None
    if condition is None:
        condition = c.constant(np.asarray(True), "condition")
    given: dict[Key, Item] = {(state, "condition"): condition}
    given |= {(state, f"carried:{i}"): item for i, item in enumerate(c.items[2:])}
    made = _Loop(
        c.node, c.scope, c.origin, body, state, carried, rounds, True, conditional,
        stacked=(_Stacked(),) * stacks,
    )  # fmt: skip
    return Steps([_Round(made)], given)


@operator(
    "Scan", 9, *(v for v in _VERSIONS if v != 13), inputs=(1, None), outputs=_ANY, any_type=True
)
def scan(c: Context) -> Steps:
    """The body's nodes, once for each slice of the inputs"""
    body, count = c.graph("body"), c.int("num_scan_inputs")
    carried = len(c.items) - count
    c.require(count >= 1 and carried >= 0, f"has {count} inputs to scan of {len(c.items)}")
    c.require(len(body.inputs) == len(c.items), f"its body takes {len(body.inputs)} values")
    stacks = len(body.outputs) - carried
    c.require(stacks >= 0, f"its body gives {len(body.outputs)} values")
    c.require(len(c.node.outputs) <= len(body.outputs), f"has {len(c.node.outputs)} outputs")
    axes = c.int_list("scan_input_axes", (0,) * count, count)
    turned = c.int_list("scan_input_directions", (0,) * count, count)
    sliced = tuple(
        _Sliced(name, c.axis(axis, c.value(carried + k).type.rank), backwards != 0)
        for k, (name, axis, backwards) in enumerate(
            zip(c.node.inputs[carried:], axes, turned, strict=True)
        )
    )
    sizes = {c.value(carried + k).type.dims[part.axis] for k, part in enumerate(sliced)}
    c.require(len(sizes) == 1, f"scans inputs of the sizes {sorted(sizes)}")
    out_axes = c.int_list("scan_output_axes", (0,) * stacks, stacks)
    out_turned = c.int_list("scan_output_directions", (0,) * stacks, stacks)
    state = NameScope("", {})
    given: dict[Key, Item] = {
        (state, f"carried:{i}"): item for i, item in enumerate(c.items[:carried])
    }
    stacked = tuple(_Stacked(a, t != 0) for a, t in zip(out_axes, out_turned, strict=True))
    made = _Loop(
        c.node, c.scope, c.origin, body, state, carried, sizes.pop(), False, False, sliced, stacked
    )
    return Steps([_Round(made)], given)


@operator("SequenceMap", 17, inputs=(1, None), outputs=(1, None), any_type=True, lists=True)
def sequence_map(c: Context) -> Steps:
    """The body's nodes, once for each element of a sequence"""
    body, first = c.graph("body"), c.tensors(0)
    count = len(first.values)
    c.require(len(c.node.outputs) <= len(body.outputs), f"has {len(c.node.outputs)} outputs")
    state, steps = NameScope("", {}), list[Step]()
    given: dict[Key, Item] = {}
    for number in range(count):
        scope = replace(c.subscope(body, f"body[{number}]"))
        for value, item in zip(body.inputs, c.items, strict=False):
            whole = isinstance(item, TensorList)
            if whole:
                c.require(len(item.values) == count, "maps sequences of different lengths")  # type: ignore[union-attr]
            given[scope, value.name] = item.values[number] if isinstance(item, TensorList) else item
        ends = tuple(value.name for value in body.outputs)
        steps += [NodeStep(node, scope) for node in body.nodes]
        targets = tuple(f"{k}:{number}" for k in range(len(ends)))
        steps.append(BindStep(scope, ends, state, targets))
    dtypes = [value.type.dtype for value in body.outputs]
    gathered = _Gathered(state, count, c.scope, c.node.outputs, tuple(dtypes))
    return Steps([*steps, gathered], given)


@dataclass(frozen=True, eq=False)
class _Gathered(Step):
    """Sequences made of what stands in ``state`` for each element."""

    state: NameScope
    count: int
    target: NameScope
    targets: tuple[str, ...]
    dtypes: tuple[DType | None, ...]

    def reads(self) -> Iterator[Key]:
        for k in range(len(self.targets)):
            yield from ((self.state, f"{k}:{n}") for n in range(self.count))

    def take(self, known: Known) -> Steps | None:
        for k, target in enumerate(self.targets):
            if target:
                items = [known.item(self.state, f"{k}:{n}") for n in range(self.count)]
                values = tuple(item for item in items if isinstance(item, Value))
                known.set(self.target, target, TensorList(values, self.dtypes[k]))
        return None
