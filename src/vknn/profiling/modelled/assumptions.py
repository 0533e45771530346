"""Assumptions of modelled times: numbers that no driver tells, all in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vknn.errors import VknnError


@dataclass(frozen=True)
class Assumptions:
    """Numbers that modelled times rest on. Cycles are those of the device's clock.

    Attributes:
        memory_latency: Cycles until a vector load from a buffer is there.
        scalar_latency: Cycles until a scalar load is there.
        shared_latency: Cycles until a load from shared memory is there.
        result_latency: Cycles from the end of a vector instruction until its result can be used.
        branch: Cycles of a branch.
        dispatch: Microseconds of a dispatch.
        barrier: Microseconds of a barrier.
        shared_bytes: Bytes of shared memory that a compute unit serves a cycle.
        unit_bytes: Bytes that a compute unit takes a cycle from the caches behind its own.
        waves: Waves of a SIMD in flight where the driver does not tell.
        round_instructions: Instructions of a loop's round beside multiply-adds and accesses, where
            no machine code is read.
    """

    # Latencies: between what microbenchmarks of RDNA 2 tell (a hit in L0 about 120, in L2 about
    # 270, beyond it 400 and more); which of them it is depends on the network.
    memory_latency: float = 220
    scalar_latency: float = 60
    shared_latency: float = 60
    result_latency: float = 4  # RDNA: dependent vector instructions wait 5 cycles
    branch: float = 8
    # Published times of networks on desktop cards give 3 to 8 for a dispatch with its barriers.
    dispatch: float = 1.5
    barrier: float = 2.5
    shared_bytes: float = 128  # AMD's RDNA whitepaper: 128 bytes a cycle and half workgroup proc.
    # A request of the innermost cache's: 64 bytes on RDNA and GCN (AMD's whitepapers); taken for
    # all. A workgroup is taken to be on one unit, so it alone does not draw a memory's bandwidth.
    unit_bytes: float = 64
    waves: int = 8
    round_instructions: float = 8

    def scaled(self, factor: float) -> Assumptions:
        """These with all latencies times a factor, to see what hangs on them.

        Raises VknnError for a factor that is no number above 0.
        """
        if not 0 < factor < math.inf:
            raise VknnError(f"latencies times {factor!r}: a number above 0 is needed")
        return replace(
            self,
            memory_latency=self.memory_latency * factor,
            scalar_latency=self.scalar_latency * factor,
            shared_latency=self.shared_latency * factor,
        )

    def __str__(self) -> str:
        return (
            f"assumed: latencies {self.memory_latency:g} (memory), {self.scalar_latency:g} "
            f"(scalar), {self.shared_latency:g} (shared) cycles; {self.dispatch:g} us a dispatch, "
            f"{self.barrier:g} us a barrier"
        )


ASSUMPTIONS = Assumptions()
