"""Memory budget: what a network may take, checked before anything is allocated for it.

Where nothing is stated it is SHARE of what is free when a network is compiled: of the host's
memory for what runs with NumPy, of the device's heaps for what runs there (of both where these are
the same memory).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vknn.errors import OutOfMemoryError
from vknn.graph import Graph, Node, TensorType, Value
from vknn.host_memory import SHARE, allowed_host_memory, free_host_memory
from vknn.ops.movement.shape import Reshape
from vknn.plan import Plan
from vknn.run_limits import MORE_MEMORY as _REMEDY
from vknn.runtime import Device

#: How many times the size of what a node reads and gives NumPy may hold besides while it runs.
#: References compute in blocks (tests/ops/test_reference_blocks.py holds most of them to this).
_TEMPORARY = 2


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes that a network may take; ``limit`` None: a share of what is free."""

    limit: int | None = None
    device: Device | None = None

    def check(self, graph: Graph) -> None:
        """Check of a graph's results: with NumPy of those that are alive at the same time, on a
        device, whose plan is checked when it is there, of the largest.

        Raises OutOfMemoryError that names the layer at which they are too many.
        """
        most = self._most()
        alive, layer = peak(graph, _TEMPORARY) if self.device is None else largest(graph)
        if most is not None and alive > most and layer is not None:
            origin = layer.origin
            own = sum(map(_nbytes, layer.outputs))
            when = "there at once" if self.device is None else "for one even in 16 bits"
            raise OutOfMemoryError(
                f"layer {origin.name!r} ({origin.type}): its results have {own} bytes, {alive} are "
                f"needed {when}, more than the limit of {most}; {_REMEDY}"
            )

    def check_plan(self, plan: Plan, tensors: int = 0) -> None:
        """Check of a plan's buffers; raises OutOfMemoryError.

        ``tensors``: bytes of results that stay on the device; what is free is free without them.
        """
        most, needed = self._most(), sum(plan.arenas.values())
        held = tensors if self.limit is not None else 0
        if most is not None and needed + held > most:
            beside = f" beside the {held} of its device tensors" if held else ""
            raise OutOfMemoryError(
                f"the plan of {plan.name!r} needs {needed} bytes of device memory"
                f"{_largest_buffer(plan)}{beside}, more than the limit of {most}; {_REMEDY}"
            )

    def check_state(self, state: Mapping[str, TensorType], file: str | None) -> None:
        """Check of what a model keeps on the host between runs; raises OutOfMemoryError."""
        if not state:  # most models; what is free is not asked for them
            return
        most = self.limit if self.limit is not None else MemoryBudget()._most()
        needed = {name: _type_nbytes(type_) for name, type_ in state.items()}
        if most is not None and sum(needed.values()) > most:
            name = max(needed, key=lambda n: needed[n])
            raise OutOfMemoryError(
                f"{file or 'the model'}: its state has {sum(needed.values())} bytes, of which "
                f"{name!r}, {state[name]}, is the largest, more than the limit of {most}; {_REMEDY}"
            )

    def check_tensors(self, needed: int, growth: int) -> None:
        """Check of results that stay on the device; raises OutOfMemoryError.

        ``needed``: bytes of the network and of all that stays; ``growth``: bytes that are about to
        be allocated, which is what counts where no limit is stated.
        """
        most = self.limit if self.limit is not None else (self._most() if growth else None)
        if most is not None and (found := needed if self.limit is not None else growth) > most:
            raise OutOfMemoryError(
                f"the network and its device tensors need {found} bytes on the device, more than "
                f"the limit of {most}; close tensors, or raise memory_limit (VKNN_MEMORY_LIMIT)"
            )

    def _most(self) -> int | None:
        if self.limit is not None or self.device is None:
            return allowed_host_memory(self.limit)
        own = max(0, self.device.snapshot.memory_bytes - self.device.shared.core.allocated)
        shares = self.device.limits.kind in ("cpu", "integrated")
        return int(SHARE * min(own, (free_host_memory() if shares else None) or own))


def peak(graph: Graph, temporary: int = 0) -> tuple[int, Node | None]:
    """Most bytes of results that are alive at the same time, and the node that makes the last.

    ``temporary``: how many times what a node reads and gives counts besides while it runs. Shapes
    that only a run decides count nothing; a Reshape is its input.
    """
    last = {v: i for i, node in enumerate(graph.nodes) for v in node.inputs if v is not None}
    last.update(dict.fromkeys(graph.outputs.values(), len(graph.nodes)))
    ends: dict[int, list[Value]] = {}
    alive = most = 0
    found: Node | None = None
    for index, node in enumerate(graph.nodes):
        own = 0 if isinstance(node.op, Reshape) else sum(map(_nbytes, node.outputs))
        read = sum(_nbytes(v) for v in node.inputs if v is not None and v.constant is None)
        needed = alive + own + (temporary * (own + read) if own else 0)
        if needed > most:
            most, found = needed, node
        if own:
            alive += own
            for value in node.outputs:
                ends.setdefault(last.get(value, index), []).append(value)
        alive -= _total(ends.pop(index, ()))
    return most, found


def largest(graph: Graph) -> tuple[int, Node | None]:
    """Bytes of the largest result on a device, if it were stored in 16 bits, and its node."""
    sizes = ((max(map(_least_nbytes, node.outputs), default=0), node) for node in graph.nodes)
    return max(sizes, key=lambda size: size[0], default=(0, None))


def _largest_buffer(plan: Plan) -> str:
    """Words on the largest buffer of a plan and the layers that write it, or read it first."""
    if not plan.buffers:
        return ""
    index, buffer = max(enumerate(plan.buffers), key=lambda pair: pair[1].nbytes)
    users = [
        (not b.access.writes, number, d.nodes)
        for number, d in enumerate(plan.dispatches)
        for b in d.bindings
        if b.buffer == index
    ]
    layers = "+".join(min(users)[2]) if users else ""
    of = f" of layer {layers!r}" if layers else ""
    return f" ({buffer.nbytes} of them: {buffer.role.value} {buffer.name!r}{of})"


def _nbytes(value: Value) -> int:
    return _type_nbytes(value.type)


def _type_nbytes(type_: TensorType) -> int:
    return type_.size * type_.dtype.itemsize if type_.is_static else 0


def _least_nbytes(value: Value) -> int:
    return value.type.size * min(2, value.type.dtype.itemsize) if value.type.is_static else 0


def _total(values: Iterable[Value]) -> int:
    return sum(map(_nbytes, values))
