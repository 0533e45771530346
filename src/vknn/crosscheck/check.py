"""Check of one set of inputs: every operator of a graph on the device and with NumPy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vknn import reference
from vknn.compile import compile_graph
from vknn.crosscheck.carried import carried_errors
from vknn.crosscheck.comparison import ArrayComparison, compare
from vknn.crosscheck.cumulative import at_least, check_tolerances, moved, widened
from vknn.crosscheck.metrics import Metric, measure
from vknn.crosscheck.programs import KeptPrograms
from vknn.crosscheck.range import RangeLimit, any_faint, flushed
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.row import VerifyRow
from vknn.crosscheck.storage import (
    HALF_SUMS,
    HALF_UNIT,
    UNITS,
    as_held,
    infinite_beyond_half,
)
from vknn.crosscheck.tolerance import Allowance, allowances
from vknn.graph import Continuation, DType, Graph, Node, TensorType, Value
from vknn.lowering import LoweringOptions
from vknn.ops.detection.order import in_order_of
from vknn.partition import refine
from vknn.precision import CUMULATIVE
from vknn.program import Program
from vknn.session import Session, engine_of
from vknn.tool_inputs import ProgressCallback


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of a check: those of :func:`vknn.verify`, and what only some callers want.

    Attributes:
        tolerance: As of :func:`vknn.verify`.
        cumulative_tolerance: Likewise.
        passes: Likewise.
        progress: Likewise.
        metrics: Functions of one's own by name, for comparisons with metrics; None: without any.
        keep_arrays: Whether the report has the arrays that were compared.
        limit: Of magnitudes; the check of inputs that lead beyond it raises OutOfRangeError.
            Subnormal numbers then may count as zeros.
    """

    tolerance: float | None = None
    cumulative_tolerance: float | None = None
    passes: bool = True
    progress: ProgressCallback | None = None
    metrics: Mapping[str, Metric] | None = None
    keep_arrays: bool = True
    limit: RangeLimit | None = None

    def __post_init__(self) -> None:
        check_tolerances(tolerance=self.tolerance, cumulative_tolerance=self.cumulative_tolerance)


@dataclass(frozen=True, eq=False)
class _Checked:
    """A row with what it was made of: results by themselves, in a row and of the reference."""

    row: VerifyRow
    node: Node
    value: Value
    single: np.ndarray | None
    chained: np.ndarray
    right: np.ndarray
    wide: Allowance


