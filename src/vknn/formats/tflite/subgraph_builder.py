"""Graphs of subgraphs, and control flow (IF, WHILE, CALL) at run time.

Graphs are built for concrete shapes. A graph ends before an operator that needs data computed at
run time (a shape, an axis, a condition) or that reads a tensor whose shape depends on data. When
that graph has run, the next one is built from that operator on: the data that the operator needs
are constants of it, all other tensors that are still read are its inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.layer_context import NeedsData, unfold
from vknn.formats.layer_errors import Unsupported, errors_of
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.custom import known_type
from vknn.formats.tflite.decisions import branch_of, decision_of, next_inputs
from vknn.formats.tflite.element_types import check_element_types
from vknn.formats.tflite.file_source import FileSource, initial_array, port
from vknn.formats.tflite.generators import restarted
from vknn.formats.tflite.lifting import lifted_constants
from vknn.formats.tflite.records import OperatorRecord, SubgraphRecord
from vknn.formats.tflite.region_runs import run_region
from vknn.formats.tflite.regions import REGIONS, is_interpreted
from vknn.formats.tflite.resources import GraphState, HeldState
from vknn.graph import Arrays, Call, Continuation, Graph, GraphBuilder, TensorType, Value
from vknn.ops.generator.numbers import position_of

Known = dict[int, Value]
#: Most iterations of a WHILE: a condition that never becomes false is an error, not a hang.
MAX_ITERATIONS = 10_000_000
#: Operators that run other subgraphs -> the option with the subgraph that stands in their place.
_INLINED = {"CALL": "subgraph", "STABLEHLO_COMPOSITE": "decomposition_subgraph_index"}
_BRANCHES = ("IF", "WHILE", "STABLEHLO_CASE", "STABLEHLO_WHILE")


def build_graph(
    source: FileSource,
    number: int,
    types: Mapping[int, TensorType],
    outputs: Mapping[str, int],
    names: Mapping[int, str],
    start: int = 0,
    constants: Mapping[int, np.ndarray] | None = None,
    held: Mapping[str, TensorType] = MappingProxyType({}),
    assigned: Collection[str] = (),
) -> Graph:
    """Graph of subgraph ``number`` from operator ``start`` to its end or to where it has to wait.

    ``types``: types of the tensors that are inputs, by tensor index; ``names``: names of inputs
    (without one: :func:`port`); ``constants``: arrays of tensors whose data are known;
    ``outputs``: output name -> tensor index. ``held``: types of the session's state that has a
    value (see ``resources``), inputs of those names; what is written of it is an output of its
    name, and so is what is in ``assigned``.
    """
    record = source.model.subgraphs[number]
    builder = GraphBuilder(record.name or "tflite")
    known: Known = {}
    for index, type_ in types.items():
        known[index] = builder.input(names.get(index, port(index)), type_)
    for index, array in (constants or {}).items():
        known[index] = builder.constant(array, port(index))
    values = {name: builder.input(name, type_) for name, type_ in held.items()}
    state = GraphState(source.resources, values, {*assigned, *source.generators})
    converter = _Converter(source, record, builder, known, state)
    converter.run(start)
    if converter.stopped is None:
        blobs = {record.tensors[i].name: value for i, value in known.items()}
        results = {name: converter.value(i) for name, i in outputs.items()}
        return builder.finish(results | converter.state.results, blobs=blobs)
    return converter.partial_graph(outputs)


class _Converter:
    """Conversion of operators up to the end or to the first that needs data not known yet.

    ``stopped``: position of that operator, or None; ``decisive``: the tensors whose data it needs.
    ``state``: the session's, positions of generators among it.
    """

    def __init__(
        self,
        source: FileSource,
        graph: SubgraphRecord,
        builder: GraphBuilder,
        known: Known,
        state: GraphState,
    ) -> None:
        self.source, self.graph, self.builder, self.known = source, graph, builder, known
        self.state = state
        self.stopped: int | None = None
        self.decisive: tuple[int, ...] = ()

    def value(self, index: int) -> Value:
        """The value of a tensor: computed, or a constant of the file. Raises ModelFormatError."""
        if index not in self.known:
            tensor = self.graph.tensors[index]
            data = tensor.data
            if data is None and 0 in tensor.shape:  # an empty buffer holds all of it
                data = np.zeros([d or 0 for d in tensor.shape], tensor.dtype.numpy)
            if data is None and tensor.variable:
                data = initial_array(tensor)
            if data is None:
                raise ModelFormatError(
                    f"tensor {index} ({tensor.name!r}) has no value: nothing makes it",
                    file=self.source.file,
                )
            value = self.builder.constant(data, tensor.name or "constant")
            if tensor.packed is not None:
                return value  # not kept: what takes it packed needs no such array
            self.known[index] = value
        return self.known[index]

    def run(self, start: int) -> None:
        """Converts the operators from position ``start`` on; sets ``stopped`` and ``decisive``."""
        for position in range(start, len(self.graph.operators)):
            operator = self.graph.operators[position]
            try:
                ready = self._convert(operator)
            except NeedsData as need:
                ready = False
                if need.value is not None:
                    wanted = {self.known[i]: i for i in operator.inputs if i in self.known}
                    self.decisive = (wanted[need.value],)
            if not ready:
                self.stopped = position
                return

    def _convert(self, operator: OperatorRecord) -> bool:
        """Adds an operator to the graph; False where it needs arrays of run time."""
        inputs = [None if i == -1 else self.value(i) for i in operator.inputs]
        if any(v is not None and not v.type.is_static for v in inputs):
            return False
        if operator.code in _BRANCHES:
            return self._branch(operator)
        if operator.code in _INLINED:
            self._inline(operator.options[_INLINED[operator.code]], operator)
            return True
        if operator.code == "CALL_ONCE":
            self._call_once(operator)
            return True
        if is_interpreted(self.source.model, operator):
            return False
        found = known_type(operator.code, operator.custom_code)
        assert found is not None, "unknown operators are refused when a model is loaded"
        context = Context(
            self.builder,
            self.graph,
            operator,
            inputs,
            self.state,
            model=self.source.model,
            lift=self._lift,
        )
        place = self.source.place(self.graph, operator)
        with errors_of(place, self.source.file, context.origin.name):
            check_element_types(context)
            results = unfold(found.convert_of(context.is_quantized)(context))
        self._set_outputs(operator, results)
        self.known.update(context.assigned)
        return True

    def _set_outputs(self, operator: OperatorRecord, results: Sequence[Value]) -> None:
        place = self.source.place(self.graph, operator)
        if len(results) < len(operator.outputs):
            raise ModelFormatError(f"{place}: names too many outputs", file=self.source.file)
        for index, value in zip(operator.outputs, results, strict=False):
            declared = self.graph.tensors[index].dtype
            if value.type.dtype is not declared:
                raise ShapeError(f"{place}: its output is {value.type}, declared {declared.value}")
            self.known[index] = value

    def _branch(self, operator: OperatorRecord) -> bool:
        """Inlines the branch of an IF or a CASE whose condition is known; False for others."""
        if operator.code in ("IF", "STABLEHLO_CASE"):
            condition = self.value(operator.inputs[0])
            if condition.constant is not None:
                self._inline(branch_of(operator, condition.constant), operator, skip=1)
                return True
        return False

    def _inline(self, number: int, operator: OperatorRecord, skip: int = 0) -> None:
        """Adds the operators of subgraph ``number`` in place of a call; raises NeedsData."""
        callee = self.source.model.subgraphs[number]
        arguments = [self.value(i) for i in operator.inputs[skip:]]
        known = dict(zip(callee.inputs, arguments, strict=True))
        state = self.state.copy()
        for name in restarted(self.source.model, operator):
            state.assign(name, self.builder.constant(position_of(0), "start"))
        inner = _Converter(self.source, callee, self.builder, known, state)
        inner.run(0)
        if inner.stopped is not None:
            raise NeedsData(None)
        self.state = inner.state
        self._set_outputs(operator, [inner.value(i) for i in callee.outputs])

    def _call_once(self, operator: OperatorRecord) -> None:
        """Adds the operators of a CALL_ONCE, unless they have run in this session."""
        number = operator.options["init_subgraph_index"]
        name = self.source.resources.once(number)
        if name not in self.state.values:
            self._inline(number, operator)
            self.state.assign(name, self.builder.constant(np.ones((), bool), name))

    def _lift(self, number: int, arguments: Sequence[Value]) -> list[Value]:
        """Results of a region of scalars for each element of tensors of one shape."""
        region = self.source.model.subgraphs[number]
        known = lifted_constants(self.builder, region, arguments[0].type.dims)
        known |= dict(zip(region.inputs, arguments, strict=True))
        state = GraphState(self.source.resources)
        inner = _Converter(self.source, region, self.builder, known, state)
        inner.run(0)
        if inner.stopped is not None:
            raise Unsupported(f"the region of subgraph {number}")
        return [inner.value(i) for i in region.outputs]

    def partial_graph(self, outputs: Mapping[str, int]) -> Graph:
        """The graph up to ``stopped``, with a continuation that continues from there."""
        assert self.stopped is not None
        operators = self.graph.operators[self.stopped :]
        read = dict.fromkeys(i for o in operators for i in o.inputs if i in self.known)
        read |= dict.fromkeys(i for i in outputs.values() if i in self.known)
        live = [i for i in read if self.known[i].constant is None]
        constants = {i: self.known[i].constant for i in read if self.known[i].constant is not None}
        takes = {port(i): self.known[i] for i in live} | self.state.values
        continuation = _Continuation(
            self.source, self.graph, self.stopped, self.decisive, tuple(live),
            {i: c for i, c in constants.items() if c is not None}, dict(outputs),
            tuple(self.state.values), frozenset(self.state.assigned),
        )  # fmt: skip
        return self.builder.finish(takes, continuation)


@dataclass(eq=False)
class _Continuation(Continuation):
    """The operators from ``position`` on: the first, if it is control flow, then the next graph.

    ``live`` are the tensors that the graph before gives, ``constants`` the arrays known by then.
    ``held``: names of the session's state that it gives, too; ``assigned``: what was written of it.
    """

    source: FileSource
    graph: SubgraphRecord
    position: int
    decisive: tuple[int, ...]
    live: tuple[int, ...]
    constants: Mapping[int, np.ndarray]
    outputs: Mapping[str, int]
    held: tuple[str, ...]
    assigned: frozenset[str]

    def __post_init__(self) -> None:
        self.takes = (*(port(i) for i in self.live), *self.held)
        self.decided_by = tuple(port(i) for i in self.decisive if i in self.live)
        self.layers = tuple(o.type for o in self.graph.operators[self.position :])

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        known = {i: arrays[port(i)] for i in self.live}
        held = HeldState({name: arrays[name] for name in self.held}, set(self.assigned))
        operator = self.graph.operators[self.position]
        controls = operator.code in (*_BRANCHES, *_INLINED, "CALL_ONCE")
        if not controls and not is_interpreted(self.source.model, operator):
            return self._next(known, self.position, held, call)
        ins = [self._array(known, i) for i in operator.inputs]
        outs = run_control(self.source, operator, ins, call, held)
        known |= dict(zip(operator.outputs, outs, strict=True))
        return self._next(known, self.position + 1, held, call)

    def _array(self, known: Mapping[int, np.ndarray], index: int) -> np.ndarray:
        found = known.get(index, self.constants.get(index))
        if found is None:
            found = self.graph.tensors[index].data
        if found is None:
            raise ModelFormatError(f"tensor {index} has no value", file=self.source.file)
        return found

    def _next(
        self, known: Mapping[int, np.ndarray], start: int, held: HeldState, call: Call
    ) -> Arrays:
        fixed = {i: known[i] for i in self.decisive}
        fed = {i: a for i, a in known.items() if i not in fixed}
        types = {i: TensorType.of(a) for i, a in fed.items()}
        key = (
            start,
            tuple(types.items()),
            tuple((i, a.shape, a.tobytes()) for i, a in fixed.items()),
            held.key,
        )
        assigned = set(held.assigned)

        def make() -> Graph:
            constants = {**self.constants, **fixed}
            number, state = self.graph.index, held.types
            return build_graph(
                self.source, number, types, self.outputs, {}, start, constants, state, assigned
            )

        return call(key, make, {port(i): a for i, a in fed.items()} | held.arrays)


def run_control(
    source: FileSource,
    operator: OperatorRecord,
    arrays: Sequence[np.ndarray],
    call: Call,
    held: HeldState,
) -> list[np.ndarray]:
    """Outputs of control flow for the arrays of its inputs.

    ``held``: the session's state, updated in place. Raises ShapeError.
    """
    options = operator.options
    for name in restarted(source.model, operator):
        held.assign(name, position_of(0))
    if operator.code in ("IF", "STABLEHLO_CASE"):
        return run_subgraph(source, branch_of(operator, arrays[0]), arrays[1:], call, held)
    if operator.code in _INLINED:
        return run_subgraph(source, options[_INLINED[operator.code]], arrays, call, held)
    if operator.code == "CALL_ONCE":
        number = options["init_subgraph_index"]
        run_subgraph(source, number, (), call, held)
        held.assign(source.resources.once(number), np.ones((), bool))
        return []
    if is_interpreted(source.model, operator):
        return _run_interpreted(source, operator, arrays, call)
    state = list(arrays)
    body = source.model.subgraphs[options["body_subgraph_index"]]
    variables = {t.index: initial_array(t) for t in body.tensors if t.variable}
    for _ in range(MAX_ITERATIONS):
        condition = options["cond_subgraph_index"]
        (go_on,) = run_subgraph(source, condition, state, call, held)[:1]
        if not decision_of(operator, go_on):
            return state
        results = run_subgraph(source, body.index, state, call, held, variables)
        state = results if operator.code != "WHILE" else next_inputs(body, state, results)
    raise ShapeError(
        f"operator {operator.index} ({operator.code}) did not end within {MAX_ITERATIONS} rounds"
    )


def _run_interpreted(
    source: FileSource, operator: OperatorRecord, arrays: Sequence[np.ndarray], call: Call
) -> list[np.ndarray]:
    """Outputs of an operator whose region is called for its elements."""
    number = operator.options[REGIONS[operator.code]]

    def evaluate(given: Sequence[np.ndarray]) -> list[np.ndarray]:
        types = tuple(TensorType.of(a) for a in given)
        feeds = {str(k): array for k, array in enumerate(given)}
        make = functools.partial(_lifted_graph, source, number, types)
        results = call(("region", number, types), make, feeds)
        return [results[f"result{k}"] for k in range(len(results))]

    with errors_of(f"operator {operator.index} ({operator.type})", source.file):
        return run_region(operator, arrays, evaluate)


def _lifted_graph(source: FileSource, number: int, types: Sequence[TensorType]) -> Graph:
    """A region for each element of inputs "0", "1"... of one shape -> "result0"..."""
    region = source.model.subgraphs[number]
    builder = GraphBuilder(region.name or "region")
    arguments = [builder.input(str(k), type_) for k, type_ in enumerate(types)]
    converter = _Converter(source, region, builder, {}, GraphState(source.resources))
    results = converter._lift(number, arguments)
    return builder.finish({f"result{k}": value for k, value in enumerate(results)})


def run_subgraph(
    source: FileSource,
    number: int,
    arrays: Sequence[np.ndarray],
    call: Call,
    held: HeldState,
    variables: dict[int, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Outputs of subgraph ``number``, in its order, for the arrays of its inputs.

    ``held``: the session's state, updated in place. ``variables``: arrays of its variable tensors,
    likewise; without it they have their initial content. TensorFlow Lite keeps them between the
    iterations of a loop, and no longer.
    """
    graph, own = source.model.subgraphs[number], variables or {}
    known = own | dict(zip(graph.inputs, arrays, strict=True))
    types = {i: TensorType.of(a) for i, a in known.items()}
    outputs = {str(k): index for k, index in enumerate(graph.outputs)}
    wanted = outputs | {port(i): i for i in own}
    feeds = {port(i): a for i, a in known.items()} | held.arrays
    state = held.types
    key = ("subgraph", number, tuple(types.items()), held.key)
    results = call(key, lambda: build_graph(source, number, types, wanted, {}, held=state), feeds)
    own.update({i: results[port(i)] for i in own})
    for name in source.state_names & results.keys():
        held.assign(name, results[name])
    return [results[name] for name in outputs]
