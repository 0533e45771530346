"""Python made of a SPIR-V module: it follows the module's branches and counts rounds of blocks.

Each function becomes a function of Python. Its blocks are numbered; those that follow each other
without a choice are one. A variable of one's own is a list of one value, so that callees can change
it. Only what `Dependence` names is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType

from vknn.profiling.invocation import expressions
from vknn.profiling.invocation import opcodes as op
from vknn.profiling.invocation.dependence import Dependence
from vknn.profiling.invocation.module import Instruction, KernelFunction, KernelModule


@dataclass(frozen=True)
class Run:
    """Blocks that follow each other without a choice, by label.

    ``looping``: whether it begins a loop; ``calls``: ids of its calls' results.
    """

    labels: tuple[int, ...]
    looping: bool
    calls: tuple[int, ...]


@dataclass(frozen=True)
class BlockLoop:
    """A loop: its first run, all its runs, those that go back, and whether it is to be unrolled."""

    header: int
    members: frozenset[int]
    back: frozenset[int]
    unrolled: bool


class FunctionCode:
    """A function's runs, loops and text.

    Attributes:
        runs: Its runs; the first is where it begins.
    """

    def __init__(
        self, module: KernelModule, dependence: Dependence, function: KernelFunction
    ) -> None:
        self._module, self._dependence, self._function = module, dependence, function
        labels = dependence.reachable[function.id]
        self._next = {k: self._successors(k) for k in labels}
        self._before: dict[int, list[int]] = {label: [] for label in labels}
        for label, following in self._next.items():
            for successor in following:
                self._before[successor].append(label)
        self.runs = [self._run(label) for label in labels if not self._follows(label)]
        self._number = {label: n for n, run in enumerate(self.runs) for label in run.labels}

    @cached_property
    def loops(self) -> list[BlockLoop]:
        """Loops of the function that are reached."""
        return [*self._loops()]

    @property
    def by_data(self) -> bool:
        """Whether what buffers hold decides when one of the loops ends."""
        return any(self._dependence.by_data(end) for loop in self.loops for end in self._ends(loop))

    def _ends(self, loop: BlockLoop) -> Iterator[int]:
        """The conditions by which a loop is left."""
        for number in loop.members:
            end = self._function.blocks[self.runs[number].labels[-1]].end
            if end.opcode in (op.BRANCH_CONDITIONAL, op.SWITCH) and any(
                self._number[label] not in loop.members
                for label in self._dependence.successors(end)
            ):
                yield end.operands[0]

    def text(self) -> str:
        """The function in Python: ``node`` keeps its counts and those of its calls."""
        parameters = "".join(f", v{p}" for p in self._function.parameters)
        lines = [f"def f{self._function.id}(node{parameters}):", " counts = node.counts", " b = 0"]
        lines += [" while True:", *self._tree(0, len(self.runs), 2)]
        return "\n".join(lines)

    def _successors(self, label: int) -> tuple[int, ...]:
        return self._dependence.successors(self._function.blocks[label].end)

    def _follows(self, label: int) -> bool:
        """Whether a block has one before it that goes nowhere else."""
        before = self._before[label]
        return len(before) == 1 and len(self._next[before[0]]) == 1

    def _run(self, label: int) -> Run:
        labels = [label]
        while len(self._next[labels[-1]]) == 1 and self._follows(self._next[labels[-1]][0]):
            labels.append(self._next[labels[-1]][0])
        blocks = [self._function.blocks[k] for k in labels]
        calls = tuple(s.result for b in blocks for s in b.code if s.opcode == op.CALL)
        return Run(tuple(labels), blocks[0].loop is not None, calls)

    def _loops(self) -> Iterator[BlockLoop]:
        for number, run in enumerate(self.runs):
            loop = self._function.blocks[run.labels[0]].loop
            if loop is None:
                continue
            members, back = {number}, set()
            behind = self._number.get(loop[0], -1)
            waiting = [n for n in self._entries(number) if self._reaches(number, n, behind)]
            back |= set(waiting)
            while waiting:
                found = waiting.pop()
                if found not in members:
                    members.add(found)
                    waiting += self._entries(found)
            if back:
                yield BlockLoop(number, frozenset(members), frozenset(back), loop[1])

    def _entries(self, number: int) -> list[int]:
        """Runs that go to a run."""
        return [self._number[label] for label in self._before[self.runs[number].labels[0]]]

    def _reaches(self, start: int, target: int, behind: int) -> bool:
        """Whether a run is reached from a loop's header without leaving the loop."""
        waiting, seen = [start], {behind}
        while waiting:
            number = waiting.pop()
            if number == target:
                return True
            if number not in seen:
                seen.add(number)
                waiting += [self._number[k] for k in self._next[self.runs[number].labels[-1]]]
        return False

    def _tree(self, first: int, end: int, depth: int) -> Iterator[str]:
        """Runs from ``first`` to ``end``, found by halving."""
        pad = " " * depth
        if end - first == 1:
            yield from (pad + line for line in self._lines(first))
            return
        middle = (first + end) // 2
        yield f"{pad}if b < {middle}:"
        yield from self._tree(first, middle, depth + 1)
        yield f"{pad}else:"
        yield from self._tree(middle, end, depth + 1)

    def _lines(self, number: int) -> Iterator[str]:
        yield f"counts[{number}] += 1"
        run = self.runs[number]
        if run.looping:
            yield "spend()"
        for label in run.labels:
            block = self._function.blocks[label]
            for step in block.code[:-1]:
                yield from self._step(step)
            if label != run.labels[-1]:
                yield from self._choose(label, self._next[label][0])
        yield from self._end(run.labels[-1])

    def _step(self, step: Instruction) -> Iterator[str]:
        dependence = self._dependence
        if step.opcode == op.CALL:
            yield self._call(step)
        elif step.opcode == op.STORE:
            yield from self._store(step)
        elif step.opcode == op.VARIABLE:
            if dependence.kept(step.result):
                _, kind = self._module.types.pointed(step.result)
                initial = self._module.text(step.operands[1]) if len(step.operands) > 1 else None
                yield f"v{step.result} = [{initial or self._module.types.zero(kind)!r}]"
        elif step.result in dependence.values and step.opcode != op.PHI:
            yield f"v{step.result} = {self._value(step)}"

    def _call(self, step: Instruction) -> str:
        called, given = step.operands[0], step.operands[1:]
        texts = [self._argument(value) for value in given]
        node = f"node.child({step.result}, {called})"
        return f"v{step.result} = f{called}({', '.join([node, *texts])})"

    def _argument(self, value: int) -> str:
        types, dependence = self._module.types, self._dependence
        if types.kinds[types.of[value]][0] == op.TYPE_POINTER:
            return f"v{value}" if dependence.kept(value) else "0"
        wanted = value in types.values or value in dependence.values
        return self._module.text(value) if wanted else "0"

    def _store(self, step: Instruction) -> Iterator[str]:
        pointer, value = step.operands[:2]
        root, path = self._dependence.root(pointer), self._dependence.path(pointer)
        if not self._dependence.kept(root):
            return
        text = self._module.text
        new = text(value)
        if path:
            new = f"put(v{root}[0], ({', '.join(text(index) for index in path)},), {new})"
        yield f"v{root}[0] = {new}"

    def _value(self, step: Instruction) -> str:
        types, text = self._module.types, self._module.text
        if step.opcode == op.LOAD:
            return self._load(step)
        if step.opcode == op.EXTENDED:
            number, operands = step.operands[1], step.operands[2:]
            return expressions.extended(types, number, step.type, operands, text)
        if step.opcode in expressions.COMPUTED:
            return expressions.expression(types, step.opcode, step.type, step.operands, text)
        return repr(types.zero(step.type))  # images, atomics, what is undefined: zeros

    def _load(self, step: Instruction) -> str:
        pointer = step.operands[0]
        root = self._dependence.root(pointer)
        storage, _ = self._module.types.pointed(pointer)
        if storage not in (op.FUNCTION_STORAGE, op.PRIVATE, op.INPUT, op.PUSH):
            return repr(self._module.types.zero(step.type))
        found = f"v{root}[0]"
        for index in self._dependence.path(pointer):
            known = self._module.types.values.get(index)
            found = f"at({found}, v{index})" if known is None else f"{found}[{known}]"
        return found

    def _end(self, label: int) -> Iterator[str]:
        end, following = self._function.blocks[label].end, self._next[label]
        text = self._module.text
        if end.opcode == op.RETURN_VALUE:
            value = end.operands[0]
            known = value in self._module.types.values or value in self._dependence.values
            yield f"return {text(value) if known else 0}"
        elif not following:
            yield "return 0"
        elif len(following) == 1:
            yield from self._go(label, following[0])
        elif end.opcode == op.BRANCH_CONDITIONAL:
            yield f"if {text(end.operands[0])}:"
            yield from (f" {line}" for line in self._go(label, following[0]))
            yield "else:"
            yield from (f" {line}" for line in self._go(label, following[1]))
        else:
            yield from self._switch(label, end)

    def _switch(self, label: int, end: Instruction) -> Iterator[str]:
        selector, default, *cases = end.operands
        word = "if"
        for value, target in zip(cases[::2], cases[1::2], strict=True):
            yield f"{word} ({self._module.text(selector)} & {0xFFFFFFFF}) == {value}:"
            yield from (f" {line}" for line in self._go(label, target))
            word = "elif"
        yield "else:" if cases else "if True:"
        yield from (f" {line}" for line in self._go(label, default))

    def _go(self, label: int, target: int) -> Iterator[str]:
        yield from self._choose(label, target)
        yield f"b = {self._number[target]}"

    def _choose(self, label: int, target: int) -> Iterator[str]:
        """Values of the target's phis when it is come to from ``label``."""
        names, texts = [], []
        for step in self._function.blocks[target].code:
            if step.opcode == op.PHI and step.result in self._dependence.values:
                origins = dict(zip(step.operands[1::2], step.operands[::2], strict=True))
                names.append(f"v{step.result}")
                texts.append(self._module.text(origins[label]))
        if names:
            yield f"{', '.join(names)} = {', '.join(texts)}"


def compiled(functions: Iterable[FunctionCode]) -> CodeType:
    """Code that defines the functions."""
    texts: Sequence[str] = [function.text() for function in functions]
    return compile("\n\n".join(texts), "<SPIR-V>", "exec")