@dataclass(eq=False)
class GraphCheck:
    """Check of the inputs of a session's graph. ``programs``: those that are there already."""

    session: Session
    graph: Graph
    feeds: Mapping[str, np.ndarray]
    options: CheckOptions = field(default_factory=CheckOptions)
    programs: KeptPrograms | None = None
    rows: list[VerifyRow] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    makers: dict[str, Node] = field(default_factory=dict)
    #: Values of outputs by name, and the errors that are carried to values.
    ends: dict[str, Value] = field(default_factory=dict)
    carried: dict[Value, float] = field(default_factory=dict)
    #: The reference's outputs, and their allowances as rows.
    wide: dict[Value, tuple[np.ndarray, Allowance]] = field(default_factory=dict)
    #: Graphs checked so far; those behind the first one come of continuations.
    stages: int = 0
    #: Whether arrays come up that a device may take as zeros.
    faint: bool = False
    #: Outputs of a plain run, and those of the reference.
    actual: dict[str, np.ndarray] = field(default_factory=dict)
    expected: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.programs is None:
            self.programs = KeptPrograms(engine_of(self.session).target, keep=False)
        self.programs.begin(self.graph)

    def report(self, model: str) -> VerifyReport:
        """The report, of a model of this name."""
        arrays = engine_of(self.session).encode(self.feeds)
        results = self._stage(self.graph, {v.name: arrays[v.name] for v in self.graph.inputs})
        device = self.session.device.name if self.session.device is not None else "NumPy"
        return VerifyReport(model, device, tuple(self.rows), self._outputs(results), self.arrays)

    def _stage(self, graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compares all operators of a graph and what follows it; its outputs by the reference."""
        self.stages += 1
        continuation = graph.continuation
        graph = Graph(graph.inputs, graph.outputs, graph.nodes, graph.name)
        known = self._reference(graph, feeds)
        ends = set(graph.outputs.values())
        after, placement = self._cumulative(graph, feeds)
        checked: list[_Checked] = []
        for number, node in enumerate(graph.nodes):
            self._tell(number, graph, node.origin.name)
            checked += self._rows(node, known, after, placement[node])
        self._tell(len(graph.nodes), graph, "outputs")
        self.rows += self._explained(graph, known, checked)
        self.wide.update((c.value, (c.right, c.wide)) for c in checked if c.value in ends)
        made = {v: node for node in graph.nodes for v in node.outputs}
        self.makers.update((name, made[v]) for name, v in graph.outputs.items() if v in made)
        self.ends.update(graph.outputs)
        results = {name: known[v] for name, v in graph.outputs.items()}
        if continuation is not None:
            taken = {name: results.pop(name) for name in continuation.takes}
            results |= self._continued(continuation, taken)
        return results

    def _continued(
        self, continuation: Continuation, taken: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The outputs of a continuation; each graph of it is compared the first time it runs."""
        seen: dict[Hashable, Graph] = {}

        def call(
            key: Hashable, make: Callable[[], Graph], feeds: Mapping[str, np.ndarray]
        ) -> dict[str, np.ndarray]:
            if key in seen:
                return reference.run(seen[key], feeds)
            seen[key] = self._prepared(make())
            return self._stage(seen[key], feeds)

        return continuation.resume(taken, call)

    def _prepared(self, graph: Graph) -> Graph:
        """A graph as it is run, or as it was read where that is asked for."""
        if not self.options.passes:
            return graph
        target = engine_of(self.session).target
        with contextlib.closing(compile_graph(graph, target)) as program:
            return program.graph

    def _tell(self, done: int, graph: Graph, what: str) -> None:
        if self.options.progress is not None:
            self.options.progress(done, len(graph.nodes), what)

    def _reference(self, graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[Value, np.ndarray]:
        """Every value of a graph, as NumPy computes it."""
        known = {v: feeds[v.name] for v in graph.inputs}
        self._tell(0, graph, "reference")

        def keep(node: Node, results: tuple[np.ndarray, ...]) -> None:
            known.update(zip(node.outputs, results, strict=True))

        reference.run(graph, feeds, observe=keep)
        if self.options.limit is not None:
            self.options.limit.check(known)
            self.faint = self.faint or any_faint(known.values())
        known.update((v, v.constant) for v in graph.values() if v.constant is not None)
        return known

    def _cumulative(
        self, graph: Graph, feeds: Mapping[str, np.ndarray]
    ) -> tuple[dict[Value, np.ndarray], dict[Node, str]]:
        """Every value as the device computes it from its own results, and where nodes run."""
        values = [v for node in graph.nodes for v in node.outputs]
        results = {f"{i}": v for i, v in enumerate(values)}
        whole = Graph(graph.inputs, results, graph.nodes, graph.name)
        self._tell(0, graph, "all operators in a row")
        with self._program("whole", None, lambda: whole) as program:
            outputs = program.run(feeds)
            return {results[name]: array for name, array in outputs.items()}, program.placement

    def _program(
        self, key: Hashable, types: Hashable, make: Callable[[], Graph]
    ) -> contextlib.AbstractContextManager[Program]:
        """Program of a graph, kept for the next inputs where this graph is the first one."""
        assert self.programs is not None
        return self.programs.of(key, types, make, self.stages == 1)

    def _rows(
        self,
        node: Node,
        known: Mapping[Value, np.ndarray],
        after: Mapping[Value, np.ndarray],
        placement: str,
    ) -> Iterator[_Checked]:
        expected = [known[v] for v in node.outputs]
        inputs = [known[v] if v is not None else None for v in node.inputs]
        goals, bounds = self._goals(node, inputs, expected)
        alone, side = self._isolated(node, known)
        for index, value in enumerate(node.outputs):
            right, goal, bound = expected[index], goals[index], bounds[index]
            single = in_order_of(node.op, alone[index], goal) if alone else None
            chained = in_order_of(node.op, after[value], right)
            isolated = self._compared(single, goal, bound, node) if single is not None else None
            if (
                self.options.limit is not None
                and single is not None
                and isolated
                and not isolated.ok
            ):
                goal = flushed(node.op, inputs, index, single, goal)
                isolated = self._compared(single, goal, bound, node)
            cumulative = None
            wide = widened(bound, right, self._share)
            if not self._at_random(value):
                cumulative = self._compared(chained, right, wide, node)
            self._keep(value.name, right, single, chained)
            row = VerifyRow(
                node=node.name,
                layer=node.origin.name,
                op=node.op.type_name,
                placement=side or placement,
                output=value.name,
                type=str(TensorType.of(expected[index])),
                isolated=isolated,
                cumulative=cumulative,
            )
            yield _Checked(row, node, value, single, chained, right, wide)

    def _explained(
        self, graph: Graph, known: Mapping[Value, np.ndarray], checked: Sequence[_Checked]
    ) -> Iterator[VerifyRow]:
        """Rows whose cumulative errors are held against what the operators' own add up to."""
        late = {c for c in checked if c.row.cumulative is not None and not c.row.cumulative.ok}
        if late and self.options.cumulative_tolerance is None:
            alone: dict[Node, list[np.ndarray]] = {}
            for c in checked:
                if c.single is not None and c.row.isolated is not None and c.row.isolated.ok:
                    alone.setdefault(c.node, []).append(c.single)
            whole = {n: found for n, found in alone.items() if len(found) == len(n.outputs)}
            self.carried |= carried_errors(graph, known, whole)
        for c in checked:
            yield self._held_again(c) if c in late else c.row

    def _held_again(self, c: _Checked) -> VerifyRow:
        wide = moved(c.wide, self.carried.get(c.value, 0.0))
        return replace(c.row, cumulative=self._compared(c.chained, c.right, wide, c.node))

    def _may_be_flushed(self, comparison: ArrayComparison) -> bool:
        """Whether a result that is wrong may be right of zeros in place of subnormal numbers."""
        return self.options.limit is not None and not comparison.ok

    def _options(self, node: Node | None) -> LoweringOptions:
        """How a node's results are stored, and what it computes in."""
        options = engine_of(self.session).target.options
        return options if node is None else options.of(node.origin.name)

    def _compared(
        self,
        actual: np.ndarray,
        expected: np.ndarray,
        allowance: Allowance,
        node: Node | None = None,
    ) -> ArrayComparison:
        """Comparison of two arrays, with metrics where they are asked for."""
        found = compare(actual, expected, allowance)
        own = self.options.metrics
        if own is None:
            return found
        held = self._options(node).precision
        return replace(found, metrics=measure(actual, expected, allowance, held, own))

    @functools.cached_property
    def _share(self) -> float:
        """Share of a tensor's range that is allowed to any cumulative result."""
        if self.options.cumulative_tolerance is not None:
            return self.options.cumulative_tolerance
        share = CUMULATIVE[self.session.precision, self.session.arithmetic]
        halves = any(v.type.dtype is DType.FLOAT16 for v in self.graph.values())
        return max(share, CUMULATIVE["fp16", "fp32"]) if halves else share

    def _at_random(self, value: Value) -> bool:
        """True where roundings to 16 bits decide how many rows there are: detections.

        Cumulative results then cannot be compared; isolated ones can, as inputs are the same. Nor
        can they where the device may have taken an array as zeros.
        """
        return self.faint or (not value.type.is_static and self.session.precision != "fp32")

    def _goals(
        self, node: Node, inputs: list[np.ndarray | None], expected: list[np.ndarray]
    ) -> tuple[list[np.ndarray], list[Allowance]]:
        """The results that the node by itself should give on the device, and their tolerances."""
        stored, tolerance = self._options(node), self.options.tolerance
        precision = stored.precision
        if precision == "fp32":
            halves = any(y.dtype == np.float16 for y in expected)
            storage = HALF_UNIT if halves else 0.0
            found = allowances(node.op, inputs, expected, storage=storage, tolerance=tolerance)
            return expected, found
        held = as_held(node.op, inputs, precision)
        with np.errstate(all="ignore"):
            exact = [np.asarray(y) for y in node.op.reference(*held)]  # type: ignore[arg-type]
        goals = [infinite_beyond_half(y, precision) for y in exact]
        sums = HALF_SUMS if stored.arithmetic == "fp16" else 0.0
        found = allowances(
            node.op,
            held,
            goals,
            storage=UNITS[precision],
            sums=sums,
            tolerance=tolerance,
        )
        return goals, found

    def _isolated(
        self, node: Node, known: Mapping[Value, np.ndarray]
    ) -> tuple[list[np.ndarray] | None, str]:
        """The node's results on the device for the reference's inputs; None on the host."""
        present = dict.fromkeys(v for v in node.inputs if v is not None and v.constant is None)
        types = {v: TensorType.of(known[v]) for v in present}
        names = {f"{i}": v for i, v in enumerate(node.outputs)}
        with self._program(
            node, tuple(types.values()), lambda: refine([node], types, names)
        ) as program:
            side = program.placement[program.graph.nodes[0]]
            if side == "host":
                return None, side
            results = program.run({v.name: known[v] for v in present})
            return [results[name] for name in names], side

    def _keep(
        self,
        name: str,
        expected: np.ndarray,
        isolated: np.ndarray | None,
        cumulative: np.ndarray,
    ) -> None:
        if not self.options.keep_arrays:
            return
        if self.stages > 1:
            name = f"{self.stages}/{name}"
        self.arrays[f"{name}/expected"] = expected
        self.arrays[f"{name}/cumulative"] = cumulative
        if isolated is not None:
            self.arrays[f"{name}/isolated"] = isolated

    def _outputs(self, known: Mapping[str, np.ndarray]) -> tuple[tuple[str, ArrayComparison], ...]:
        """The outputs of a plain run, compared: the only run here whose tensors share memory."""
        found = []
        plain = engine_of(self.session).run(self.feeds)
        actual = {name: np.asarray(a) for name, a in plain.items()}
        self.actual = actual
        for name, result in actual.items():
            expected = np.asarray(self.session.model.decode(name, known[name]))
            self.expected[name] = expected
            if result.dtype.kind not in "fiubc":
                continue  # a label
            exact = Allowance(np.abs(expected), np.zeros(1))
            bound = widened(exact, expected, self._share)
            value = self.ends.get(name)
            if value is not None:
                bound = at_least(bound, expected, self.wide.get(value))
                bound = moved(bound, self.carried.get(value, 0.0))
            value = self.graph.outputs.get(name)
            if value is not None and self._at_random(value):
                continue
            if name in self.makers:
                result = in_order_of(self.makers[name].op, result, expected)
            found.append((name, self._compared(result, expected, bound, self.makers.get(name))))
        return tuple(found)
