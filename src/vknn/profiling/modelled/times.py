"""Modelled time of a dispatch, and what bounds it. Arithmetic, no measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vknn.profiling.invocation import Counts
from vknn.profiling.modelled.assumptions import Assumptions
from vknn.profiling.modelled.rdna import KernelCost
from vknn.runtime.machines import GpuMachine

Bound = Literal["issue", "latency", "LDS", "L0", "memory", "too few waves"]


@dataclass(frozen=True)
class Work:
    """A dispatch as the model sees it.

    Attributes:
        counts: Counts of one invocation.
        waves: Waves of the whole dispatch.
        groups: Workgroups of the whole dispatch.
        wave: Lanes of a wave.
        held: Waves of a SIMD that registers and shared memory let be in flight, at least 1.
        nbytes: Bytes that the dispatch reads and writes, each once; 0 where unknown.
        barriers: Barriers that stand before it.
    """

    counts: Counts
    waves: int
    groups: int
    wave: int
    held: int
    nbytes: int
    barriers: int


@dataclass(frozen=True)
class ModelledTime:
    """Modelled time of a dispatch: the longest of three, and the dispatch itself. Microseconds.

    Attributes:
        time: The whole: the longest of ``work``, ``latency`` and ``memory``, and ``overhead``.
        work: Of the SIMD with most waves, if no wave ever waited.
        latency: Of waves that wait, with as many in flight as there may be and are.
        memory: Of the bytes by the memory's bandwidth.
        overhead: Of the dispatch and the barriers before it.
        bound: What decides: "issue" of instructions, "LDS", "L0", "latency", "memory", or "too few
            waves" to fill the machine or to hide latency.
        rounds: Rounds of the hottest loop, of a wave.
        share: Multiply-adds' part of the vector instructions' cycles in the hottest loop; None
            where no machine code was read.
        coarse: Whether it is from the SPIR-V's counts alone.
    """

    time: float
    work: float
    latency: float
    memory: float
    overhead: float
    bound: Bound
    rounds: float
    share: float | None
    coarse: bool

    @property
    def busy(self) -> float:
        """Microseconds without the overhead."""
        return self.time - self.overhead


@dataclass(frozen=True)
class _Cycles:
    """Cycles of one wave: by unit, and from begin to end if it is alone."""

    units: dict[Bound, float]
    latency: float
    rounds: float
    share: float | None = None
    coarse: bool = False


def from_code(
    cost: KernelCost, work: Work, machine: GpuMachine, assumptions: Assumptions
) -> ModelledTime:
    """Modelled time of a dispatch whose machine code was read."""
    whole = work.counts.whole
    loop, outside = cost.loop, cost.outside
    units: dict[Bound, float] = {"issue": outside.issue, "LDS": outside.shared, "L0": outside.cache}
    latency = outside.latency
    added = _adding_rounds(cost, work.counts)
    stored = 0.0 if cost.storing is None else whole.store_bytes / cost.storing.store_bytes
    rounds = cost.rounds(_work_of_loop(cost, work.counts, stored), whole.load_bytes)
    for each, times in ((loop, rounds), (cost.adding, added), (cost.storing, stored)):
        if each is not None:
            units["issue"] += times * each.issue
            units["LDS"] += times * each.shared
            units["L0"] += times * each.cache
            latency += times * each.latency
    share = None if loop is None else loop.share
    return _timed(_Cycles(units, latency, rounds, share), work, machine, assumptions)


def of_transfer(
    nbytes: int, barriers: int, machine: GpuMachine, assumptions: Assumptions
) -> ModelledTime:
    """Modelled time of a fill or copy that reads and writes so many bytes.

    It begins as a dispatch does, and no kernel is faster than the memory.
    """
    memory = nbytes / (machine.bandwidth * 1e3)
    overhead = assumptions.dispatch + barriers * assumptions.barrier
    return ModelledTime(memory + overhead, 0.0, 0.0, memory, overhead, "memory", 0, None, False)


def _work_of_loop(cost: KernelCost, counts: Counts, stored: float) -> float:
    """Multiply-adds of an invocation in its hottest loop.

    All but those that the machine code has elsewhere (exponentials), which are no more than what
    the SPIR-V has outside of its own hottest loop. ``stored``: rounds of the loop that stores.
    """
    whole, hot = counts.whole.work, counts.hot
    elsewhere = cost.outside.multiply_adds
    if cost.storing is not None:
        elsewhere += stored * cost.storing.multiply_adds
    beside = whole if hot is None else max(0.0, whole - hot.rounds * hot.each.work)
    return whole - min(elsewhere, beside)


def _adding_rounds(cost: KernelCost, counts: Counts) -> float:
    """Rounds of a loop that only adds: by the bytes of loops without multiply-adds.

    A compiler may have unrolled them, so that its rounds are others.
    """
    if cost.adding is None:
        return 0.0
    loaded = sum(o.rounds * o.each.load_bytes for o in counts.others if not o.each.work)
    return loaded / cost.adding.load_bytes


def from_counts(work: Work, machine: GpuMachine, assumptions: Assumptions) -> ModelledTime:
    """Modelled time of a dispatch from its SPIR-V's counts alone, coarser.

    A multiply-add (as many of 16 bits as the machine packs, four of a dot product where it has one)
    and an access take one instruction, a round of a loop some more; a round with loads waits once
    for them. Bytes of caches and shared memory are left out: the SPIR-V does not say which lanes
    have an address in common.
    """
    whole, hot = work.counts.whole, work.counts.hot
    loops = work.counts.others if hot is None else (hot, *work.counts.others)
    each = work.wave / machine.lanes  # cycles of an instruction
    products = whole.multiply_adds - whole.packed * (1 - 1 / machine.packed)
    products += whole.dots * machine.dot + whole.matrix / machine.matrix
    shared = whole.shared_loads + whole.shared_stores
    instructions = products + whole.loads + whole.stores + shared
    instructions += assumptions.round_instructions * (sum(loop.rounds for loop in loops) + 1)
    issue = each * instructions
    units: dict[Bound, float] = {"issue": issue}
    waiting = assumptions.memory_latency
    for loop in loops:
        if loop.each.loads:
            waiting += assumptions.memory_latency * loop.rounds
        elif loop.each.shared_loads:
            waiting += assumptions.shared_latency * loop.rounds
    rounds = 0 if hot is None else hot.rounds
    return _timed(_Cycles(units, issue + waiting, rounds, None, True), work, machine, assumptions)


def _timed(
    cycles: _Cycles, work: Work, machine: GpuMachine, assumptions: Assumptions
) -> ModelledTime:
    """Waves are dealt out evenly; a SIMD takes as many at a time as it holds, then what is left."""
    each = -(-work.waves // machine.simds)
    flight = max(1, min(each, work.held))
    busiest = max((*cycles.units, "issue"), key=lambda unit: cycles.units[unit])
    busy = max(cycles.units[busiest], 1.0)
    micro = machine.clock * 1e3  # cycles of a microsecond
    spent = each * busy / micro
    flights, last = divmod(each, flight)
    waited = flights * max(cycles.latency, flight * busy)
    waited = (waited + (max(cycles.latency, last * busy) if last else 0.0)) / micro
    memory = _moving(work, machine, assumptions)
    overhead = assumptions.dispatch + work.barriers * assumptions.barrier
    longest = max(spent, waited, memory)
    hidden = cycles.latency <= flight * busy
    bound = _bound(work, machine, each, memory >= longest, hidden, busiest)
    return ModelledTime(
        time=longest + overhead,
        work=spent,
        latency=waited,
        memory=memory,
        overhead=overhead,
        bound=bound,
        rounds=cycles.rounds,
        share=cycles.share,
        coarse=cycles.coarse,
    )


def _moving(work: Work, machine: GpuMachine, assumptions: Assumptions) -> float:
    """Microseconds of the bytes: by the memory's bandwidth, and by what the units that have
    workgroups take from it, each group its share of the bytes."""
    units = max(1, machine.simds // machine.shared_by)
    share = work.nbytes / work.groups * -(-work.groups // units)
    drawn = share / (assumptions.unit_bytes * machine.clock * 1e3)
    return max(work.nbytes / (machine.bandwidth * 1e3), drawn)


def _bound(
    work: Work, machine: GpuMachine, each: int, memory: bool, hidden: bool, busiest: Bound
) -> Bound:
    if memory:
        return "memory"
    if work.waves < machine.simds or (not hidden and each < work.held):
        return "too few waves"
    return busiest if hidden else "latency"
