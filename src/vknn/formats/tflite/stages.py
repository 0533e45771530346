"""Subgraphs -> graphs, in stages.

Graphs are built for concrete shapes. Where an operator needs data that are computed at run time (a
shape, an axis, a branch, a loop), or reads a tensor whose shape depends on data, the graph ends
there. The rest is built when the arrays are known: what decides becomes a constant, everything else
that is still needed an input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.errors import ModelFormatError, ShapeError, UnsupportedLayerError, VknnError
from vknn.formats.layer_context import unfold
from vknn.formats.layer_errors import STRAY, Malformed, Unsupported
from vknn.formats.tflite import element_types, narrow
from vknn.formats.tflite.context import Context, NeedsData
from vknn.formats.tflite.custom import known_type
from vknn.formats.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord, TensorRecord
from vknn.formats.tflite.registry import Convert, OperatorType
from vknn.graph import Arrays, Call, Continuation, DType, Graph, GraphBuilder, TensorType, Value

Known = dict[int, Value]
#: Rounds of a WHILE; one that never ends would otherwise run for good.
MAX_ROUNDS = 10_000_000


@dataclass(frozen=True)
class Source:
    """Where records come from; ``file`` is for errors."""

    model: ModelRecord
    file: str | None = None

    def place(self, graph: SubgraphRecord, operator: OperatorRecord) -> str:
        name = graph.tensors[operator.outputs[0]].name if operator.outputs else ""
        return f"operator {operator.index} ({operator.type}), {name!r}"


def build_graph(
    source: Source,
    number: int,
    types: Mapping[int, TensorType],
    outputs: Mapping[str, int],
    names: Mapping[int, str],
    start: int = 0,
    constants: Mapping[int, np.ndarray] | None = None,
) -> Graph:
    """The graph of subgraph ``number`` from operator ``start`` on.

    ``types`` are those of the tensors that are fed, ``names`` what some of them are called (others
    by their index), ``constants`` tensors whose data are known, ``outputs`` what is wanted.
    """
    record = source.model.subgraphs[number]
    builder = GraphBuilder(record.name or "tflite")
    known: Known = {}
    for index, type_ in types.items():
        known[index] = builder.input(names.get(index, port(index)), type_)
    for index, array in (constants or {}).items():
        known[index] = builder.constant(array, port(index))
    stage = _Stage(source, record, builder, known)
    stage.run(start)
    if stage.stopped is None:
        return builder.finish({name: stage.value(i) for name, i in outputs.items()})
    return stage.unfinished(outputs)


def first_value(tensor: TensorRecord) -> np.ndarray:
    """What a variable tensor holds first: zeros; its zero point where it is int8."""
    filled = tensor.dtype is DType.INT8 and tensor.quant is not None
    start = int(tensor.quant.zero_point.reshape(-1)[0]) if tensor.quant and filled else 0
    return np.full([d or 0 for d in tensor.shape], start, tensor.dtype.numpy)


def port(index: int) -> str:
    """What a tensor is called between stages."""
    return f"tensor:{index}"


class _Stage:
    """Converts operators until the end or until one cannot be converted yet."""

    def __init__(
        self, source: Source, graph: SubgraphRecord, builder: GraphBuilder, known: Known
    ) -> None:
        self.source, self.graph, self.builder, self.known = source, graph, builder, known
        self.stopped: int | None = None
        self.decisive: tuple[int, ...] = ()

    def value(self, index: int) -> Value:
        if index not in self.known:
            tensor = self.graph.tensors[index]
            data = tensor.data
            if data is None and 0 in tensor.shape:  # an empty buffer holds all of it
                data = np.zeros([d or 0 for d in tensor.shape], tensor.dtype.numpy)
            if data is None and tensor.variable:
                data = first_value(tensor)
            if data is None:
                raise ModelFormatError(
                    f"tensor {index} ({tensor.name!r}) has no value: nothing makes it",
                    file=self.source.file,
                )
            self.known[index] = self.builder.constant(data, tensor.name or "constant")
        return self.known[index]

    def run(self, start: int) -> None:
        for position in range(start, len(self.graph.operators)):
            operator = self.graph.operators[position]
            try:
                ready = self._convert(operator)
            except NeedsData as need:
                wanted = {self.known[i]: i for i in operator.inputs if i in self.known}
                self.decisive, ready = (wanted[need.value],), False
            except NeedsCall:
                ready = False
            if not ready:
                self.stopped = position
                return

    def _convert(self, operator: OperatorRecord) -> bool:
        """Adds an operator to the graph; False where it has to wait for arrays."""
        inputs = [None if i == -1 else self.value(i) for i in operator.inputs]
        if any(v is not None and not v.type.is_static for v in inputs):
            return False
        if operator.code in ("WHILE", "IF"):
            return self._branch(operator)
        if operator.code == "CALL":
            self._inline(operator.options["subgraph"], operator)
            return True
        found = known_type(operator.code, operator.custom_code)
        assert found is not None, "unknown operators are refused when a model is loaded"
        context = Context(self.builder, self.graph, operator, inputs)
        place = self.source.place(self.graph, operator)
        try:
            narrow.check(context)
            element_types.check(context)
            results = unfold(_converter(found, context)(context))
        except Unsupported as problem:
            raise UnsupportedLayerError([f"{place}: {problem}"], file=self.source.file) from problem
        except (Malformed, ShapeError) as problem:
            raise ShapeError(f"{place}: {problem}") from problem
        except VknnError:
            raise
        except STRAY as problem:
            text = f"{place}: {type(problem).__name__}: {problem}"
            raise ModelFormatError(text, file=self.source.file) from problem
        self._take(operator, results)
        self.known.update(context.states)
        return True

    def _take(self, operator: OperatorRecord, results: Sequence[Value]) -> None:
        place = self.source.place(self.graph, operator)
        if len(results) < len(operator.outputs):
            raise ModelFormatError(f"{place}: names too many outputs", file=self.source.file)
        for index, value in zip(operator.outputs, results, strict=False):
            declared = self.graph.tensors[index].dtype
            if value.type.dtype is not declared:
                raise ShapeError(f"{place}: its output is {value.type}, declared {declared.value}")
            self.known[index] = value

    def _branch(self, operator: OperatorRecord) -> bool:
        """An IF whose condition is known is the branch it takes; others wait."""
        if operator.code == "IF":
            condition = self.value(operator.inputs[0])
            if condition.constant is not None:
                self._inline(branch_of(operator, condition.constant), operator, skip=1)
                return True
        return False

    def _inline(self, number: int, operator: OperatorRecord, skip: int = 0) -> None:
        """The operators of another subgraph, in place of a call of it."""
        callee = self.source.model.subgraphs[number]
        arguments = [self.value(i) for i in operator.inputs[skip:]]
        known = dict(zip(callee.inputs, arguments, strict=True))
        inner = _Stage(self.source, callee, self.builder, known)
        inner.run(0)
        if inner.stopped is not None:
            raise NeedsCall
        self._take(operator, [inner.value(i) for i in callee.outputs])

    def unfinished(self, outputs: Mapping[str, int]) -> Graph:
        """The graph so far; what later operators read is handed to the continuation."""
        assert self.stopped is not None
        operators = self.graph.operators[self.stopped :]
        read = dict.fromkeys(i for o in operators for i in o.inputs if i in self.known)
        read |= dict.fromkeys(i for i in outputs.values() if i in self.known)
        live = [i for i in read if self.known[i].constant is None]
        constants = {i: self.known[i].constant for i in read if self.known[i].constant is not None}
        takes = {port(i): self.known[i] for i in live}
        continuation = _Continuation(
            self.source, self.graph, self.stopped, self.decisive, tuple(live),
            {i: c for i, c in constants.items() if c is not None}, dict(outputs),
        )  # fmt: skip
        return self.builder.finish(takes, continuation)


class NeedsCall(Exception):
    """A subgraph that is called cannot be inlined, as it has stages of its own."""


@dataclass(eq=False)
class _Continuation(Continuation):
    """What follows operator ``position``: that operator first, then the next stage."""

    source: Source
    graph: SubgraphRecord
    position: int
    decisive: tuple[int, ...]
    live: tuple[int, ...]
    constants: Mapping[int, np.ndarray]
    outputs: Mapping[str, int]

    def __post_init__(self) -> None:
        self.takes = tuple(port(i) for i in self.live)
        self.layers = tuple(o.type for o in self.graph.operators[self.position :])

    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        known = {i: arrays[port(i)] for i in self.live}
        operator = self.graph.operators[self.position]
        results: dict[int, np.ndarray] = {}
        if operator.code in ("WHILE", "IF", "CALL"):
            ins = [self._array(known, i) for i in operator.inputs]
            outs = run_control(self.source, operator, ins, call)
            results = dict(zip(operator.outputs, outs, strict=True))
        return self._next(known | results, bool(results), call)

    def _array(self, known: Mapping[int, np.ndarray], index: int) -> np.ndarray:
        found = known.get(index, self.constants.get(index))
        if found is None:
            found = self.graph.tensors[index].data
        if found is None:
            raise ModelFormatError(f"tensor {index} has no value", file=self.source.file)
        return found

    def _next(self, known: Mapping[int, np.ndarray], done: bool, call: Call) -> Arrays:
        start = self.position + done
        fixed = {i: known[i] for i in self.decisive}
        fed = {i: a for i, a in known.items() if i not in fixed}
        types = {i: TensorType.of(a) for i, a in fed.items()}
        key = (
            start,
            tuple(types.items()),
            tuple((i, a.shape, a.tobytes()) for i, a in fixed.items()),
        )

        def make() -> Graph:
            constants = {**self.constants, **fixed}
            number = self.graph.index
            return build_graph(self.source, number, types, self.outputs, {}, start, constants)

        return call(key, make, {port(i): a for i, a in fed.items()})


def run_control(
    source: Source, operator: OperatorRecord, arrays: Sequence[np.ndarray], call: Call
) -> list[np.ndarray]:
    """The outputs of an IF, WHILE or CALL for its inputs."""
    options = operator.options
    if operator.code == "IF":
        return run_subgraph(source, branch_of(operator, arrays[0]), arrays[1:], call)
    if operator.code == "CALL":
        return run_subgraph(source, options["subgraph"], arrays, call)
    state = list(arrays)
    body = source.model.subgraphs[options["body_subgraph_index"]]
    variables = {t.index: first_value(t) for t in body.tensors if t.variable}
    for _ in range(MAX_ROUNDS):
        (go_on,) = run_subgraph(source, options["cond_subgraph_index"], state, call)[:1]
        if not bool(go_on.reshape(-1)[0]):
            return state
        results = run_subgraph(source, body.index, state, call, variables)
        state = _handed_on(body, state, results)
    raise ShapeError(f"operator {operator.index} (WHILE) did not end within {MAX_ROUNDS} rounds")


def _handed_on(
    body: SubgraphRecord, state: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What the inputs of a loop's body hold behind a round.

    TensorFlow Lite copies output after output into input after input. An output that is itself an
    input of the body is read when its turn comes, behind the copies before it: bodies that swap
    their inputs give both the same.
    """
    held = dict(zip(body.inputs, state, strict=True))
    for source, target, result in zip(body.outputs, body.inputs, results, strict=True):
        held[target] = held.get(source, result)
    return [held[index] for index in body.inputs]


