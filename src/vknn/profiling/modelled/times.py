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
        wave: Lanes of a wave.
        held: Waves of a SIMD that registers and shared memory let be in flight, at least 1.
        nbytes: Bytes that the dispatch reads and writes, each once; 0 where unknown.
        barriers: Barriers that stand before it.
    """

    counts: Counts
    waves: int
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
    rounds = cost.rounds(whole.work, whole.load_bytes)
    loop, outside = cost.loop, cost.outside
    units: dict[Bound, float] = {"issue": outside.issue, "LDS": outside.shared, "L0": outside.cache}
    latency = outside.latency
    added = _adding_rounds(cost, work.counts)
    for each, times in ((loop, rounds), (cost.adding, added)):
        if each is not None:
            units["issue"] += times * each.issue
            units["LDS"] += times * each.shared
            units["L0"] += times * each.cache
            latency += times * each.latency
    share = None if loop is None else loop.share
    return _timed(_Cycles(units, latency, rounds, share), work, machine, assumptions)


def _adding_rounds(cost: KernelCost, counts: Counts) -> float:
    """Rounds of a loop that only adds: by the bytes that loops of products do not load."""
    hot, adding = counts.hot, cost.adding
    if adding is None or hot is None or not hot.each.work:
        return 0.0
    products = counts.whole.work * hot.each.load_bytes / hot.each.work
    left = counts.whole.load_bytes - products - cost.outside.load_bytes
    return max(0.0, left / adding.load_bytes)


def from_counts(work: Work, machine: GpuMachine, assumptions: Assumptions) -> ModelledTime:
    """Modelled time of a dispatch from its SPIR-V's counts alone, coarser.

    A multiply-add (as many of 16 bits as the machine packs, four of a dot product) and an access
    take one instruction, a round of the loop some more; a round with loads waits once for them.
    Bytes of caches and shared memory are left out: the SPIR-V does not say which lanes have an
    address in common.
    """
    whole, hot = work.counts.whole, work.counts.hot
    rounds = hot.rounds if hot is not None else 0
    each = work.wave / machine.lanes  # cycles of an instruction
    products = whole.multiply_adds - whole.packed * (1 - 1 / machine.packed)
    products += whole.dots + whole.matrix / machine.matrix
    shared = whole.shared_loads + whole.shared_stores
    instructions = products + whole.loads + whole.stores + shared
    instructions += assumptions.round_instructions * (rounds + 1)
    issue = each * instructions
    units: dict[Bound, float] = {"issue": issue}
    loads = hot is not None and hot.each.loads > 0
    local = hot is not None and hot.each.shared_loads > 0
    waiting = assumptions.memory_latency * (1 + (rounds if loads else 0))
    waiting += assumptions.shared_latency * (rounds if local and not loads else 0)
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
    memory = work.nbytes / (machine.bandwidth * 1e3)
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


def _bound(
    work: Work, machine: GpuMachine, each: int, memory: bool, hidden: bool, busiest: Bound
) -> Bound:
    if memory:
        return "memory"
    if work.waves < machine.simds or (not hidden and each < work.held):
        return "too few waves"
    return busiest if hidden else "latency"
