"""Loops round by round: the body is a graph of its own, and each round a run of it.

The graph is built once for all rounds whose values have the same types, and kept with the other
graphs of the network: later runs find it there. What goes from round to round are arrays of the
host's, results that are stacked are put together behind the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.formats.onnx.held import (
    KINDS,
    NOTHING,
    TENSOR,
    Held,
    HeldList,
    constant_item,
    element,
    feeds_of,
    held_item,
    input_item,
    is_live,
    place_of,
    types_of,
)
from vknn.formats.onnx.loops import (
    Carried,
    Condition,
    LoopNode,
    RoundNumber,
    RoundStep,
    Same,
    Sliced,
    decided,
)
from vknn.formats.onnx.records import NodeRecord
from vknn.formats.onnx.steps import Item, Key, NameScope, NodeStep, Step
from vknn.graph import Arrays, Call, DType, Graph, GraphBuilder, Value
from vknn.run_limits import Growth

#: Rounds of a loop that nothing but its condition ends, and of any loop.
MAX_ROUNDS = 100_000
MOST_ROUNDS = 10_000_000
#: Bytes of stacked results from which on what is free is looked at, whenever they have doubled.
CHECKED_FROM = 1 << 20
#: Builds the graph of steps: builder, what names stand for, scope, steps (the next one last), ends.
Build = Callable[
    [GraphBuilder, dict[Key, Item], NameScope, Sequence[Step], Mapping[str, str]], Graph
]


@dataclass(eq=False)
class LoopRun:
    """All rounds of a loop, from that of ``step`` on, for the arrays before it.

    ``items``: what names stand for, ``arrays``: of those of their values that are no constants.
    ``owner``: part of the keys that graphs are kept by.
    """

    step: RoundStep
    items: Mapping[Key, Item]
    arrays: Mapping[Value, np.ndarray]
    owner: object
    build: Build
    call: Call
    #: Counts of random draws, by what they are called in the graph; the rounds go on with them.
    counters: Sequence[Key] = ()
    _stacks: list[list[np.ndarray]] = field(init=False)
    _kept: Growth = field(init=False)

    def __post_init__(self) -> None:
        self._kept = Growth(CHECKED_FROM)
        loop = self.loop = self.step.loop
        self.place = f"layer {loop.origin.name!r}"
        self.number = self.step.number
        self._counts = {key: held_item(self.items[key], self.arrays) for key in self.counters}
        self.carried = [self._held(loop.state, f"carried:{i}") for i in range(loop.carried)]
        self.condition = self._held(loop.state, "condition") if loop.counted else None
        self.limit = self._limit()
        self._appended = appended_values(loop)
        self._outer = self._captured()
        self._feeds = {
            name: array
            for port, item, held in self._outer.values()
            if is_live(item)
            for name, array in feeds_of(port, held)
        }
        self._key = (self.owner, tuple(types_of(held) for _, _, held in self._outer.values()))
        self._slices = {
            argument.name: self._held(loop.scope, argument.name)
            for argument in loop.arguments
            if isinstance(argument, Sliced | Same)
        }
        self._stacks = [[] for _ in loop.stacked]
        for k in range(len(loop.stacked)):
            for n in range(self.number):
                self._stack(k, self._held(loop.state, f"stacked:{k}:{n}"))

    def run(self) -> dict[Key, Held]:
        """The values of the node's outputs after the last round."""
        while self._goes_on():
            run_limits.check()
            self._round()
            self.number += 1
        loop, found = self.loop, dict(self._counts)
        for i, target in enumerate(loop.node.outputs):
            if target and i < loop.carried:
                found[loop.scope, target] = self.carried[i]
            elif target:
                found[loop.scope, target] = self._stacked(i - loop.carried)
        return found

    # --- before and after -------------------------------------------------------------------------

    def _held(self, scope: NameScope, name: str) -> Held:
        key = place_of(self.items, scope, name) if name else None
        return None if key is None else held_item(self.items[key], self.arrays)

    def _limit(self) -> int | None:
        loop = self.loop
        if loop.rounds is not None or not loop.limited:
            return loop.rounds
        limit = self._held(loop.state, "limit")
        if not isinstance(limit, np.ndarray) or limit.size != 1:
            raise ShapeError(f"{self.place}: M is not one number")
        return int(limit.reshape(-1)[0])

    def _captured(self) -> dict[Key, tuple[str, Item, Held]]:
        """Values of the scopes around that the body reads: name of an input, item and arrays."""
        found: dict[Key, tuple[str, Item, Held]] = {}
        for name in self.loop.body.captured:
            key = place_of(self.items, self.loop.scope, name)
            if key is not None:
                item = self.items[key]
                found[key] = (f"outer:{len(found)}", item, held_item(item, self.arrays))
        return found

    def _stacked(self, k: int) -> Held:
        """The results of all rounds, put together."""
        stacked, arrays = self.loop.stacked[k], self._stacks[k]
        if stacked.axis is None:
            dtype = DType.of(arrays[0]) if arrays else self.loop.element_type(k)
            return HeldList(tuple(arrays), dtype)
        if not arrays:
            return self.loop.nothing_stacked(k)
        axis = stacked.place(arrays[0].ndim + 1, self.loop.origin)
        shapes = {a.shape for a in arrays}
        if len(shapes) > 1:
            raise ShapeError(f"{self.place} stacks results of the shapes {sorted(shapes)[:4]}")
        return np.stack(arrays[::-1] if stacked.backwards else arrays, axis)

    # --- rounds -----------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        if self.limit is not None and self.number >= self.limit:
            return False
        loop = self.loop
        if loop.conditional:
            if not isinstance(self.condition, np.ndarray):
                raise ShapeError(f"{self.place} has no condition")
            if not decided(loop, self.condition):
                return False
        endless = self.limit is None or self.limit > MOST_ROUNDS
        if self.number >= (MAX_ROUNDS if endless else MOST_ROUNDS):
            raise ShapeError(f"{self.place} did not end in {self.number} rounds")
        return True

    def _round(self) -> None:
        """A run of the body."""
        loop = self.loop
        given = [self._argument(argument) for argument in loop.arguments]
        feeds = dict(self._feeds)
        for position, held in enumerate(given):
            feeds.update(feeds_of(_port(position), held))
        for key_, held in self._counts.items():
            feeds.update(feeds_of(f"count:{key_[1]}", held))
        key = (self._key, tuple(map(types_of, given)))
        results = self.call(key, lambda: self._graph(given), feeds)
        ends = self._ends(results)
        self._counts = {(root, name): results[name] for root, name in self._counts}
        if loop.counted:
            self.condition = ends[0]
            del ends[0]
        for i in range(loop.carried):
            self.carried[i] = self._carried_on(i, ends[i])
        for k, held in enumerate(ends[loop.carried :]):
            self._stack(k, held)

    def _argument(self, argument: object) -> Held:
        """What an input of the body stands for in this round."""
        number = self.number
        if isinstance(argument, RoundNumber):
            return np.asarray(number, np.int64)
        if isinstance(argument, Condition):
            return self.condition
        if isinstance(argument, Carried):
            return None if argument.number in self._appended else self.carried[argument.number]
        assert isinstance(argument, Sliced | Same)
        whole = self._slices[argument.name]
        if isinstance(argument, Same):
            return whole
        if isinstance(whole, HeldList):
            return whole.arrays[number]
        assert isinstance(whole, np.ndarray) and argument.axis is not None
        at = whole.shape[argument.axis] - 1 - number if argument.backwards else number
        return np.asarray(whole[(slice(None),) * argument.axis + (at,)], order="C")

    def _carried_on(self, i: int, new: Held) -> Held:
        """A carried value for the next round."""
        before = self.carried[i]
        if i in self._appended:
            assert isinstance(before, HeldList) and isinstance(new, np.ndarray)
            self._count(new)
            return HeldList((*before.arrays, new), DType.of(new))
        if isinstance(new, HeldList) and new.dtype is None and isinstance(before, HeldList):
            return HeldList(new.arrays, before.dtype)
        return new

    def _stack(self, k: int, held: Held) -> None:
        if not isinstance(held, np.ndarray):
            raise ShapeError(f"{self.place} stacks what is no tensor")
        self._count(held)
        self._stacks[k].append(held)

    def _count(self, array: np.ndarray) -> None:
        """Check that what is kept of all rounds has room; raises OutOfMemoryError."""
        self._kept.add(
            array.nbytes,
            lambda: f"{self.place}: the results of {self.number + 1} rounds are kept",
        )

    # --- graphs -----------------------------------------------------------------------------------

    def _graph(self, given: Sequence[Held]) -> Graph:
        """The body as a graph, for arguments of these types."""
        loop, builder = self.loop, GraphBuilder(self.loop.body.name or "loop")
        scope = loop.body_scope(f"{loop.origin.name}/")
        known: dict[Key, Item] = {}
        constants: dict[Value, Value] = {}
        for key, (port, item, held) in self._outer.items():
            if is_live(item):
                known[key] = input_item(builder, port, held)
            else:
                known[key] = constant_item(builder, item, constants)
        for position, (value, held) in enumerate(zip(loop.body.inputs, given, strict=True)):
            known[scope, value.name] = input_item(builder, _port(position), held)
        for key, held in self._counts.items():
            known[key] = input_item(builder, f"count:{key[1]}", held)
        left_out = {node for node, _ in self._appended.values()}
        steps = [NodeStep(n, scope) for n in reversed(loop.body.nodes) if n not in left_out]
        ends = {f"end:{k}": value.name for k, value in enumerate(loop.body.outputs)}
        for i, (_, name) in self._appended.items():
            ends[f"end:{i + loop.counted}"] = name
        graph = self.build(builder, known, scope, steps, ends)
        self._check_end(graph)
        return graph

    def _check_end(self, graph: Graph) -> None:
        """Check that the loop can end; ShapeError for a condition that is always true."""
        first = graph.outputs.get("end:0") if graph.continuation is None else None
        if not self.loop.conditional or self.limit is not None or first is None:
            return
        if first.constant is not None and decided(self.loop, first.constant):
            raise ShapeError(f"{self.place} cannot end: its condition is always true")

    def _ends(self, results: Arrays) -> list[Held]:
        """What the body's outputs stand for."""
        count = len(self.loop.body.outputs)
        kinds = results.get(KINDS)
        if kinds is None:
            return [results[f"end:{k}"] for k in range(count)]
        found: list[Held] = []
        for k, kind in enumerate(kinds.tolist()):
            port = f"end:{k}"
            if kind == TENSOR:
                found.append(results[port])
            elif kind == NOTHING:
                found.append(None)
            else:
                arrays = tuple(results[element(port, n)] for n in range(kind))
                found.append(HeldList(arrays, DType.of(arrays[0]) if arrays else None))
        return found


def appended_values(loop: LoopNode) -> dict[int, tuple[NodeRecord, str]]:
    """Carried sequences that rounds only append to: the node that does it, the new element's name.

    Their elements are not fed to the body, whose graph so is one for all lengths.
    """
    found: dict[int, tuple[NodeRecord, str]] = {}
    readers: dict[str, int] = {}
    names = [name for node in loop.body.nodes for name in node.reads]
    names += [value.name for value in loop.body.outputs]
    for name in names:
        readers[name] = readers.get(name, 0) + 1
    makers = {name: node for node in loop.body.nodes for name in node.outputs}
    for position, argument in enumerate(loop.arguments):
        if not isinstance(argument, Carried):
            continue
        own = loop.body.inputs[position].name
        end = loop.body.outputs[argument.number + loop.counted].name
        maker = makers.get(end)
        if maker is None or maker.key != ("", "SequenceInsert", ""):
            continue
        inputs = tuple(name for name in maker.inputs if name)
        if len(inputs) == 2 and inputs[0] == own and readers[own] == readers[end] == 1:
            found[argument.number] = (maker, inputs[1])
    return found


def _port(position: int) -> str:
    """Name of the input of a body's graph for its argument at ``position``."""
    return f"argument:{position}"
