"""Cycles of a kernel's machine code on AMD's GPUs, in its hottest loop and around it.

The model: a wave issues in order. A vector instruction of 64 lanes takes a SIMD of 32 lanes two
cycles (a quarter of the rate: eight), one of 16 lanes (GCN) four. Loads arrive after a latency that
is assumed, and are waited for where the code says so. With enough waves the busiest unit decides,
with one alone the waiting.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.profiling.modelled.assembly import AsmLine, inner_loops, lines_of, parsed
from vknn.profiling.modelled.assumptions import Assumptions
from vknn.runtime.machines import GpuMachine

#: Cycles that an instruction of a unit takes to issue.
_ISSUE = {"memory": 4.0, "shared": 2.0, "scalar": 1.0, "constant": 1.0, "free": 0.0, "wait": 1.0}
#: Rounds of a loop that are followed, and those of them that are left out as a start.
_ROUNDS, _WARM = 6, 2
#: Bytes of a bank of shared memory, which serves one lane a cycle however few it wants.
_BANK = 4
#: Fewer multiply-adds than this make no loop of products.
_FEWEST = 4


@dataclass(frozen=True)
class Cost:
    """Cycles of a stretch of machine code, for one wave.

    Attributes:
        issue: Of the busier one of vector and scalar unit.
        vector: Of the vector unit.
        shared: Of shared memory (LDS).
        cache: Of the innermost cache (L0).
        latency: From begin to end, of a wave alone.
        multiply_adds: Those of a lane.
        share: Multiply-adds' part of the vector unit's cycles.
        load_bytes: Bytes that a lane loads from buffers.
        store_bytes: Bytes that it stores there.
    """

    issue: float
    vector: float
    shared: float
    cache: float
    latency: float
    multiply_adds: float
    share: float
    load_bytes: float
    store_bytes: float

    @property
    def busiest(self) -> float:
        """Cycles of the busiest unit, one at least."""
        return max(self.issue, self.shared, self.cache, 1.0)


@dataclass(frozen=True)
class KernelCost:
    """Cost of a kernel: its hottest loop, a round of it, and all that is in no inner loop.

    ``adding``: a round of the loop that loads most of those beside it without multiply-adds, as
    means are taken by. ``storing``: of the one that stores most of them, as results are by which
    an activation is not unrolled for.
    """

    loop: Cost | None
    outside: Cost
    adding: Cost | None = None
    storing: Cost | None = None

    def rounds(self, work: float, load_bytes: float) -> float:
        """Rounds of the loop for an invocation's multiply-adds, or else for its bytes."""
        if self.loop is None:
            return 0.0
        found = 1.0
        if self.loop.multiply_adds >= _FEWEST and work:
            found = work / self.loop.multiply_adds
        elif self.loop.load_bytes:
            found = load_bytes / self.loop.load_bytes
        return max(found, 1.0)


@functools.lru_cache(maxsize=256)
def kernel_cost(text: str, wave: int, machine: GpuMachine, assumptions: Assumptions) -> KernelCost:
    """Cost of machine code as RADV prints it, compiled for waves of so many lanes."""
    blocks = parsed(text)
    loops = inner_loops(blocks)
    inside = {block.number for loop in loops for block in loop}
    rest = lines_of(block for block in blocks if block.number not in inside)

    def cost(lines: Sequence[AsmLine], rounds: int, warm: int) -> Cost:
        return _cost(lines, wave, machine, assumptions, rounds=rounds, warm=warm)

    costs = [cost(lines_of(loop), _ROUNDS, _WARM) for loop in loops]
    hottest = _hottest(costs)
    beside = [c for c in costs if c is not hottest]
    storing = max((c for c in beside if c.store_bytes), key=lambda c: c.store_bytes, default=None)
    sums = [c for c in beside if c.load_bytes and not (c.multiply_adds or c.store_bytes)]
    adding = max(sums, key=lambda c: c.load_bytes, default=None)
    return KernelCost(hottest, cost(rest, 2, 1), adding, storing)


