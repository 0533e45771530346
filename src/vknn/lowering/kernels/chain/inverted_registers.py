"""Registers of inverted residual blocks: waves of a SIMD, and on RDNA how often a lane waits.

RADV gives a kernel as many registers as leave it the waves that its own need of them, its shared
memory and whole workgroups allow, and moves loads ahead as far as these registers reach. Its
numbers are by its machine code for RDNA 2 and 3 (``vknn profile --static --isa`` on the null
devices navi21 and navi31), in float32 and float16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine

#: Registers of a lane of a full SIMD, what they are given out by, the most that one gets, those
#: kept free beside a kernel's need, and the most waves: on RDNA 2 and from RDNA 3 on.
_RDNA_2, _RDNA_3 = (512, 8, 128, 4, 8), (768, 12, 192, 16, 10)
#: From so much of RDNA 2's registers on it is RDNA 3.
_MORE = 1.25
#: Shared memory of a compute unit, and lanes of the waves that its SIMDs hold one each of.
_UNIT_SHARED, _UNIT_LANES = 1 << 16, 128
#: Registers beside sums and what is loaded together: of the first convolution and for each of its
#: pixels; of the last one, and where a lane goes round its loads; of the depthwise one.
_FIRST, _FIRST_PIXEL, _LAST, _LAST_ROUNDS, _DEPTHWISE = 4.0, 1.5, 3.0, 9.0, 12.0
#: Registers of a loop that are never loaded into, and least and most steps that loads stand ahead.
_KEPT, _LEAST_AHEAD, _MOST_AHEAD = 16.0, 0.5, 4.0
#: Waits of a slice: besides; of a step of the first convolution with loads a step ahead, and by
#: what power they are fewer with more; of a step of the last one beyond those that stand ahead.
_SLICE_WAITS, _STEP_WAITS, _POWER, _LAST_WAITS = 4.2, 0.76, 1.25, 1.4
#: Registers free beside the depthwise convolution with which its loads come early, and waits of
#: each that is missing.
_EARLY, _LATE_WAITS = 6.0, 0.4

#: A depthwise convolution loads the weights of up to so many taps at once, while the sums of the
#: last one are kept; of more only where there are registers (``Machine.registers``).
MANY_TAPS, _PLENTY = 9, 1.5
#: Waves that a SIMD has registers for, on GCN and where nothing tells.
_HELD = 8
#: Registers of a lane of a full SIMD and of a kernel beside sums and what is loaded, rounded up to
#: so many, with NVK (65,536 for the 128 lanes of a multiprocessor).
_NVIDIA_REGISTERS, _NVIDIA_BESIDE, _NVIDIA_UNIT = 512, 12, 8
#: Vec4s of registers of two waves, those that Turnip takes for one that the kernel names, and what
#: several rounds of the depthwise convolution keep.
_ADRENO_REGISTERS, _ADRENO_TAKEN, _ADRENO_ROUNDS = 96, 2, 2


@dataclass(frozen=True)
class LoadedTile:
    """Uses of a lane's registers.

    ``sums``: vec4s of the sums of the first and the last convolution. ``pixels``: of the first one.
    ``loads``: vec4s that a step of each loads. ``ahead``: steps whose loads stand together.
    ``own``: steps of the last one. ``rounds``: pixels of the depthwise one, and ``taps`` whose
    weights it loads together. ``loaded``: registers of a vec4 of them. ``lanes``: of a workgroup;
    ``shared``: bytes that it shares.
    """

    sums: tuple[int, int]
    pixels: int
    loads: tuple[int, int]
    ahead: tuple[int, int]
    own: float
    rounds: int
    taps: int
    loaded: int
    lanes: int
    shared: int

    @property
    def between(self) -> float:
        """Registers that a lane needs in the depthwise convolution."""
        return 4 * self.sums[1] + self.taps * self.loaded + 4 * self.rounds + _DEPTHWISE

    @property
    def needed(self) -> float:
        """Registers that a lane needs at once."""
        first, last = (
            n * ahead * self.loaded for n, ahead in zip(self.loads, self.ahead, strict=True)
        )
        begin = 4 * sum(self.sums) + first + _FIRST + _FIRST_PIXEL * self.pixels
        end = 4 * self.sums[1] + last + (_LAST_ROUNDS if self.own > self.ahead[1] else _LAST)
        return max(begin, self.between, end)

    def given(self, machine: Machine) -> tuple[int, int]:
        """Waves of a SIMD, and the registers that a lane of them is given."""
        full, unit, most, free, waves = _RDNA_3 if machine.registers > _MORE else _RDNA_2
        each = self.lanes / _UNIT_LANES  # of a workgroup, on each SIMD
        room = _UNIT_SHARED // self.shared * each
        found = min(full / (self.needed + free), room, waves)
        found = max(each, math.floor(found / each) * each)
        registers = min(most, int(full / found) // unit * unit)
        return max(1, min(int(room), full // registers)), registers

    def waits(self, machine: Machine, steps: int) -> float:
        """Waits of a lane for a slice with ``steps`` of the first convolution."""
        _, registers = self.given(machine)
        first, last = (
            max(_LEAST_AHEAD, (registers - 4 * sums - _KEPT) / (self.loaded * loads))
            for sums, loads in zip((sum(self.sums), self.sums[1]), self.loads, strict=True)
        )
        waits = _SLICE_WAITS + _STEP_WAITS * steps / min(_MOST_AHEAD, first) ** _POWER
        waits += _LAST_WAITS * max(0.0, self.own / last - 1)
        return waits + _LATE_WAITS * max(0.0, self.between + _EARLY - registers)

    def held(self, machine: Machine) -> int:
        """Waves of a SIMD that have registers, on other GPUs than RDNA."""
        if machine.scalar or not machine.registers:
            return machine.held(_HELD)
        (first_sums, sums), (first, last), (ahead, last_ahead) = self.sums, self.loads, self.ahead
        if machine.adreno:
            most = sums + max(first_sums + first, last)
            most += _ADRENO_ROUNDS if self.rounds > 1 else 0
            return max(1, 2 * (_ADRENO_REGISTERS // (_ADRENO_TAKEN * most)))
        begin = 4 * first_sums + first * ahead * self.loaded
        most = 4 * sums + max(begin, last * last_ahead * self.loaded)
        taken = ceil_div(most + _NVIDIA_BESIDE, _NVIDIA_UNIT) * _NVIDIA_UNIT
        return max(1, _NVIDIA_REGISTERS // taken)


def by_rows(machine: Machine, loaded: int, taps: int) -> bool:
    """Whether the weights of a depthwise convolution are loaded row by row of its taps.

    ``loaded``: registers of a vec4 of them.

    Those of many leave too few registers else, but on AMD's GPUs from RDNA 3 on and in float16.
    """
    light = loaded < 4 and not machine.converts
    room = machine.scalar and (machine.registers >= _PLENTY or light)
    return taps > MANY_TAPS and not room
