"""Dependence of a module's control flow: all that counting an invocation has to compute.

Buffers read as zeros, so that loads and what is made of them alone need no computing; most of a
kernel's arithmetic falls away.
"""

from __future__ import annotations

from collections.abc import Iterator

from vknn.profiling.invocation import expressions
from vknn.profiling.invocation import opcodes as op
from vknn.profiling.invocation.module import Instruction, KernelFunction, KernelModule

#: Memory that an invocation has for itself, and what the host tells it.
OWN = frozenset((op.FUNCTION_STORAGE, op.PRIVATE, op.INPUT, op.PUSH))
#: Instructions other than LOAD that read what a buffer holds, or reduce it over a subgroup.
READS = (
    frozenset((op.IMAGE_FETCH, op.IMAGE_READ, op.COOPERATIVE_LOAD))
    | op.ATOMICS
    | op.SUBGROUP_RESULTS
)


class Dependence:
    """All that decides the branches of a module's reachable functions.

    Attributes:
        reachable: KernelFunction -> labels of its blocks that constants do not rule out.
        values: Ids that have to be computed.
        cells: Variables and parameters whose content has to be kept.
    """

    def __init__(self, module: KernelModule) -> None:
        self.module = module
        self.reachable: dict[int, list[int]] = {}
        self._made: dict[int, Instruction] = {}
        self._parameters: dict[int, tuple[int, int]] = {}
        self._calls: dict[int, list[Instruction]] = {}
        self._stores: dict[int, list[Instruction]] = {}
        self._returned: dict[int, list[int]] = {}
        self._same: dict[int, int] = {}  # cells that a call makes one
        self._reach(module.functions[module.entry])
        self._link()
        self.values, self.cells = self._spread([*self._conditions()])

    def root(self, pointer: int) -> int:
        """The variable or parameter that a pointer points into."""
        made = self._made.get(pointer)
        while made is not None and made.opcode == op.ACCESS_CHAIN:
            pointer = made.operands[0]
            made = self._made.get(pointer)
        return pointer

    def path(self, pointer: int) -> tuple[int, ...]:
        """Ids of the indices from the root to what a pointer points to."""
        made = self._made.get(pointer)
        if made is None or made.opcode != op.ACCESS_CHAIN:
            return ()
        return (*self.path(made.operands[0]), *made.operands[1:])

    def by_data(self, value: int) -> bool:
        """Whether a value hangs on what a buffer or shared memory holds."""
        values, _ = self._spread([value])
        return any(self._is_read(self._made[v]) for v in values if v in self._made)

    def _is_read(self, step: Instruction) -> bool:
        if step.opcode == op.LOAD:
            return self.module.types.pointed(step.operands[0])[0] not in OWN
        return step.opcode in READS

    def made(self, value: int) -> Instruction | None:
        """The instruction whose result a value is."""
        return self._made.get(value)

    def kept(self, cell: int) -> bool:
        """Whether the content of a variable or parameter has to be kept."""
        return self._find(cell) in self.cells

    def successors(self, end: Instruction) -> tuple[int, ...]:
        """The blocks that may follow an instruction that ends one."""
        operands = end.operands
        if end.opcode == op.BRANCH:
            return operands[:1]
        if end.opcode == op.BRANCH_CONDITIONAL:
            known = self.module.types.values.get(operands[0])
            return operands[1:3] if known is None else (operands[1 if known else 2],)
        if end.opcode == op.SWITCH:
            return tuple(dict.fromkeys((operands[1], *operands[3::2])))
        return ()

    def _reach(self, function: KernelFunction) -> None:
        waiting, seen = [next(iter(function.blocks))], set()
        while waiting:
            label = waiting.pop()
            if label not in seen:
                seen.add(label)
                waiting += self.successors(function.blocks[label].end)
        self.reachable[function.id] = [label for label in function.blocks if label in seen]
        for place, parameter in enumerate(function.parameters):
            self._parameters[parameter] = function.id, place
        for step in self._steps(function.id):
            self._note(function.id, step)

    def _steps(self, function: int) -> Iterator[Instruction]:
        blocks = self.module.functions[function].blocks
        for label in self.reachable[function]:
            yield from blocks[label].code

    def _note(self, function: int, step: Instruction) -> None:
        if step.result:
            self._made[step.result] = step
        if step.opcode == op.CALL:
            called = step.operands[0]
            self._calls.setdefault(called, []).append(step)
            if called not in self.reachable:
                self._reach(self.module.functions[called])
        elif step.opcode == op.RETURN_VALUE:
            self._returned.setdefault(function, []).append(step.operands[0])

    def _link(self) -> None:
        """Pointers given to functions become one with the parameters that they are there."""
        for function, calls in self._calls.items():
            parameters = self.module.functions[function].parameters
            for call in calls:
                for given, parameter in zip(call.operands[1:], parameters, strict=True):
                    if self._is_pointer(parameter):
                        self._same[self._find(given)] = self._find(parameter)
        for function in self.reachable:
            for step in self._steps(function):
                if step.opcode == op.STORE:
                    cell = self._find(self.root(step.operands[0]))
                    self._stores.setdefault(cell, []).append(step)

    def _is_pointer(self, value: int) -> bool:
        types = self.module.types
        return types.kinds[types.of[value]][0] == op.TYPE_POINTER

    def _find(self, cell: int) -> int:
        while cell in self._same and self._same[cell] != cell:
            cell = self._same[cell]
        return cell

    def _conditions(self) -> Iterator[int]:
        for function in self.reachable:
            for step in self._steps(function):
                if step.opcode in (op.BRANCH_CONDITIONAL, op.SWITCH):
                    yield step.operands[0]

    def _spread(self, waiting: list[int]) -> tuple[set[int], set[int]]:
        """All values that ``waiting`` are made from, and the cells that are read on the way."""
        values: set[int] = set()
        cells: set[int] = set()
        while waiting:
            value = waiting.pop()
            if value not in values and value not in self.module.types.values:
                values.add(value)
                waiting += self._needs(value, cells)
        return values, cells

    def _needs(self, value: int, cells: set[int]) -> Iterator[int]:
        """What a value is made from; cells that are read for the first time go to ``cells``."""
        if value in self._parameters:
            function, place = self._parameters[value]
            yield from (call.operands[1 + place] for call in self._calls.get(function, ()))
            return
        step = self._made[value]
        if step.opcode == op.LOAD:
            yield from self._needs_load(step.operands[0], cells)
        elif step.opcode == op.CALL:
            yield from self._returned.get(step.operands[0], ())
        elif step.opcode == op.PHI:
            yield from (v for v in step.operands[::2] if self._known(v))
        elif step.opcode == op.EXTENDED:
            yield from step.operands[2:]
        elif step.opcode == op.SUBGROUP_SHUFFLE:
            yield step.operands[1]
        elif step.opcode in expressions.COMPUTED and step.opcode not in op.DOTS:
            yield from step.operands[: expressions.LITERALS_FROM.get(step.opcode)]

    def _known(self, value: int) -> bool:
        """Whether a value has an origin in blocks that are reached."""
        return value in self._made or value in self._parameters

    def _needs_load(self, pointer: int, cells: set[int]) -> Iterator[int]:
        storage, _ = self.module.types.pointed(pointer)
        if storage not in OWN:
            return
        yield from self.path(pointer)
        cell = self._find(self.root(pointer))
        if cell not in cells:
            cells.add(cell)
            for store in self._stores.get(cell, ()):
                yield store.operands[1]
                yield from self.path(store.operands[0])
