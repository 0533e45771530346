"""Expectation of a dispatch: which tensors it computes, and what NumPy gives for the same inputs.

Buffers of a plan are named after the graph's values and their layouts. A dispatch that ends an
operator (or is all of it) writes such a value; its reference is the operator's own, on the inputs
that the device itself had. Scratch buffers within an operator have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.crosscheck import Allowance, allowances
from vknn.crosscheck.storage import HALF_SUMS, UNITS, as_held, infinite_beyond_half
from vknn.graph import Graph, Node, Op, TensorType, Value
from vknn.kernel_lab.arrays import floats, storage
from vknn.kernel_lab.choices import DispatchChoice
from vknn.lowering import Layout
from vknn.lowering.kit.layouts import allows, on_device, pack, packed_shape, unpack
from vknn.ops.movement.shape import Identity
from vknn.plan import Access, Binding, Plan, TexelFormat

_DTYPES = {
    TexelFormat.R32_SFLOAT: "float32",
    TexelFormat.RGBA32_SFLOAT: "float32",
    TexelFormat.R16_SFLOAT: "float16",
    TexelFormat.RGBA16_SFLOAT: "float16",
    TexelFormat.R16_UINT: "bfloat16",
    TexelFormat.RGBA16_UINT: "bfloat16",
    TexelFormat.R32_SINT: "int32",
    TexelFormat.RGBA32_SINT: "int32",
}
_NUMBERED = re.compile(r"#+\d+$")


@dataclass(frozen=True, eq=False)
class PlacedValue:
    """A value of the graph as it lies in a buffer: its type is static."""

    value: Value
    layout: Layout


@dataclass(frozen=True, eq=False)
class Reference:
    """The right numbers and the errors allowed, in the shape of the value."""

    right: np.ndarray
    allowed: np.ndarray


def element_type(binding: Binding, placed: PlacedValue | None) -> str:
    """Element type of a buffer."""
    if placed is not None and placed.layout is Layout.C4B:
        return placed.value.type.dtype.value
    return _DTYPES[binding.format]


def placed_values(graph: Graph, plan: Plan) -> dict[int, PlacedValue]:
    """The values of a segment's graph by the plan's buffers; only those whose shape is known."""
    named: dict[str, list[PlacedValue]] = {}
    for value in graph.values():
        if value.constant is None and value.type.is_static and on_device(value.type):
            for layout in Layout:
                if allows(value.type, layout):
                    stem = value.name.replace("//", "/ /")
                    name = stem if layout is Layout.LINEAR else f"{stem}.{layout.value}"
                    named.setdefault(name, []).append(PlacedValue(value, layout))
    found: dict[int, PlacedValue] = {}
    for index, buffer in enumerate(plan.buffers):
        name = _NUMBERED.sub("", buffer.name.rpartition("//")[2])
        fitting = named.get(name, [])
        if len(fitting) == 1:
            found[index] = fitting[0]
    inputs = {v.name: v for v in graph.inputs}
    for name, port in plan.inputs.items():
        if name in inputs and inputs[name].type.is_static:
            found[port.buffer] = PlacedValue(inputs[name], Layout.LINEAR)
    for name, port in plan.outputs.items():
        if name in graph.outputs and graph.outputs[name].type.is_static:
            found[port.buffer] = PlacedValue(graph.outputs[name], Layout.LINEAR)
    return found


class Expectations:
    """References of the outputs of a dispatch.

    ``precision`` and ``arithmetic``: those of the session.
    """

    def __init__(self, choice: DispatchChoice, precision: str, arithmetic: str) -> None:
        self._graph, self._plan = choice.run.segment.graph, choice.run.plan
        self._dispatch = choice.dispatch
        self._precision, self._arithmetic = precision, arithmetic
        self.placed = placed_values(self._graph, self._plan)
        self._makers = {v: node for node in self._graph.nodes for v in node.outputs}

    def wanted(self) -> list[int]:
        """Buffers whose bytes the reference needs."""
        values = {v for o in self._written() for v in self._needs(o) if v is not None}
        return [i for i, placed in self.placed.items() if placed.value in values]

    def references(self, data: Mapping[int, np.ndarray]) -> dict[int, Reference]:
        """The references of written buffers, by index, from bytes of buffers; as many as can be."""
        arrays: dict[Value, np.ndarray] = {}
        for index, raw in data.items():
            array = self._unpacked(index, raw) if index in self.placed else None
            if array is not None:
                arrays.setdefault(self.placed[index].value, array)
        found = {}
        for index in self._written():
            one = self._reference(index, arrays)
            if one is not None:
                found[index] = one
        return found

    def _written(self) -> list[int]:
        return [
            b.buffer for b in self._dispatch.bindings if b.access.writes and b.buffer in self.placed
        ]

    def _repacked(self, index: int) -> bool:
        """Whether the dispatch reads the very value that it writes: a change of layout."""
        value = self.placed[index].value
        return any(
            b.access is Access.READ and b.buffer in self.placed and b.buffer != index
            and self.placed[b.buffer].value is value
            for b in self._dispatch.bindings
        )  # fmt: skip

    def _needs(self, index: int) -> Sequence[Value | None]:
        """The values that the reference of a written buffer is computed from."""
        value = self.placed[index].value
        if self._repacked(index):
            return [value]
        node = self._makers.get(value)
        if node is None:
            return []
        return [None if v is None or v.constant is not None else v for v in node.inputs]

    def _reference(self, index: int, arrays: Mapping[Value, np.ndarray]) -> Reference | None:
        value = self.placed[index].value
        if any(v is not None and v not in arrays for v in self._needs(index)):
            return None
        if self._repacked(index):
            return self._computed(Identity(), [arrays[value]], 0)
        node = self._makers.get(value)
        if node is None:
            return None
        inputs = [_known(v, arrays) for v in node.inputs]
        return self._computed(node.op, inputs, _place(node, value))

    def _computed(self, op: Op, inputs: list[np.ndarray | None], output: int) -> Reference | None:
        unit = UNITS[self._precision]
        halves = any(x is not None and x.dtype == np.float16 for x in inputs)
        held = as_held(op, inputs, self._precision) if unit else inputs
        with np.errstate(all="ignore"):
            exact = [np.asarray(y) for y in op.reference(*held)]  # type: ignore[arg-type]
        goals = [infinite_beyond_half(y, self._precision) for y in exact] if unit else exact
        sums = HALF_SUMS if self._arithmetic == "fp16" else 0.0
        coarse = unit or (UNITS["fp16"] if halves else 0.0)
        bound: Allowance = allowances(op, held, goals, storage=coarse, sums=sums)[output]
        goal = goals[output]
        return Reference(goal, np.broadcast_to(bound.allowed, goal.shape))

    def _unpacked(self, index: int, raw: np.ndarray) -> np.ndarray | None:
        """The value of a buffer's bytes; None for what no buffer of its type would be."""
        placed = self.placed[index]
        binding = next((b for b in self._dispatch.bindings if b.buffer == index), None)
        kind = self._stored(index) if binding is None else element_type(binding, placed)
        type_: TensorType = placed.value.type
        if kind is None:
            return None
        shape = packed_shape(type_, placed.layout)
        count, size = int(np.prod(shape)), storage(kind).itemsize
        if count * size > len(raw):
            return None
        numbers = floats(raw[: count * size].view(storage(kind)), kind)
        return _unpack(numbers, type_, placed.layout)

    def _stored(self, index: int) -> str | None:
        """Element type of a buffer, by what any dispatch binds it as; else by the value's type.

        None for floats that no dispatch binds, where tensors are stored in 16 bits: some are not.
        """
        bound = (b for d in self._plan.dispatches for b in d.bindings if b.buffer == index)
        found = next(bound, None)
        placed = self.placed[index]
        if found is not None:
            return element_type(found, placed)
        if placed.layout is Layout.C4B:
            return placed.value.type.dtype.value
        if not placed.value.type.dtype.is_float:
            return "int32"
        return "float32" if self._precision == "fp32" else None


def packed(array: np.ndarray, placed: PlacedValue) -> np.ndarray:
    """Numbers of a value in the order of its buffer, flat: float32, or int32."""
    layout = Layout.C4 if placed.layout is Layout.C4B else placed.layout
    return pack(array, layout).reshape(-1)


def _unpack(numbers: np.ndarray, type_: TensorType, layout: Layout) -> np.ndarray:
    return unpack(numbers, type_, Layout.C4 if layout is Layout.C4B else layout)


def _known(value: Value | None, arrays: Mapping[Value, np.ndarray]) -> np.ndarray | None:
    if value is None:
        return None
    return arrays[value] if value.constant is None else value.constant


def _place(node: Node, value: Value) -> int:
    return list(node.outputs).index(value)
