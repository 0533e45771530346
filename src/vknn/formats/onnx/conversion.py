"""Conversion of steps to a graph, up to the end or to where data are needed.

Graphs are built for concrete shapes. A graph ends before a step that needs data computed at run
time (a shape, an axis, a condition) or reads a tensor whose shape depends on data. When that graph
has run, the next one is built from that step on: the data that it needs are constants of it, all
other tensors that are still read are its inputs. It also ends before a loop that is to be run round
by round (``loop_runs``), and before the round of a loop in which something waits for data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.layer_context import NeedsData
from vknn.formats.layer_errors import errors_of
from vknn.formats.onnx.complex_types import COMPLEX_OPERATORS, refuse_complex
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.custom import known_type
from vknn.formats.onnx.functions import MAX_NODES
from vknn.formats.onnx.held import (
    KINDS,
    Held,
    bytes_of,
    constant_item,
    feeds_of,
    held_item,
    input_item,
    is_live,
    kinds_of,
    place_of,
    ports,
    types_of,
)
from vknn.formats.onnx.items import (
    check_results,
    check_tensors,
    is_small,
    renewed_item,
    several,
    tensors_of,
)
from vknn.formats.onnx.random_draws import SEEDED, UNSEEDED
from vknn.formats.onnx.registry import OperatorVersion
from vknn.formats.onnx.small_floats import narrowed, widened
from vknn.formats.onnx.steps import (
    BindStep,
    Item,
    Key,
    NameScope,
    NodeStep,
    RunNeeded,
    Source,
    Step,
    Steps,
)
from vknn.graph import Arrays, Call, Continuation, Graph, GraphBuilder, TensorType, Value
from vknn.ops.elementwise import Add

if TYPE_CHECKING:
    from vknn.formats.onnx.loops import RoundStep

#: Letters of a call's name in those of the nodes inside it, which may be deep.
_LONGEST_LABEL = 80


class ShapeNeeded(Exception):
    """A step reads a tensor whose shape depends on data."""


class Conversion:
    """A graph under construction, and the steps that are still to be taken, the next one last."""

    def __init__(
        self, source: Source, builder: GraphBuilder, known: dict[Key, Item], steps: Iterable[Step]
    ) -> None:
        self.source, self.builder, self.known = source, builder, known
        self.steps = list(steps)
        self.unrolled = 0
        self._taken = 0

    def run(self) -> Graph:
        """The graph of all steps, or of those up to one that has to wait."""
        while self.steps:
            step = self.steps.pop()
            self._taken += 1
            if self._taken > MAX_NODES:
                raise ShapeError(f"more than {MAX_NODES} nodes with all repetitions of loops")
            try:
                following = step.take(self)
            except NeedsData as need:
                return self._stopped(step, need.value)
            except (ShapeNeeded, RunNeeded):
                return self._stopped(step, None)
            if following is not None:
                self.known.update(following.given)
                self.steps += reversed(following.steps)
        main = self.source.main
        results = {port: self.item(main, name) for port, name in self.source.ends.items()}
        if main is self.source.root:
            check_results(self.source.model.graph, results, self.source.file)
        outputs = dict(pair for end in results.items() for pair in ports(*end).items())
        kinds = kinds_of(results.values()) if self.source.kinds else None
        if kinds is not None:
            outputs[KINDS] = self.builder.constant(kinds, KINDS)
        for _, name in self._counters():
            outputs |= ports(name, self.known[self.source.root, name])
        return self.builder.finish(outputs, blobs=self.blobs())

    def blobs(self) -> dict[str, Value]:
        """Values of the main graph that are known, by their names in the file."""
        main = self.source.main
        return {
            name: item
            for (scope, name), item in self.known.items()
            if scope is main and isinstance(item, Value)
        }

    # --- names ------------------------------------------------------------------------------------

    def find(self, scope: NameScope, name: str) -> Key | None:
        """The key of what a name stands for in a scope, or None where it is not known yet."""
        at: NameScope | None = scope
        while at is not None:
            if (at, name) in self.known:
                return at, name
            if name in at.initializers:
                tensor = at.initializers[name]
                stored = tensor.array
                self.known[at, name] = self.builder.constant(stored, at.path + name)
                return at, name
            at = at.outer
        return None

    def item(self, scope: NameScope, name: str) -> Item:
        """Item that a name stands for; "": nothing. Raises ModelFormatError for an unknown name."""
        if not name:
            return None
        found = self.find(scope, name)
        if found is None:
            raise ModelFormatError(
                f"{scope.path or 'the graph'} reads {name!r}, which has no value yet",
                file=self.source.file,
            )
        return self.known[found]

    def set(self, scope: NameScope, name: str, item: Item) -> None:
        """Assignment of what a name stands for."""
        self.known[scope, name] = item

    def _counters(self) -> list[Key]:
        """The counters of random draws, as far as the model has them."""
        keys = [(self.source.root, name) for name in (SEEDED, UNSEEDED)]
        return [key for key in keys if key in self.known]

    def draw(self, seeded: bool) -> Value:
        """The number of random draws so far, int32 (1,), with a seed or without; counts one."""
        root, name = self.source.root, SEEDED if seeded else UNSEEDED
        drawn = self.known.get((root, name))
        if not isinstance(drawn, Value):
            raise ModelFormatError("draws random numbers, which nothing counts here")
        one = self.builder.constant(np.ones(1, np.int32), "one draw")
        self.known[root, name] = self.builder.add(Add(), drawn, one, name="draws")
        return drawn

    # --- nodes ------------------------------------------------------------------------------------

    def convert(self, step: NodeStep) -> Steps | None:
        """Conversion of a node, or the steps that take its place."""
        node, scope = step.node, step.scope
        if node.key in self.source.model.functions:
            return self._called(step)
        items = [self.item(scope, name) for name in node.inputs]
        values = [item if isinstance(item, Value) else None for item in items]
        if any(v is not None and not v.type.is_static for v in tensors_of(items)):
            raise ShapeNeeded
        found = known_type(node, scope.imports)
        assert found is not None, "unknown operators are refused when a model is loaded"
        with errors_of(self.source.place(step), self.source.file, scope.path + node.label):
            return self._converted(step, found, items, values)

    def _converted(
        self,
        step: NodeStep,
        found: OperatorVersion,
        items: Sequence[Item],
        values: Sequence[Value | None],
    ) -> Steps | None:
        node, scope = step.node, step.scope
        small: Sequence[bool] = ()
        context = Context(self.builder, node, scope, items, values, found.version, self.draw)
        if not found.lists:
            check_tensors(context, items)
        if found.domain or found.name not in COMPLEX_OPERATORS:
            refuse_complex(context)
        if not found.any_type:
            small = widened(context)
        results = found.convert(context)
        if isinstance(results, Steps):
            return results
        made = narrowed(context, several(results), small, found.like)
        for number, name in enumerate(node.outputs):
            if not name:
                continue
            if number >= len(made):
                context.refuse(f"output {number}")
            self.known[scope, name] = made[number]
        return None

    def _called(self, step: NodeStep) -> Steps:
        """The steps of a function, in place of its call."""
        node, function = step.node, self.source.model.functions[step.node.key]
        given = {
            name: found
            for name in (*function.attributes, *function.defaults)
            if (found := node.attributes.get(name) or function.defaults.get(name)) is not None
        }
        outer = step.scope.attributes
        attributes = {
            name: outer.get(found.reference) if found.reference else found
            for name, found in given.items()
        }
        present = {name: found for name, found in attributes.items() if found is not None}
        label = node.label[:_LONGEST_LABEL]
        scope = NameScope(f"{step.scope.path}{label}/", function.imports, None, {}, present)
        items = {(scope, name): None for name in function.inputs}
        names = zip(function.inputs, node.inputs, strict=False)
        known = {(scope, inner): self.item(step.scope, name) for inner, name in names}
        nodes = [NodeStep(inner, scope) for inner in function.nodes]
        end = BindStep(scope, function.outputs, step.scope, node.outputs)
        return Steps([*nodes, end], {**items, **known})

    # --- continuation -----------------------------------------------------------------------------

    def _stopped(self, step: Step, decisive: Value | None) -> Graph:
        """The graph before ``step``, or before the round of a loop that it belongs to.

        That is the outermost whose rounds stand in the graph: it is run from this round on.
        """
        for position, waiting in enumerate(self.steps):
            if waiting.is_round:
                del self.steps[position:]
                return self._unfinished(waiting.again(), None)
        return self._unfinished(step, decisive)

    def _unfinished(self, step: Step, decisive: Value | None) -> Graph:
        """The graph before ``step``; its continuation takes all values that are still read.

        ``decisive``: the value whose data the step needs; with it go the other small integer inputs
        of the step, which it is likely to ask for next.
        """
        reads = [key for s in (step, *reversed(self.steps)) for key in s.reads()]
        reads += [(self.source.main, name) for name in self.source.ends.values()]
        reads += self._counters()
        keys = dict.fromkeys(found for key in reads if (found := self.find(*key)) is not None)
        items = {key: self.known[key] for key in keys}
        live = dict.fromkeys(v for v in tensors_of(items.values()) if v.constant is None)
        if decisive is not None and decisive not in live:
            raise ShapeError("an operator waits for data that nothing gives")
        names = {value: f"value:{number}" for number, value in enumerate(live)}
        needed = {decisive} if decisive is not None else set()
        if decisive is not None and isinstance(step, NodeStep):
            others = [self.item(step.scope, name) for name in step.node.inputs[1:]]
            needed |= {v for v in tensors_of(others) if v in live and is_small(v.type)}
        steps = tuple(self.steps)
        if step.is_round:
            rest: _Continuation = _LoopContinuation(
                self.source, steps, items, names, needed, cast("RoundStep", step)
            )
        else:
            rest = _Continuation(self.source, (*steps, step), items, names, needed)
        return self.builder.finish({name: value for value, name in names.items()}, rest)


@dataclass(eq=False)
class _Continuation(Continuation):
    """Conversion and execution of the steps that are left.

    ``names``: the values that the graph before gives; ``decisive``: those whose data are needed.
    """

    source: Source
    steps: tuple[Step, ...]
    items: Mapping[Key, Item]
    names: Mapping[Value, str]
    decisive: Set[Value]

    def __post_init__(self) -> None:
        self.takes = tuple(self.names.values())
        self.decided_by = tuple(self.names[value] for value in self.decisive)
        nodes = (s.node for s in reversed(self.steps) if isinstance(s, NodeStep))
        self.layers = tuple(node.type for node in nodes)

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        fixed = {self.names[value]: arrays[self.names[value]] for value in self.decisive}
        fed = {name: array for name, array in arrays.items() if name not in fixed}
        types = {name: TensorType.of(array) for name, array in fed.items()}
        data = tuple((n, a.shape, bytes_of(a)) for n, a in sorted(fixed.items()))
        return call((self, tuple(types.items()), data), lambda: self._next(types, fixed), fed)

    def _next(self, types: Mapping[str, TensorType], fixed: Mapping[str, np.ndarray]) -> Graph:
        builder = self._builder()
        renewed: dict[Value, Value] = {}
        for value, name in self.names.items():  # inputs first, so that they keep their names
            if name not in fixed:
                renewed[value] = builder.input(name, types[name])
        for value, name in self.names.items():
            if name in fixed:
                renewed[value] = builder.constant(fixed[name], value.name)
        for value in tensors_of(self.items.values()):
            if value.constant is not None and value not in renewed:
                renewed[value] = builder.constant(value.constant, value.name)
        known = {key: renewed_item(item, renewed) for key, item in self.items.items()}
        return Conversion(self.source, builder, known, self.steps).run()

    def _builder(self) -> GraphBuilder:
        return GraphBuilder(self.source.model.graph.name or "onnx")


@dataclass(eq=False)
class _LoopContinuation(_Continuation):
    """The rounds of a loop from that of ``loop`` on, then the steps that are left."""

    loop: RoundStep

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layers = (self.loop.loop.node.type, *self.layers)

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        # Few models have loops, and the modules about them are long.
        from vknn.formats.onnx.loop_runs import LoopRun

        known = {value: arrays[name] for value, name in self.names.items()}
        made = LoopRun(self.loop, self.items, known, self, self._body, call, self._counters()).run()
        held = {key: held_item(self.items[key], known) for key in self._read} | made
        if not self.steps:
            return self._results(held)
        ports = {key: f"known:{number}" for number, key in enumerate(held)}
        kept = {key: self.items[key] for key in self._read - made.keys()}
        fixed = {key: item for key, item in kept.items() if not is_live(item)}
        fed = {key: array for key, array in held.items() if key not in fixed}
        feeds = {n: a for key, array in fed.items() for n, a in feeds_of(ports[key], array)}

        def make() -> Graph:
            builder, renewed = self._builder(), dict[Value, Value]()
            known = {key: input_item(builder, ports[key], array) for key, array in fed.items()}
            known |= {key: constant_item(builder, item, renewed) for key, item in fixed.items()}
            return Conversion(self.source, builder, known, self.steps).run()

        types = tuple(types_of(array) for array in fed.values())
        return call((self, "behind", types), make, feeds)

    def _counters(self) -> list[Key]:
        """The counters of random draws, as far as the model has them."""
        keys = [(self.source.root, name) for name in (SEEDED, UNSEEDED)]
        return [key for key in keys if key in self.items]

    def _results(self, held: Mapping[Key, Held]) -> Arrays:
        """The results where nothing stands behind the loop."""
        main, found = self.source.main, dict[str, np.ndarray]()
        ends = {port: held[main, name] for port, name in self.source.ends.items()}
        for port, array in ends.items():
            found.update(feeds_of(port, array))
        for key in self._counters():
            found.update(feeds_of(key[1], held[key]))
        kinds = kinds_of(ends.values()) if self.source.kinds else None
        return found if kinds is None else {**found, KINDS: kinds}

    @functools.cached_property
    def _read(self) -> Set[Key]:
        """What the steps behind the loop read of the values before it, in a fixed order."""
        reads = [key for step in reversed(self.steps) for key in step.reads()]
        reads += [(self.source.main, name) for name in self.source.ends.values()]
        reads += self._counters()
        places = (place_of(self.items, *key) for key in reads)
        return dict.fromkeys(key for key in places if key is not None).keys()

    def _body(
        self, builder: GraphBuilder, known: dict[Key, Item], scope: NameScope,
        steps: Sequence[Step], ends: Mapping[str, str],
    ) -> Graph:  # fmt: skip
        source = replace(self.source, main=scope, ends=ends, kinds=True)
        return Conversion(source, builder, known, steps).run()
