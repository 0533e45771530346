"""Rewiring of a plan: new inputs and outputs around its steps, old ones among its activations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.bundle.conversions import PortConversion, dispatch
from vknn.lowering.assemble.barriers import add_barriers, cut_submits
from vknn.lowering.assemble.memory_planner import align
from vknn.lowering.kit.layouts import buffer_bytes
from vknn.plan import Buffer, Command, Copy, DeviceLimits, Guard, Plan, Port, Role, accesses

_ENDS = (Role.INPUT, Role.OUTPUT)


@dataclass(eq=False)
class _Block:
    """Buffers that share bytes, from ``start`` to ``end`` of an arena; ``guard``: bytes behind."""

    role: Role
    start: int
    end: int
    buffers: list[int]
    guard: int = 0

    @property
    def nbytes(self) -> int:
        return self.end - self.start + self.guard


class Rewiring:
    """A plan with further buffers and commands; ``finished`` gives the plan of it all."""

    def __init__(self, plan: Plan, limits: DeviceLimits) -> None:
        self.plan, self.limits = plan, limits
        self.buffers = list(plan.buffers)
        self._constants = dict(plan.constants)
        self._arenas = dict(plan.arenas)
        self._first: list[Command] = []
        self._last: list[Command] = []
        self._taken = {b.name for b in plan.buffers}

    def buffer(self, name: str, role: Role, nbytes: int) -> int:
        """Number of a new buffer at the end of an arena."""
        offset = align(self._arenas.get(role, 0), self.limits.alignment)
        self._arenas[role] = offset + nbytes
        name = self._unique(f"port:{name}".replace("//", "/ /"))
        self.buffers.append(Buffer(name, role, offset, nbytes))
        return len(self.buffers) - 1

    def constant(self, name: str, array: np.ndarray) -> int:
        """Number of a new weight with an array's bytes, and zeros up to the buffer's end."""
        data = np.zeros(buffer_bytes(array.nbytes, 1), np.uint8)
        data[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        index = self.buffer(name, Role.WEIGHT, len(data))
        self._constants[index] = data.view(np.int32)
        return index

    def before(self, conversion: PortConversion, source: int, target: int, name: str) -> None:
        """A conversion before the first step."""
        self._first.append(self._made(conversion, source, target, name, "input"))

    def behind(self, conversion: PortConversion, source: int, target: int, name: str) -> None:
        """A conversion behind the last step."""
        self._last.append(self._made(conversion, source, target, name, "output"))

    def finished(self, inputs: dict[str, Port], outputs: dict[str, Port]) -> Plan:
        """The plan with these ports.

        What was an input or output and is none of these any more lies among the activations, where
        nothing else is meanwhile.
        """
        commands = [*self._first, *self.plan.commands, *self._last]
        ports = [*inputs.values(), *outputs.values()]
        held = {p.buffer for p in ports} | {p.count for p in ports if p.count is not None}
        blocks = self._blocks()
        inner = [b for b in blocks if held.isdisjoint(b.buffers)]
        guards = [g for g in self.plan.guards if g.role not in _ENDS]
        for role in _ENDS:
            self._pack(role, [b for b in blocks if b.role is role and b not in inner], guards)
        for block in inner:
            self._move_in(block, commands, guards)
        steps = tuple(add_barriers(commands, self.buffers))
        return Plan(
            self.plan.name, tuple(self.buffers), self._arenas, steps,
            cut_submits(steps, self.limits.kind), inputs, outputs, self._constants, tuple(guards),
        )  # fmt: skip

    def _made(
        self, conversion: PortConversion, source: int, target: int, name: str, end: str
    ) -> Command:
        label = f"{end} port"
        if conversion.is_copy:
            nbytes = -(-conversion.size * conversion.target.width // 4) * 4
            return Copy(source, target, nbytes, nodes=(name,), label=label)
        return dispatch(conversion, source, target, self.limits, label, name)

    def _blocks(self) -> list[_Block]:
        """The bytes of inputs and outputs, each with all buffers that lie in them."""
        found: list[_Block] = []
        order = sorted(range(len(self.buffers)), key=lambda i: self.buffers[i].offset)
        for role in _ENDS:
            reached = 0
            for index in order:
                buffer = self.buffers[index]
                if buffer.role is not role:
                    continue
                if found and found[-1].role is role and buffer.offset < reached:
                    found[-1].buffers.append(index)
                else:
                    found.append(_Block(role, buffer.offset, 0, [index]))
                reached = max(reached, buffer.offset + buffer.nbytes)
                found[-1].end = reached
        ends = {(b.role, b.end): b for b in found}
        for guard in self.plan.guards:
            if guard.role in _ENDS:
                ends[guard.role, guard.offset].guard = guard.nbytes
        return found

    def _pack(self, role: Role, blocks: Sequence[_Block], guards: list[Guard]) -> None:
        """Places for all that stays in an arena."""
        end = 0
        for block in blocks:
            end = self._place(block, role, align(end, self.limits.alignment), guards)
        self._arenas[role] = end

    def _move_in(self, block: _Block, commands: Sequence[Command], guards: list[Guard]) -> None:
        """A place among the activations for what was an input or output."""
        arena = self._arenas.get(Role.ACTIVATION, 0)
        offset = align(arena, self.limits.alignment)
        if not self.plan.guards:
            offset = self._gap(block, commands)
        end = self._place(block, Role.ACTIVATION, offset, guards)
        self._arenas[Role.ACTIVATION] = max(arena, end)

    def _gap(self, block: _Block, commands: Sequence[Command]) -> int:
        """The first offset at which nothing else lives as long as a block does."""
        lives = self._lives(commands)
        own = [lives[self._root(i)] for i in block.buffers if self._root(i) in lives]
        first, last = min(a for a, _ in own), max(b for _, b in own)
        busy = []
        for index, buffer in enumerate(self.buffers):
            if buffer.role is Role.ACTIVATION:
                begun, done = lives.get(self._root(index), (0, len(commands)))
                if begun <= last and first <= done:
                    busy.append((buffer.offset, buffer.offset + buffer.nbytes))
        offset = 0
        for start, end in sorted(busy):
            if offset + block.nbytes <= start:
                break
            offset = max(offset, align(end, self.limits.alignment))
        return offset

    def _lives(self, commands: Sequence[Command]) -> dict[str, tuple[int, int]]:
        """First and last command that touches any part of a buffer, by the whole one's name."""
        lives: dict[str, tuple[int, int]] = {}
        for number, command in enumerate(commands):
            for index, _ in accesses(command):
                root = self._root(index)
                lives[root] = (lives.get(root, (number,))[0], number)
        return lives

    def _root(self, index: int) -> str:
        return self.buffers[index].name.partition("//")[0]

    def _place(self, block: _Block, role: Role, offset: int, guards: list[Guard]) -> int:
        """The block's buffers at an offset of an arena; the end of it."""
        for index in block.buffers:
            buffer = self.buffers[index]
            moved = offset + buffer.offset - block.start
            self.buffers[index] = dataclasses.replace(buffer, role=role, offset=moved)
        end = offset + block.end - block.start
        if block.guard:
            guards.append(Guard(role, end, block.guard))
        return end + block.guard

    def _unique(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