def branch_of(operator: OperatorRecord, condition: np.ndarray) -> int:
    """The subgraph that an IF takes."""
    if condition.size != 1:
        raise ShapeError(f"operator {operator.index} (IF) has {condition.size} conditions")
    taken = "then_subgraph_index" if bool(condition.reshape(-1)[0]) else "else_subgraph_index"
    return int(operator.options[taken])


def run_subgraph(
    source: Source,
    number: int,
    arrays: Sequence[np.ndarray],
    call: Call,
    variables: dict[int, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The outputs of a subgraph, in its order, for its inputs.

    ``variables``: what its variable tensors hold, brought up to date; without it they are as they
    are first. TensorFlow Lite keeps them from round to round of a loop, and no longer.
    """
    graph, held = source.model.subgraphs[number], variables or {}
    known = held | dict(zip(graph.inputs, arrays, strict=True))
    types = {i: TensorType.of(a) for i, a in known.items()}
    outputs = {str(k): index for k, index in enumerate(graph.outputs)}
    wanted = outputs | {port(i): i for i in held}
    feeds = {port(i): a for i, a in known.items()}
    key = ("subgraph", number, tuple(types.items()))
    results = call(key, lambda: build_graph(source, number, types, wanted, {}), feeds)
    held.update({i: results[port(i)] for i in held})
    return [results[name] for name in outputs]


def _converter(found: OperatorType, context: Context) -> Convert:
    if not context.is_quantized:
        return found.convert
    if found.quantized is None:
        raise Unsupported("quantized tensors")
    return found.quantized
