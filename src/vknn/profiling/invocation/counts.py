"""Counts of what one invocation of a dispatch does, from its SPIR-V alone."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vknn.errors import ShaderError
from vknn.profiling.invocation import opcodes as op
from vknn.profiling.invocation.arithmetic import TooLong
from vknn.profiling.invocation.dependence import Dependence
from vknn.profiling.invocation.module import NAMESPACE, KernelModule
from vknn.profiling.invocation.program import BlockLoop, FunctionCode, compiled
from vknn.profiling.invocation.tally import Tally, TargetSizes, tally

#: Rounds of all loops together that an invocation may take until it is given up.
MAX_ROUNDS = 3_000_000
#: Errors of a module that breaks rules of SPIR-V, or goes where this package cannot follow.
_UNFOLLOWED = (ArithmeticError, LookupError, NameError, TypeError, ValueError, struct.error)


@dataclass(frozen=True)
class HotLoop:
    """An inner loop; the hottest does most of an invocation's multiply-adds, or else of its loads.

    Loops that the shader asks to unroll are not loops here.

    Attributes:
        rounds: Its rounds, all times that it is begun together.
        each: What a round does.
    """

    rounds: int
    each: Tally


@dataclass(frozen=True)
class Counts:
    """Counts of one invocation: the busiest of a middle workgroup's first and two middle ones, and
    of one of each of two other workgroups, or of a few where these differ.

    Buffers read as zeros.

    Attributes:
        whole: All of it.
        hot: Its hottest loop, None where no loop takes a round.
        others: The other inner loops that take one.
        local: Lanes of a workgroup.
        by_data: Whether what buffers hold decides when a loop ends, so that other data may take
            longer.
    """

    whole: Tally
    hot: HotLoop | None
    local: tuple[int, int, int]
    by_data: bool = False
    others: tuple[HotLoop, ...] = ()


class NotCounted(ShaderError):
    """An invocation that is not counted, and why."""


def counts(
    spirv: bytes,
    constants: Mapping[int, int | float],
    push: bytes,
    groups: Sequence[int],
    target: TargetSizes,
    *,
    max_rounds: int = MAX_ROUNDS,
) -> Counts:
    """Counts of an invocation of a dispatch.

    Args:
        spirv: The module.
        constants: Specialization constants by id.
        push: The push constants' bytes.
        groups: Workgroups along x, y and z.
        target: Sizes that the module does not say.
        max_rounds: Rounds of all loops together that are allowed.

    Raises:
        NotCounted: For an unknown opcode, and for more rounds than allowed.
    """
    try:
        program = _program(spirv, tuple(constants.items()), target)
        x, y, z = program.module.local
        middle, group = (x // 2, y // 2, z // 2), tuple((count - 1) // 2 for count in groups)
        # Lanes beside the middle one too: that may lie at an edge, where it has less to do. All of
        # a workgroup may: where groups count through an image for each block of channels, the
        # middle one is the last of an image. At 19 / 47 none is but by chance, and then not the
        # one before it.
        beside = (min(x // 2 + 1, x - 1), y // 2, z // 2)
        other = tuple(19 * count // 47 for count in groups)
        before = (max(0, other[0] - 1), *other[1:])
        # Middle lanes are a part's first where a workgroup's subgroups share a sum.
        inside = (5 * x // 8, y // 2, z // 2)
        places = [(group, (0, 0, 0)), (group, middle), (group, beside)]
        places += [(other, inside), (before, beside)]
        runs = (program.run(push, groups, *place, max_rounds) for place in dict.fromkeys(places))
        found = list(runs)
        if len({_size(counts) for counts in found}) > 1:
            # All of these may lie at edges of a small image, where taps are left out.
            more = [(other, middle), (before, inside), (other, (3 * x // 8, y // 2, z // 2))]
            found += [program.run(push, groups, *place, max_rounds) for place in more]
    except TooLong:
        raise NotCounted(f"more than {max_rounds:,} rounds of loops") from None
    except NotCounted:
        raise
    except ShaderError as error:
        raise NotCounted(str(error)) from error
    except _UNFOLLOWED as error:
        raise NotCounted(f"{type(error).__name__}: {error}") from error
    return max(found, key=_size)


def _size(counts: Counts) -> tuple[float, float]:
    """What the busiest invocation has most of."""
    return counts.whole.work, counts.whole.nbytes


def decode(spirv: bytes, constants: Mapping[int, int | float] | None = None) -> None:
    """Reading of a module as far as :func:`counts` goes without running it.

    Raises ShaderError for an opcode that is not known.
    """
    module = KernelModule.parse(spirv, constants or {})
    for function in module.functions.values():
        for block in function.blocks.values():
            for step in block.code:
                if step.opcode == op.EXTENDED and step.operands[1] not in NAMESPACE["extended"]:
                    number = step.operands[1]
                    raise ShaderError(f"GLSL.std.450 instruction {number} is not known")


@dataclass
class _Node:
    """A function at one place in the tree of calls, with the rounds of its runs."""

    program: _Program
    function: int
    counts: list[int]
    children: dict[int, _Node] = field(default_factory=dict)

    def child(self, call: int, function: int) -> _Node:
        """The node of a call, by the id of its result."""
        if call not in self.children:
            self.children[call] = self.program.node(function)
        return self.children[call]

    def total(self, runs: frozenset[int] | None = None) -> Tally:
        """What the runs, by default all, did, with the functions that they called."""
        code, found = self.program.functions[self.function], Tally()
        for number, rounds in enumerate(self.counts):
            if rounds and (runs is None or number in runs):
                found = found.plus(self.program.tallies[self.function][number], rounds)
                for call in code.runs[number].calls:
                    if call in self.children:
                        found = found.plus(self.children[call].total())
        return found

    def loops(self) -> Iterator[tuple[_Node, BlockLoop]]:
        """Loops that took a round and are no unrolled ones, here and in what is called."""
        for loop in self.program.functions[self.function].loops:
            if not loop.unrolled and self.rounds(loop):
                yield self, loop
        for child in self.children.values():
            yield from child.loops()

    def rounds(self, loop: BlockLoop) -> int:
        return sum(self.counts[number] for number in loop.back)

    def holds(self, loop: BlockLoop, other: tuple[_Node, BlockLoop]) -> bool:
        """Whether a loop of this node has ``other`` inside of it."""
        node, inner = other
        if node is self:
            return inner is not loop and inner.members < loop.members
        code = self.program.functions[self.function]
        calls = [c for n in loop.members for c in code.runs[n].calls if c in self.children]
        return any(self.children[call].has(node) for call in calls)

    def has(self, node: _Node) -> bool:
        return node is self or any(child.has(node) for child in self.children.values())


class _Program:
    """A module made ready to be followed."""

    def __init__(
        self, spirv: bytes, constants: Mapping[int, int | float], target: TargetSizes
    ) -> None:
        self.module = KernelModule.parse(spirv, constants)
        self._target = target
        self._dependence = Dependence(self.module)
        self.functions = {
            number: FunctionCode(self.module, self._dependence, self.module.functions[number])
            for number in self._dependence.reachable
        }
        self._code = compiled(self.functions.values())
        self.tallies = {n: self._tallies(n, code) for n, code in self.functions.items()}
        self._by_data = any(code.by_data for code in self.functions.values())

    def node(self, function: int) -> _Node:
        return _Node(self, function, [0] * len(self.functions[function].runs))

    def run(
        self,
        push: bytes,
        groups: Sequence[int],
        group: Sequence[int],
        lane: Sequence[int],
        max_rounds: int,
    ) -> Counts:
        """One invocation followed to its end. Raises TooLong."""
        left = max_rounds

        def spend() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise TooLong

        names = {**NAMESPACE, "spend": spend, **self._cells(push, groups, group, lane)}
        exec(self._code, names)
        root = self.node(self.module.entry)
        names[f"f{self.module.entry}"](root)
        x, y, z = self.module.local
        hot, *others = _inner_loops(root) or (None,)
        return Counts(root.total(), hot, (x, y, z), self._by_data, tuple(others))

    def _tallies(self, number: int, code: FunctionCode) -> list[Tally]:
        blocks, found = self.module.functions[number].blocks, []
        for run in code.runs:
            total = Tally()
            for step in (step for label in run.labels for step in blocks[label].code):
                total = total.plus(tally(self.module, self._dependence, self._target, step))
            found.append(total)
        return found

    def _cells(
        self, push: bytes, groups: Sequence[int], group: Sequence[int], lane: Sequence[int]
    ) -> dict[str, object]:
        """Variables outside of functions that have to be kept, as lists of one value."""
        types = self.module.types
        found: dict[str, object] = {}
        for variable, initial in self.module.variables.items():
            if not self._dependence.kept(variable):
                continue
            storage, kind = types.pointed(variable)
            if storage == op.PUSH:
                value = types.read(kind, push, 0)
            elif storage == op.INPUT:
                value = self._built_in(variable, groups, group, lane)
            else:
                value = types.zero(kind) if initial is None else types.values[initial]
            found[f"v{variable}"] = [value]
        return found

    def _built_in(
        self, variable: int, groups: Sequence[int], group: Sequence[int], lane: Sequence[int]
    ) -> object:
        number = self.module.decorations.get((variable, op.BUILT_IN))
        x, y, z = self.module.local
        index = lane[0] + x * (lane[1] + y * lane[2])
        size = self._target.subgroup_size
        known: dict[int | None, object] = {
            op.NUM_GROUPS: tuple(groups),
            op.GROUP_SIZE: (x, y, z),
            op.GROUP: tuple(group),
            op.LOCAL: tuple(lane),
            op.GLOBAL: tuple(g * s + k for g, s, k in zip(group, (x, y, z), lane, strict=True)),
            op.LOCAL_INDEX: index,
            op.SUBGROUP_SIZE: size,
            op.NUM_SUBGROUPS: -(-x * y * z // size),
            op.SUBGROUP: index // size,
            op.SUBGROUP_INVOCATION: index % size,
        }
        if number not in known:
            raise NotCounted(f"built-in variable {number}")
        return known[number]


def _inner_loops(root: _Node) -> list[HotLoop]:
    """The inner loops, that with most multiply-adds first; of equals the one with most bytes."""
    loops = list(root.loops())
    found = []
    for node, loop in loops:
        if not any(node.holds(loop, other) for other in loops):
            total, rounds = node.total(loop.members), node.rounds(loop)
            rank = (total.work, total.nbytes, rounds)
            found.append((rank, HotLoop(rounds, Tally().plus(total, 1 / rounds))))
    # The first of equals stays the first.
    return [loop for _, loop in sorted(found, key=lambda each: each[0], reverse=True)]


@functools.lru_cache(maxsize=128)
def _program(
    spirv: bytes, constants: tuple[tuple[int, int | float], ...], target: TargetSizes
) -> _Program:
    return _Program(spirv, dict(constants), target)
