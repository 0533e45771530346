"""Device memory of a plan: its arenas, its weights, and the guards between tensors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

import numpy as np

from vknn.errors import DeviceError, OutOfMemoryError, ValidationError
from vknn.plan import Guard, Plan, Role
from vknn.runtime.device import Device
from vknn.runtime.quirks import writes_inputs_directly
from vknn.runtime.recorder import Place
from vknn.runtime.vulkan.memory import Allocation
from vknn.runtime.weights import DeviceWeight, WeightPool

GUARD_BYTE = 0xA5
#: Word that fills arenas under VKNN_VALIDATE before the first run: NaN as a float32, as two float16
#: and as two bfloat16, and an integer far from any index.
POISON = 0x7FC17FC1


class PlanMemory:
    """Arenas of a plan and the weights it holds. ``places`` says where each buffer lies."""

    def __init__(self, device: Device, plan: Plan, pool: WeightPool | None) -> None:
        self._core, self._transfer = device.shared.core, device.shared.transfer
        self._plan = plan
        self._weights: dict[int, DeviceWeight] = {}
        self._arenas: dict[Role, Allocation] = {}
        self._undo = ExitStack()
        with ExitStack() as undo:
            self._hold_weights(undo, device, pool)
            self._make_arenas(undo)
            self.places = [self._place(index) for index in range(len(plan.buffers))]
            self._poison(self._arenas)
            self._set_guards()
            self._undo = undo.pop_all()

    def destroy(self) -> None:
        self._undo.close()

    @property
    def nbytes(self) -> dict[Role, int]:
        """Bytes of device memory by role; weights count whoever shares them."""
        sizes = {role: memory.nbytes for role, memory in self._arenas.items()}
        held = {id(w): w.nbytes for w in self._weights.values()}
        return {role: sizes.get(role, 0) for role in Role} | {Role.WEIGHT: sum(held.values())}

    def check_guards(self) -> None:
        """Check that no kernel wrote behind a buffer's end; raises ValidationError if one did."""
        hurt = [guard for guard in self._guards() if self._hurt(guard)]
        if hurt:
            places = "; ".join(self._describe(guard) for guard in hurt)
            raise ValidationError(
                f"{self._plan.name}: bytes behind a buffer were changed: {places}"
            )

    def _hold_weights(self, undo: ExitStack, device: Device, pool: WeightPool | None) -> None:
        if not self._plan.constants:
            return
        if pool is None:
            pool = WeightPool(device)
            undo.callback(pool.close)
        wanted = [(a, self._plan.buffers[i].nbytes) for i, a in self._plan.constants.items()]
        held = pool.acquire(wanted)
        undo.callback(pool.release, held)
        self._weights = dict(zip(self._plan.constants, held, strict=True))

    def ports(self, undo: ExitStack) -> list[Place]:
        """The places, with inputs and outputs in arenas of their own, which ``undo`` frees."""
        arenas: dict[Role, Allocation] = {}
        for role in (Role.INPUT, Role.OUTPUT):
            if role in self._arenas:
                arenas[role] = self._arena(role, self._arenas[role].nbytes).called(self._name(role))
                undo.callback(arenas[role].destroy)
        self._poison(arenas)
        found = zip(self._plan.buffers, self.places, strict=True)
        return [
            replace(place, memory=arenas[b.role]) if b.role in arenas else place
            for b, place in found
        ]

    def _make_arenas(self, undo: ExitStack) -> None:
        for role, size in self._plan.arenas.items():
            # Weights do not lie in an arena of the plan: the pool places each by itself.
            if size and role is not Role.WEIGHT:
                arena = self._arena(role, size).called(self._name(role))
                undo.callback(arena.destroy)
                self._arenas[role] = arena

    def _arena(self, role: Role, size: int) -> Allocation:
        if self._core.limits.unified_memory:
            return Allocation(self._core, size, "unified")
        direct = writes_inputs_directly(self._core.snapshot, self._core.disabled)
        if role is Role.INPUT and direct:
            # The BAR may be a small window that others fill: staging does as well.
            with suppress(OutOfMemoryError):
                return Allocation(self._core, size, "input")
        return Allocation(self._core, size, "device")

    def _name(self, role: Role) -> str:
        return f"{self._plan.name}: {role.value}"

    def _place(self, index: int) -> Place:
        buffer = self._plan.buffers[index]
        if buffer.role is Role.WEIGHT:
            if index not in self._weights:
                raise DeviceError(f"{self._plan.name}: weight {buffer.name!r} has no data")
            weight = self._weights[index]
            return Place(weight.memory, weight.offset, buffer.nbytes, buffer.name)
        arena = self._arenas.get(buffer.role)
        if arena is None or buffer.offset + buffer.nbytes > arena.nbytes:
            raise DeviceError(f"{self._plan.name}: buffer {buffer.name!r} is outside its arena")
        return Place(arena, buffer.offset, buffer.nbytes, buffer.name)

    def _poison(self, arenas: Mapping[Role, Allocation]) -> None:
        if not self._core.instance.validate:
            return
        for arena in arenas.values():
            self._transfer.upload(arena, 0, np.full(arena.nbytes // 4, POISON, np.uint32))

    def _set_guards(self) -> None:
        for guard in self._guards():
            pattern = np.full(guard.nbytes, GUARD_BYTE, np.uint8)
            self._transfer.upload(self._arenas[guard.role], guard.offset, pattern)

    def _guards(self) -> list[Guard]:
        return [g for g in self._plan.guards if g.role in self._arenas and g.nbytes]

    def _hurt(self, guard: Guard) -> bool:
        found = self._transfer.download(self._arenas[guard.role], guard.offset, guard.nbytes)
        return bool((found != GUARD_BYTE).any())

    def _describe(self, guard: Guard) -> str:
        before = [
            b.name
            for b in self._plan.buffers
            if b.role is guard.role and b.offset + b.nbytes == guard.offset
        ]
        owner = " or ".join(map(repr, before)) or "no buffer"
        return f"{guard.role.value} byte {guard.offset}, behind {owner}"
