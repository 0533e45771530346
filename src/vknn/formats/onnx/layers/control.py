"""Control flow: the nodes of subgraphs take the place of the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.loops import (
    Argument,
    Carried,
    Condition,
    LoopNode,
    RoundNumber,
    Same,
    Sliced,
    Stacked,
)
from vknn.formats.onnx.records import NodeRecord
from vknn.formats.onnx.registry import operator
from vknn.formats.onnx.steps import (
    Adder,
    Item,
    Key,
    Known,
    NameScope,
    RunNeeded,
    Step,
    Steps,
    TensorList,
)
from vknn.graph import DType, Origin, Value
from vknn.ops.movement.shape import Concat, Slice

_VERSIONS = (11, 13, 16, 19, 21, 23, 24, 25)
_ANY = (0, None)


@operator("If", 1, *_VERSIONS, inputs=1, outputs=_ANY, any_type=True)
def branch(c: Context) -> Steps:
    """The nodes of one of two subgraphs; the other one's are never looked at"""
    c.require(c.x.type.dtype is DType.BOOL, f"has the condition {c.x.type}")
    graphs = {name: c.graph(name) for name in ("then_branch", "else_branch")}
    for name, graph in graphs.items():
        c.require(not graph.inputs, f"{name} has inputs")
    counts = [len(graph.outputs) for graph in graphs.values()]
    good = counts[0] == counts[1] == len(c.node.outputs)
    c.require(good, f"has {len(c.node.outputs)} outputs, its branches {counts[0]} and {counts[1]}")
    name = "then_branch" if bool(c.number(0, "cond")) else "else_branch"
    graph = graphs[name]
    return c.inlined(graph, (), name)


@operator("Loop", 1, *_VERSIONS, inputs=(2, None), outputs=_ANY, any_type=True, lists=True)
def loop(c: Context) -> Steps:
    """The body's nodes, once for each round"""
    body, carried = c.graph("body"), len(c.items) - 2
    c.require(len(body.inputs) == carried + 2, f"has {carried} values, its body others")
    stacks = len(body.outputs) - 1 - carried
    c.require(stacks >= 0, f"its body gives {len(body.outputs)} values")
    outputs = len(c.node.outputs)
    c.require(outputs == carried + stacks, f"has {outputs} outputs, its body gives others")
    limit, condition = c.optional(0), c.optional(1)
    rounds = None
    if limit is not None:
        c.require(limit.type.dtype.is_integer, f"M is {limit.type}")
        if limit.constant is not None:
            rounds = max(0, int(c.number(0, "M")))
    conditional = condition is not None
    if condition is None:
        condition = c.constant(np.asarray(True), "condition")
    c.require(condition.type.dtype is DType.BOOL, f"has the condition {condition.type}")
    made = LoopNode(
        c.node, c.scope, c.origin, body,
        (RoundNumber(), Condition(), *map(Carried, range(carried))), carried,
        rounds, limit is not None, True, conditional, (Stacked(),) * stacks,
    )  # fmt: skip
    state = made.state
    given: dict[Key, Item] = {(state, "condition"): condition, (state, "limit"): limit}
    given |= {(state, f"carried:{i}"): item for i, item in enumerate(c.items[2:])}
    return Steps([made.first()], given)


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
    outputs = len(c.node.outputs)
    c.require(outputs == len(body.outputs), f"has {outputs} outputs, its body gives others")
    axes = c.int_list("scan_input_axes", (0,) * count, count)
    turned = _directions(c, "scan_input_directions", count)
    sliced = tuple(
        Sliced(name, c.axis(axis, c.value(carried + k).type.rank), backwards != 0)
        for k, (name, axis, backwards) in enumerate(
            zip(c.node.inputs[carried:], axes, turned, strict=True)
        )
    )
    sizes = {
        c.value(carried + k).type.dims[part.axis]
        for k, part in enumerate(sliced)
        if part.axis is not None
    }
    c.require(len(sizes) == 1, f"scans inputs of the sizes {sorted(sizes)}")
    out_axes = c.int_list("scan_output_axes", (0,) * stacks, stacks)
    out_turned = _directions(c, "scan_output_directions", stacks)
    stacked = tuple(Stacked(a, t != 0) for a, t in zip(out_axes, out_turned, strict=True))
    made = LoopNode(
        c.node, c.scope, c.origin, body, (*map(Carried, range(carried)), *sliced), carried,
        sizes.pop(), stacked=stacked,
    )  # fmt: skip
    given: dict[Key, Item] = {
        (made.state, f"carried:{i}"): item for i, item in enumerate(c.items[:carried])
    }
    return Steps([made.first()], given)


def _directions(c: Context, name: str, count: int) -> Sequence[int]:
    found: Sequence[int] = c.int_list(name, (0,) * count, count)
    c.require(set(found) <= {0, 1}, f"has the directions {list(found)}")
    return found