def _hottest(costs: Sequence[Cost]) -> Cost | None:
    """The loop of most multiply-adds.

    A loop that stores results has some where these have exponentials. It is not the hottest if
    another, which stores nothing, has a quarter as many: that one is the loop of products.
    """
    found = max(costs, key=_heat, default=None)
    if found is None or not found.store_bytes:
        return found
    least = max(_FEWEST, found.multiply_adds / 4)
    products = [c for c in costs if not c.store_bytes and c.multiply_adds >= least]
    return max(products, key=_heat, default=found)


def _heat(cost: Cost) -> tuple[float, float]:
    """What the hottest loop has most of."""
    return cost.multiply_adds, cost.vector


def _cost(
    lines: Sequence[AsmLine],
    wave: int,
    machine: GpuMachine,
    assumptions: Assumptions,
    *,
    rounds: int,
    warm: int,
) -> Cost:
    vector = [line for line in lines if line.unit == "vector"]
    each = [line.cycles(wave, machine.rdna, machine.lanes) for line in vector]
    cycles = sum(each)
    useful = sum(c for line, c in zip(vector, each, strict=True) if line.multiply_adds(wave))
    scalar = machine.interval * sum(line.unit in ("scalar", "branch") for line in lines)
    shared = wave * sum(max(_BANK, line.nbytes) for line in lines if line.unit == "shared")
    memory = [line for line in lines if line.unit == "memory"]
    cache = wave * sum(line.nbytes for line in memory)
    return Cost(
        issue=max(cycles, scalar),
        vector=cycles,
        shared=machine.shared_by * shared / assumptions.shared_bytes,
        cache=machine.shared_by * cache / machine.cache_bytes,
        latency=_Wave(wave, machine, assumptions).cycles(lines, rounds, warm),
        multiply_adds=sum(line.multiply_adds(wave) for line in vector),
        share=useful / cycles if cycles else 0.0,
        load_bytes=sum(line.nbytes for line in memory if "load" in line.name),
        store_bytes=sum(line.nbytes for line in memory if "store" in line.name),
    )


class _Wave:
    """One wave alone: when its instructions issue, and what it waits for."""

    def __init__(self, lanes: int, machine: GpuMachine, assumptions: Assumptions) -> None:
        self._lanes, self._machine, self._assumed = lanes, machine, assumptions
        self._time = 0.0
        self._ready: dict[str, float] = {}
        self._missing: list[tuple[str, float]] = []  # unit and when its result arrives
        self._latency = {
            "memory": assumptions.memory_latency,
            "shared": assumptions.shared_latency,
            "constant": assumptions.scalar_latency,
        }

    def cycles(self, lines: Sequence[AsmLine], rounds: int, warm: int) -> float:
        """Cycles a round, the first ``warm`` of ``rounds`` left out."""
        begun = 0.0
        issues = [(line, self._issue(line)) for line in lines]
        for number in range(rounds):
            if number == warm:
                begun = self._time
            for line, issue in issues:
                self._step(line, issue)
        return (self._time - begun) / (rounds - warm)

    def _step(self, line: AsmLine, issue: float) -> None:
        unit, ready = line.unit, self._ready
        if unit == "wait":
            self._wait(line)
        time = self._time
        for register in line.registers:
            if (free := ready.get(register, 0.0)) > time:
                time = free
        self._time = time = time + issue
        if unit in ("vector", "scalar"):
            # A wave of GCN issues again when its result is there.
            vector = 0.0 if self._machine.gcn else self._assumed.result_latency
            written = time + (vector if unit == "vector" else 1.0)
            for register in line.destinations:
                ready[register] = written
        elif unit in self._latency and "store" not in line.name:
            self._missing.append((unit, time + self._latency[unit]))

    def _issue(self, line: AsmLine) -> float:
        if line.unit == "vector":
            return line.cycles(self._lanes, self._machine.rdna, self._machine.lanes)
        if line.unit == "branch":
            return self._assumed.branch
        return max(_ISSUE[line.unit], self._machine.interval if line.unit != "free" else 0.0)

    def _wait(self, line: AsmLine) -> None:
        """Until no more results of a unit are missing than the instruction allows."""
        for unit, allowed in line.waits.items():
            units = ("shared", "constant") if unit == "any" else (unit,)
            open_ = [m for m in self._missing if m[0] in units]
            arrived = open_[: max(0, len(open_) - allowed)]
            for result in arrived:
                self._time = max(self._time, result[1])
                self._missing.remove(result)
