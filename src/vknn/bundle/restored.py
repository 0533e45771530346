"""Plans made back from a bundle's records, for vknn's own runtime: a bundle holds all that a run
needs, or this would not run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vknn.bundle import schema
from vknn.bundle.reader import Bundle
from vknn.bundle.records import BundlePlan, BundlePort
from vknn.bundle.schema import BufferRole, StepKind
from vknn.bundle.suitability import lacking
from vknn.errors import InputError, VknnError
from vknn.graph import DType, TensorType
from vknn.plan import (
    Access,
    Barrier,
    Binding,
    Buffer,
    Copy,
    Dispatch,
    Fill,
    Plan,
    Port,
    Role,
    Step,
    TexelFormat,
)
from vknn.runtime import Device, Executable
from vknn.runtime.pipelines import DESCRIPTOR_TYPES
from vknn.runtime.recorder import VK_FORMATS
from vknn.runtime.vulkan.lifetime import Closing

_ROLES = {
    BufferRole.INPUT: Role.INPUT,
    BufferRole.OUTPUT: Role.OUTPUT,
    BufferRole.ACTIVATION: Role.ACTIVATION,
    BufferRole.WEIGHT: Role.WEIGHT,
}
_ACCESS = {1: Access.READ, 2: Access.WRITE, 3: Access.READ_WRITE}
_VIEWS = {number: view for view, number in DESCRIPTOR_TYPES.items()}
_FORMATS = {number: format_ for format_, number in VK_FORMATS.items()}


class RestoredPlan(Closing):
    """A bundle's plan on a device of this machine, by vknn's own runtime. A context manager.

    Raises VknnError for a device that lacks what the plan needs.
    """

    def __init__(self, bundle: Bundle, plan: BundlePlan, device: Device) -> None:
        if lacks := lacking(plan, device.snapshot):
            raise VknnError(
                f"{bundle.file}: plan {plan.index} ({plan.target}) cannot run on {device.name}, "
                f"which lacks {'; '.join(lacks)}: choose another with --plan or --device"
            )
        self.plan = plan
        self._executable = Executable(device, restored(bundle, plan), shaders=_Modules(bundle))
        self._states: dict[int, np.ndarray] = {}
        self.reset()

    def reset(self) -> None:
        """The first values of all states."""
        for state in self.plan.states:
            first = np.zeros(state.nbytes, np.uint8) if state.first is None else state.first
            self._states[state.input] = first

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs for inputs, by name, of the shapes and dtypes of the plan's ports.

        Raises InputError for inputs that are missing, unknown or do not fit, and what
        :meth:`vknn.runtime.Executable.run` raises.
        """
        given = dict(self._states)
        given.update(self._encoded(feeds))
        words = self._executable.plan.inputs
        found = self._executable.run(
            {name: _words(given[port.buffer], port.type.size) for name, port in words.items()}
        )
        for state in self.plan.states:
            self._states[state.input] = _bytes(found[_name(state.output)], state.nbytes)
        return {port.name: _decoded(port, found) for port in self.plan.outputs}

    def close(self) -> None:
        """Release of everything; may be called twice."""
        self._executable.close()

    def _encoded(self, feeds: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
        """Bytes by buffer."""
        found = {}
        ports = {port.name: port for port in self.plan.inputs}
        kept = set(self._states)
        for name in feeds:
            if name not in ports:
                raise InputError(f"there is no input {name!r}; there are {', '.join(ports)}")
        for name, port in ports.items():
            if name not in feeds:
                if port.buffer in kept:
                    continue
                raise InputError(f"missing input {name!r}")
            found[port.buffer] = port.encoded(feeds[name]).reshape(-1).view(np.uint8)
        return found


def restored(bundle: Bundle, plan: BundlePlan) -> Plan:
    """The plan of a bundle for :class:`vknn.runtime.Executable`, whose shaders are modules.

    Its ports, "0", "1", ... by their buffers, are the buffers' 32-bit words (int32), whatever
    their elements are: states and counts among them.
    """
    buffers = tuple(
        Buffer(
            bundle.string(row["name"]),
            _ROLES[BufferRole(int(row["role"]))],
            int(row["offset"]),
            # Words: an array of bytes may end within one.
            -(-int(row["nbytes"]) // 4) * 4,
        )
        for row in plan.buffers
    )
    inputs = {port.buffer for port in plan.inputs} | {state.input for state in plan.states}
    outputs = {port.buffer for port in plan.outputs} | {state.output for state in plan.states}
    outputs |= {port.count for port in plan.outputs if port.count is not None}
    weights = np.flatnonzero(plan.buffers["role"] == BufferRole.WEIGHT).tolist()
    blobs = {n: bundle.blob(n) for n in np.unique(plan.buffers["blob"][weights]).tolist()}
    roles = (Role.INPUT, Role.OUTPUT, Role.ACTIVATION)
    arenas = dict(zip(roles, plan.row["arenas"].tolist(), strict=True))
    return Plan(
        plan.name,
        buffers,
        {role: -(-size // 16) * 16 for role, size in arenas.items()},
        tuple(_Steps(bundle, plan).all()),
        tuple(plan.submits["end"].tolist()),
        {_name(b): _word_port(buffers, b) for b in sorted(inputs)},
        {_name(b): _word_port(buffers, b) for b in sorted(outputs)},
        {index: blobs[int(plan.buffers["blob"][index])] for index in weights},
    )


class _Modules:
    """Modules of a bundle by the kernels that :class:`_Steps` names."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def __call__(self, kernel: str, variant: tuple[tuple[str, str], ...]) -> bytes:
        return self._bundle.module(int(dict(variant)["module"]))


class _Steps:
    """Steps of a plan."""

    def __init__(self, bundle: Bundle, plan: BundlePlan) -> None:
        self._bundle, self._plan = bundle, plan

    def all(self) -> list[Step]:
        return [self._step(row) for row in self._plan.steps]

    def _step(self, row: np.void) -> Step:
        kind = int(row["kind"])
        if kind == StepKind.BARRIER:
            return Barrier(())
        nodes = (self._bundle.string(row["label"]),)
        label = self._bundle.string(row["op"])
        target = int(row["target"])
        if kind == StepKind.FILL:
            return Fill(target, int(row["word"]), nodes, label)
        if kind == StepKind.COPY:
            return Copy(
                int(row["source"]), target, int(row["nbytes"]), int(row["source_offset"]),
                int(row["target_offset"]), nodes, label,
            )  # fmt: skip
        return self._dispatch(row, nodes, label)

    def _dispatch(self, row: np.void, nodes: tuple[str, ...], label: str) -> Dispatch:
        tables, bundle = self._bundle.tables, self._bundle
        pipeline = tables[schema.PIPELINE][row["pipeline"]]
        constants = _some(tables[schema.CONSTANT], pipeline, "constants")
        slots = _some(tables[schema.SLOT], pipeline, "slots")
        bindings = _some(tables[schema.BINDING], row, "bindings")
        push = int(row["push"])
        return Dispatch(
            bundle.string(pipeline["kernel"]),
            (("module", str(int(pipeline["module"]))),),
            tuple((int(c["id"]), int(c["word"].view(np.int32))) for c in constants),
            bundle.sections["push"][push : push + int(pipeline["push_bytes"])].tobytes(),
            tuple(_binding(b, s) for b, s in zip(bindings, slots, strict=True)),
            tuple(row["groups"].tolist()),
            nodes,
            label,
            int(row["flops"]),
            int(row["traffic"]),
        )


def _binding(row: np.void, slot: np.void) -> Binding:
    format_ = _FORMATS.get(int(row["format"]), TexelFormat.RGBA32_SFLOAT)
    return Binding(
        int(row["buffer"]), _ACCESS[int(slot["access"])], _VIEWS[int(slot["view"])], format_
    )


def _some(table: np.ndarray, row: np.void, field: str) -> np.ndarray:
    start = int(row[f"first_{field}"])
    return table[start : start + int(row[field])]


def _name(buffer: int) -> str:
    return str(buffer)


def _word_port(buffers: tuple[Buffer, ...], index: int) -> Port:
    return Port(index, TensorType((buffers[index].nbytes // 4,), DType.INT32))


def _words(array: np.ndarray, count: int) -> np.ndarray:
    """Bytes as so many words, those behind them zeros."""
    words = np.zeros(count, np.int32)
    words.view(np.uint8)[: len(array)] = array
    return words


def _bytes(words: np.ndarray, count: int) -> np.ndarray:
    return words.view(np.uint8)[:count]


def _decoded(port: BundlePort, found: Mapping[str, np.ndarray]) -> np.ndarray:
    """An output out of its buffer's words, cut to its count."""
    raw = _bytes(found[_name(port.buffer)], port.nbytes)
    array = raw.view(port.dtype).reshape(port.shape)
    if port.count is None:
        return array
    axis = port.open_axis
    size = max(0, min(int(found[_name(port.count)][0]), port.shape[axis]))
    return array[(slice(None),) * axis + (slice(size),)]