@operator("SequenceMap", 17, inputs=(1, None), outputs=(1, None), any_type=True, lists=True)
def sequence_map(c: Context) -> Steps:
    """The body's nodes, once for each element of a sequence"""
    body, count = c.graph("body"), len(c.tensors(0).values)
    outputs = len(c.node.outputs)
    c.require(outputs == len(body.outputs), f"has {outputs} outputs, its body gives others")
    c.require(len(body.inputs) == len(c.items), f"its body takes {len(body.inputs)} values")
    arguments: list[Argument] = []
    for name, item in zip(c.node.inputs, c.items, strict=True):
        if isinstance(item, TensorList):
            c.require(len(item.values) == count, "maps sequences of different lengths")
            arguments.append(Sliced(name, None))
        else:
            arguments.append(Same(name))
    stacked = (Stacked(None),) * len(body.outputs)
    made = LoopNode(
        c.node, c.scope, c.origin, body, tuple(arguments), rounds=count, stacked=stacked
    )
    return Steps([made.first()])


@operator("Scan", 8, inputs=(2, None), outputs=_ANY, any_type=True)
def scan_of_batches(c: Context) -> Steps:
    """The body's nodes, once for each slice of each entry of a batch"""
    body, count = c.graph("body"), c.int("num_scan_inputs")
    items, names = c.items[1:], c.node.inputs[1:]
    carried = len(items) - count
    c.require(count >= 1 and carried >= 0, f"has {count} inputs to scan of {len(items)}")
    c.require(len(body.inputs) == len(items), f"its body takes {len(body.inputs)} values")
    c.require(len(body.outputs) >= carried, f"its body gives {len(body.outputs)} values")
    outputs = len(c.node.outputs)
    c.require(outputs == len(body.outputs), f"has {outputs} outputs, its body gives others")
    values = [c.value(number) for number in range(1, len(c.items))]
    batches = {v.type.dims[0] if v.type.rank else -1 for v in values}
    ranks = all(v.type.rank >= 2 for v in values[carried:])
    c.require(ranks and len(batches) == 1, f"scans batches of the sizes {sorted(batches)}")
    lengths = {v.type.dims[1] for v in values[carried:]}
    c.require(len(lengths) == 1, f"scans inputs of the sizes {sorted(lengths)}")
    batch, length = batches.pop(), lengths.pop()
    c.require(batch > 0, "scans a batch of nothing")
    rounds = [length] * batch if c.optional(0) is None else c.ints(0, "sequence_lens")
    good = len(rounds) == batch and all(0 <= number <= length for number in rounds)
    c.require(good, f"has the lengths {rounds[:8]} for {batch} sequences of {length}")
    turned = _directions(c, "directions", count)
    stacked = (Stacked(),) * (len(body.outputs) - carried)
    steps: list[Step] = []
    given: dict[Key, Item] = {}
    for entry in range(batch):
        own = tuple(entry_name(name, entry) for name in names)
        for name, value in zip(own, values, strict=True):
            taken = c.add(Slice((entry,), (entry + 1,), (0,)), value)
            given[c.scope, name] = c.reshape(taken, value.type.dims[1:])
        sliced = tuple(
            Sliced(name, 0, backwards != 0)
            for name, backwards in zip(own[carried:], turned, strict=True)
        )
        ends = tuple(name and entry_name(name, entry) for name in c.node.outputs)
        made = LoopNode(
            replace(c.node, outputs=ends), c.scope, c.origin, body,
            (*map(Carried, range(carried)), *sliced), carried, rounds[entry], stacked=stacked,
        )  # fmt: skip
        for i in range(carried):
            given[made.state, f"carried:{i}"] = given[c.scope, own[i]]
        steps.append(made.first())
    return Steps([*steps, JoinedEntries(c.node, c.scope, c.origin, carried, batch, length)], given)


def entry_name(name: str, entry: int) -> str:
    """Name of one entry of a batch of values called ``name``."""
    return f"{name}\0entry {entry}"


@dataclass(frozen=True, eq=False)
class JoinedEntries(Step):
    """Batches made of their entries; stacked results are followed by zeros up to ``length``."""

    node: NodeRecord
    scope: NameScope
    origin: Origin
    carried: int
    batch: int
    length: int

    def reads(self) -> Iterator[Key]:
        for name in filter(None, self.node.outputs):
            yield from ((self.scope, entry_name(name, entry)) for entry in range(self.batch))

    def take(self, known: Known) -> None:
        adder = Adder(known.builder, self.origin)
        for number, name in enumerate(self.node.outputs):
            if not name:
                continue
            items = [known.item(self.scope, entry_name(name, e)) for e in range(self.batch)]
            values = [item for item in items if isinstance(item, Value)]
            if any(not v.type.is_static for v in values):
                raise RunNeeded
            if number >= self.carried:
                inner = next((v.type.dims[1:] for v in values if v.type.dims[0]), None)
                values = [self._filled(adder, v, inner or v.type.dims[1:]) for v in values]
            made = [adder.reshape(v, (1, *v.type.dims)) for v in values]
            known.set(self.scope, name, adder.add(Concat(0), *made))

    def _filled(self, adder: Adder, value: Value, inner: tuple[int, ...]) -> Value:
        rounds = value.type.dims[0]
        if rounds == self.length:
            return value
        zeros = np.zeros((self.length - rounds, *inner), value.type.dtype.numpy)
        rest = adder.constant(zeros, "zeros")
        return adder.add(Concat(0), value, rest) if rounds else rest
