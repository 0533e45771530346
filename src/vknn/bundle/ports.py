"""Ports of a plan in the user's words: the format's names, shapes, element types and layouts.

A plan takes and gives what its graph does: floats of the plan's precision, integers and truth
values of 32 bits, pictures as planes. In a bundle each port is an array as a session takes or gives
it, byte by byte; where that is not what the graph has, a dispatch converts it on the device
(``conversions``), else it costs nothing.

- Optional inputs that are in the graph are inputs like others. Those left out, and inputs whose
  data decide shapes, are constants of the plan and no ports.
- A classifier is its scores, one output with the labels of the classes; the best of them is for the
  app to take.
- State is no port (``states``).
- Strings, complex numbers, sequences, and variables without a first value cannot go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from vknn import bfloat16
from vknn.bundle.conversions import Kind, PortConversion, can_convert, kind_of
from vknn.bundle.descriptions import PortDescription, described
from vknn.bundle.forms import ArrayForm, decoded, input_form, output_form, user_array
from vknn.bundle.rewiring import Rewiring
from vknn.bundle.schema import Direction
from vknn.bundle.states import StateDescription, described_state
from vknn.errors import ExportError, ShapeError
from vknn.formats import Model
from vknn.graph import DType, Graph, TensorType, Value
from vknn.plan import DeviceLimits, Plan, Port, Role
from vknn.runtime.device_array import storage_dtype

_NO_TYPES: Mapping[str, TensorType] = MappingProxyType({})
_NO_DTYPES: Mapping[str, DType] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class PortedPlan:
    """A plan whose inputs and outputs lie as the user has them, and what is to be said of these.

    ``plan``: its ports have the user's names and types; those of states keep the graph's.
    ``ports``: inputs, then outputs, without states.
    """

    plan: Plan
    ports: Sequence[PortDescription]
    states: Sequence[StateDescription]


def ported(
    model: Model,
    graph: Graph,
    plan: Plan,
    limits: DeviceLimits,
    types: Mapping[str, TensorType] = _NO_TYPES,
    dtypes: Mapping[str, DType] = _NO_DTYPES,
) -> PortedPlan:
    """The plan of a graph of one segment, with the user's ports.

    Args:
        model: The model.
        graph: Its graph as it was partitioned (``Outline.parts.graph``), of which casts at the ends
            may be cut off before (``ends.narrowed``).
        plan: The plan of its segment.
        limits: Those that the plan was made for.
        types: The user's own types of the inputs, as ``Model.build`` takes them; where they are
            left out, shapes are those that the file suggests or the graph's.
        dtypes: Element types of the outputs in the model's graph, before any were narrowed.

    Raises:
        ExportError: Inputs or outputs cannot be ports: all of them, why, and what to do.
    """
    porting = _Porting(model, graph, plan, limits, types, dtypes)
    for value in graph.inputs:
        porting.tried(porting.input, value.name, value)
    for name, value in graph.outputs.items():
        porting.tried(porting.output, name, value)
    if porting.reasons:
        raise ExportError(porting.reasons, file=model.file)
    finished = porting.wiring.finished(porting.inputs, porting.outputs)
    return PortedPlan(finished, porting.ports, porting.states)


@dataclass(frozen=True)
class _Held:
    """Elements of ``kind`` in a buffer of the plan."""

    buffer: int
    kind: Kind


class _Porting:
    """State while the ports of a plan are made, one after another."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        plan: Plan,
        limits: DeviceLimits,
        types: Mapping[str, TensorType],
        dtypes: Mapping[str, DType],
    ) -> None:
        self.model, self.graph, self.plan = model, graph, plan
        self.limits, self.types, self.dtypes = limits, types, dtypes
        self.wiring = Rewiring(plan, limits)
        self.inputs: dict[str, Port] = {}
        self.outputs: dict[str, Port] = {}
        self.ports: list[PortDescription] = []
        self.states: list[StateDescription] = []
        self.reasons: list[str] = []
        #: Results of the plan by the names of their values: its own are "number:name".
        self._results = {key.partition(":")[2]: port for key, port in plan.outputs.items()}
        self._given: dict[Value, _Held] = {}

    def tried(self, make: Callable[[str, Value], None], name: str, value: Value) -> None:
        """A port made, or the reasons noted why it cannot be."""
        try:
            make(name, value)
        except ExportError as error:
            self.reasons += error.reasons
        except ShapeError as error:
            self.reasons.append(f"{name!r}: {error}")

    def input(self, name: str, value: Value) -> None:
        """The port of an input, or a state's first half."""
        port = self.plan.inputs.get(value.name)
        if name in self.model.state:
            if port is not None:
                self.inputs[name] = port
                self._given[value] = _Held(port.buffer, kind_of(port))
            return
        self._check_name(name, "input")
        form = input_form(self.model, name, value.type, self.types)
        kind = Kind(form.element)
        target = kind if port is None else kind_of(port)
        conversion = self._conversion(name, "input", kind, target, value.type.size, form)
        if port is not None and conversion.is_copy:
            buffer = port.buffer
        else:
            buffer = self.wiring.buffer(name, Role.INPUT, conversion.source_bytes)
            if port is not None:
                self.wiring.before(conversion, buffer, port.buffer, name)
        self._given[value] = _Held(buffer, kind)
        self.inputs[name] = Port(buffer, form.type, as_typed=True)
        self.ports.append(described(self.model, name, Direction.INPUT, form, buffer))

    def output(self, name: str, value: Value) -> None:
        """The port of an output, or a state with its second half."""
        if name in self.model.state:
            self._state(name, value)
            return
        if self.model.variables.get(name) == "":
            return  # it counts for variables of the file's own, which are refused
        self._check_name(name, "output")
        port = self._results.get(value.name) if self._is_made(value) else None
        if port is None and self._is_made(value):
            raise ExportError(
                [
                    f"output {name!r} is not made by the plan: a step on the host, or behind sizes "
                    "that data decide, makes it; cut the network before (--outputs)"
                ]
            )
        bound = value.type if port is None else port.type
        counted = port is not None and port.count is not None
        axis = port.open_axis if port is not None and counted else None
        form = output_form(self.model, name, bound, axis, self.dtypes.get(name))
        if value.constant is not None:
            buffer = self._constant(
                name, user_array(form, decoded(self.model, name, value.constant))
            )
        else:
            held = self._held(value, port)
            kind = Kind(form.element)
            conversion = self._conversion(name, "output", held.kind, kind, bound.size, form)
            buffer = self._converted(name, conversion, held, port)
        count = port.count if port is not None else None
        self.outputs[name] = Port(
            buffer, form.type, count, form.open_axis if counted else 0, as_typed=True
        )
        self.ports.append(described(self.model, name, Direction.OUTPUT, form, buffer, count=count))

    def _state(self, name: str, value: Value) -> None:
        into = self.inputs.get(name)
        if into is None:
            return  # nothing reads it: it changes no result
        port = self._results.get(value.name) if self._is_made(value) else None
        if value.constant is not None:
            buffer = self._constant(name, _stored(value.constant, into))
        else:
            held = self._held(value, port)
            conversion = PortConversion(held.kind, kind_of(into), into.type.size)
            buffer = self._converted(name, conversion, held, port)
        self.outputs[name] = Port(
            buffer, into.type, width=into.width, bfloat16=into.bfloat16, as_typed=into.as_typed
        )
        self.states.append(described_state(self.model, name, into, buffer))

    def _is_made(self, value: Value) -> bool:
        """Whether the plan's steps make a value: it is neither a constant nor an input."""
        return value.constant is None and value not in self.graph.inputs

    def _held(self, value: Value, port: Port | None) -> _Held:
        """Where the elements of a value lie behind the last step: a result, or an input."""
        return self._given[value] if port is None else _Held(port.buffer, kind_of(port))

    def _converted(
        self, name: str, conversion: PortConversion, held: _Held, port: Port | None
    ) -> int:
        """The buffer of an output: that of the plan's port where nothing is to be done."""
        if port is not None and conversion.is_copy:
            return port.buffer
        buffer = self.wiring.buffer(name, Role.OUTPUT, conversion.target_bytes)
        self.wiring.behind(conversion, held.buffer, buffer, name)
        return buffer

    def _constant(self, name: str, array: np.ndarray) -> int:
        """The buffer of an output that is the same in all runs."""
        kind = Kind[array.dtype.name.upper()]
        conversion = PortConversion(kind, kind, array.size)
        held = _Held(self.wiring.constant(name, array), kind)
        return self._converted(name, conversion, held, None)

    def _conversion(
        self, name: str, what: str, source: Kind, target: Kind, size: int, form: ArrayForm
    ) -> PortConversion:
        """The conversion of a port's elements, checked. Raises ExportError."""
        conversion = PortConversion(source, target, size, form.order, form.rounds, form.nan_to_most)
        if not conversion.is_copy and not can_convert(source, target):
            raise ExportError(
                [
                    f"{what} {name!r} is {form.dtype.name}, the network has "
                    f"{target.name.lower() if what == 'input' else source.name.lower()} there: "
                    "change the model so that it has one of both"
                ]
            )
        most = self.limits.max_storage_buffer_range
        nbytes = max(conversion.source_bytes, conversion.target_bytes)
        if nbytes > most:
            raise ExportError(
                [
                    f"{what} {name!r} of {math.prod(form.dims)} elements takes {nbytes} bytes in "
                    f"a buffer, the target allows {most}: give a smaller shape or another target"
                ]
            )
        return conversion

    def _check_name(self, name: str, what: str) -> None:
        """Check that it is no variable and no part of a sequence. Raises ExportError."""
        if name in self.model.variables:
            raise ExportError(
                [
                    f"{self.model.variables[name]} has no value before a run gives it one, and of "
                    "any type: make it an input and an output of the model"
                ]
            )
        if "\0" in name:
            raise ExportError([a_sequence(what, name.partition("\0")[0])])


def a_sequence(what: str, name: str) -> str:
    """Text about an input or output that is a list of arrays."""
    return f"{what} {name!r} is a sequence: make its elements {what}s of their own"


def _stored(array: np.ndarray, port: Port) -> np.ndarray:
    """A constant as it lies in a port's buffer."""
    if kind_of(port) is Kind.BFLOAT16:
        return bfloat16.bits_of(array)
    with np.errstate(all="ignore"):
        return array.astype(storage_dtype(port))
