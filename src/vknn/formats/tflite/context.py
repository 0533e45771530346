"""Context of one operator's conversion: its inputs, options, tensors and quantization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vknn.formats.layer_context import LayerContext
from vknn.formats.tflite.generators import generator_name
from vknn.formats.tflite.records import (
    ModelRecord,
    OperatorRecord,
    Quant,
    SubgraphRecord,
    TensorRecord,
)
from vknn.formats.tflite.regions import REGIONS
from vknn.formats.tflite.resources import GraphState, Resource
from vknn.graph import GraphBuilder, Op, Origin, Value

_NO_MODEL = ModelRecord(())


@dataclass(frozen=True)
class Context(LayerContext):
    """One operator while it is converted. Values have the layout of the file (NHWC).

    ``assigned`` collects the new values of variable tensors, by tensor index. ``state``: what the
    session keeps in variables and tables, and positions of generators, which operators on these
    read and write. ``model`` has the subgraphs that are regions of operators; ``lift`` gives the
    results of one, by its number, for each element of tensors of one shape.
    """

    builder: GraphBuilder
    graph: SubgraphRecord
    operator: OperatorRecord
    inputs: Sequence[Value | None]
    state: GraphState
    assigned: dict[int, Value] = field(default_factory=dict)
    model: ModelRecord = _NO_MODEL
    lift: Callable[[int, Sequence[Value]], list[Value]] | None = None

    @property
    def options(self) -> Any:
        """The options by their field names in the schema."""
        return self.operator.options

    @property
    def origin(self) -> Origin:
        name = self.graph.tensors[self.operator.outputs[0]].name if self.operator.outputs else ""
        return Origin(name or f"operator {self.operator.index}", self.operator.type)

    @property
    def is_quantized(self) -> bool:
        """True where the first input or the first output holds quantized integers."""
        tensors = self.graph.tensors
        ends = [i for i in (*self.operator.inputs[:1], *self.operator.outputs[:1]) if i != -1]
        return any(tensors[i].is_quantized for i in ends)

    @property
    def region(self) -> SubgraphRecord:
        """The operator's region."""
        return self.model.subgraphs[self.options[REGIONS[self.operator.code]]]

    def lifted(self, arguments: Sequence[Value]) -> list[Value]:
        """Results of the region for each element of tensors of one shape. Raises Unsupported."""
        assert self.lift is not None
        return self.lift(self.options[REGIONS[self.operator.code]], arguments)

    def source(self, number: int) -> TensorRecord:
        """The file's record of input ``number``."""
        self.value(number)
        return self.graph.tensors[self.operator.inputs[number]]

    def target(self, number: int = 0) -> TensorRecord:
        """The file's record of output ``number``."""
        return self.graph.tensors[self.operator.outputs[number]]

    def quant(self, number: int) -> Quant:
        """Scale and zero point of input ``number``; Malformed where it has none."""
        return self.quant_of(self.source(number), f"input {number}")

    def quant_of(self, tensor: TensorRecord, what: str) -> Quant:
        """Scale and zero point of a tensor; Malformed, naming it ``what``, where it has none."""
        self.require(tensor.dtype.is_integer, f"{what} is of {tensor.dtype.value}, not quantized")
        if tensor.quant is None:
            self.fail(f"{what} has no quantization")
        return tensor.quant

    def assign_variable(self, number: int, value: Value) -> None:
        """Assignment of ``value`` to the variable tensor that is input ``number``."""
        record = self.source(number)
        self.require(record.variable, f"writes input {number}, which is not a variable")
        self.assigned[record.index] = value

    def drawn(self, op: Op, *inputs: Value) -> Value:
        """The numbers that an op draws from the operator's generator, whose position is moved on.

        The op takes the position behind ``inputs`` and gives the new one behind the numbers.
        """
        name = generator_name(self.graph, self.operator)
        if name not in self.state.values:
            self.fail("draws random numbers where its generator cannot go on")
        numbers, position = self.add_many(op, *inputs, self.state.values[name])
        self.state.assign(name, position)
        return numbers

    def resource(self, table: bool) -> Resource:
        """The variable or ``table`` whose handle input 0 is. Raises Malformed and NeedsData."""
        found = self.state.resources.of(self.data(0))
        wanted, maker = ("table", "HASHTABLE") if table else ("variable", "VAR_HANDLE")
        self.require(
            found.is_table == table,
            f"its input 0 is the handle of {found.label}; it takes that of a {wanted} ({maker})",
        )
        return found

    def ints(self, number: int, what: str) -> list[int]:
        """Elements of an integer input, flattened; errors call it ``what``. See :meth:`data`."""
        array = self.data(number)
        self.require(array.dtype.kind in "iu", f"{what} must be integers, not {array.dtype}")
        return [int(v) for v in array.reshape(-1)]

    def number(self, position: int, what: str) -> int:
        """The element of an integer input that has exactly one. See :meth:`data`."""
        found = self.ints(position, what)
        self.require(len(found) == 1, f"{what} is {len(found)} numbers")
        return found[0]

    def channels_second(self, x: Value) -> Value:
        """``x`` (n, spatial..., c) as (n, c, spatial...)."""
        return self.transpose(x, (0, x.type.rank - 1, *range(1, x.type.rank - 1)))

    def channels_last(self, x: Value) -> Value:
        """``x`` (n, c, spatial...) as (n, spatial..., c)."""
        return self.transpose(x, (0, *range(2, x.type.rank), 1))
