"""Machine: estimated times of a device's steps, of which candidates' costs are made."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from vknn.lowering.kit.layouts import ceil_div
from vknn.plan import ComputeUnits, DeviceLimits

#: Waves of a SIMD where nothing tells, as static profiles assume.
_UNTOLD_WAVES = 8
#: A dispatch that stands behind no barrier, by one with its barrier.
_WITHOUT_BARRIER = 3 / 8
#: Part of what goes on beside something longer that counts all the same.
_HIDDEN = 0.03


@dataclass(frozen=True)
class Machine:
    """Estimated times of a device's steps, for choosing among candidates; all in microseconds.

    Attributes:
        dispatch: A dispatch with its barrier.
        copy: A copy with its barrier.
        byte: Moving a byte.
        flop: A floating point operation of a kernel that nothing more is known of.
        lanes: Number of lanes that run side by side; on CPUs of workgroups.
        step: A lane's multiply-add; on CPUs a workgroup's vector instruction.
        latency: A lane's wait for an element that it needs before the next one.
        group: A workgroup itself, on CPUs.
        stream: A byte of a GPU's memory that is only streamed through.
        simds: Units of a GPU that issue instructions of waves (subgroups).
        unit: Those of them that share caches and shared memory (a compute unit).
        wave: Lanes of a wave.
        issue: An instruction of a wave, a multiply-add of each of its lanes.
        wait: A wave's wait for its loads from memory.
        scalar: Whether what all lanes of a wave read comes to scalar registers, beside the vector
            instructions (AMD's GPUs).
        converts: Whether factors in float16 take instructions to become float32 (GCN; RDNA
            multiplies them as they are).
        registers: Of a SIMD, by those of RDNA 2; 0 where neither driver nor tables tell of them.
        half: A multiply-add in float16 by one in float32, with an eighth for sums in float32.
        few_registers: Whether a lane has 128 registers, whatever is in flight (Intel's GPUs), so
            that kernels of many sums spill.
    """

    dispatch: float
    copy: float
    byte: float
    flop: float
    lanes: int
    step: float
    latency: float
    group: float = 0.0
    stream: float = 0.0
    simds: int = 1
    unit: int = 4
    wave: int = 1
    issue: float = 0.0
    wait: float = 0.0
    scalar: bool = False
    converts: bool = False
    registers: float = 1.0
    half: float = 0.625
    few_registers: bool = False

    @property
    def fill(self) -> float:
        """A fill of counters: on GPUs it begins as a dispatch without a barrier does (3/8 of one
        with its barrier, as static profiles assume)."""
        return _WITHOUT_BARRIER * self.dispatch if self.simds > 1 else self.copy

    @property
    def adreno(self) -> bool:
        """Whether it is Qualcomm's, known by waves of 64 lanes without scalar registers."""
        return self.wave > 32 and not self.scalar

    def held(self, waves: int) -> int:
        """Waves that a SIMD has registers for where RDNA 2 has them for ``waves``."""
        if not self.registers:
            return _UNTOLD_WAVES
        return max(1, min(16, int(waves * self.registers)))

    def on_simds(self, lanes: int, steps: float, waits: float, held: int = 8) -> float:
        """Microseconds of ``lanes`` on a GPU with ``steps`` instructions each, and ``waits``.

        Waves are dealt out to the SIMDs evenly, of which each takes up to ``held`` at a time, then
        what is left: these hide each other's waits. The same arithmetic as in static profiles
        (docs/null-devices.md).
        """
        each = ceil_div(ceil_div(lanes, self.wave), self.simds)
        flight = max(1, min(each, held))
        busy = steps * self.issue
        flights, last = divmod(each, flight)
        alone = busy + waits * self.wait
        rest = max(alone, last * busy) if last else 0.0
        return max(each * busy, flights * max(alone, flight * busy) + rest)

    def beside(self, busy: float, moved: float) -> float:
        """Microseconds of so much work while so many bytes come and go on a GPU.

        The longer of the two; of those bound by memory the one with less work is the better.
        """
        moving = moved * self.stream
        return max(busy, moving) + _HIDDEN * min(busy, moving)

    def drawn(self, nbytes: float) -> float:
        """Microseconds until one compute unit of a GPU, as a workgroup has it, has read bytes."""
        return nbytes * self.step / _LANES_TO_HIDE / _UNIT_BYTES

    def crowd(self, groups: int) -> float:
        """Workgroups of so many that a compute unit has one after the other or side by side."""
        return max(1.0, groups * self.unit / self.simds)

    def in_waves(self, lanes: int, steps: float) -> float:
        """Microseconds of ``lanes`` on a GPU with ``steps`` multiply-adds each.

        Fewer lanes than run side by side take as long as one.
        """
        return max(1.0, lanes / self.lanes) * steps * self.step

    def in_rounds(self, lanes: int, steps: float, waits: float) -> float:
        """Microseconds of ``lanes`` on a GPU with ``steps`` multiply-adds each, which wait.

        ``waits``: how often a lane waits for what it reads. However few lanes there are, one takes
        its steps at half the time that they take in a full machine, and its waits; many lanes hide
        the waits of each other.
        """
        alone = steps * self.step / 2 + waits * self.latency
        return max(lanes / self.lanes * steps * self.step, alone)

    def in_groups(self, groups: int, steps: float) -> float:
        """Microseconds of workgroups on a CPU with ``steps`` vector instructions each."""
        return groups * (self.group + steps * self.step) / self.lanes


_CPU = Machine(
    dispatch=20.0, copy=5.0, byte=1e-4, flop=2e-5, lanes=2, step=1.5e-4, latency=0.5, group=0.07
)
# GPUs' times are fitted to published times of ncnn on real cards; in comments what was found.
_DISCRETE = Machine(
    dispatch=5.0,  # 3 to 8
    copy=3.0,
    byte=4e-6,  # 3 to 10 a megabyte
    flop=1e-6,
    lanes=16384,
    step=2e-3,  # 120 for 10^9 multiply-adds on all lanes; 110 to 250
    latency=0.1,
)
_OTHER = Machine(
    dispatch=8.0,  # 4 to 39
    copy=5.0,
    byte=8e-5,  # 58 to 159 a megabyte
    flop=5e-6,
    lanes=4096,
    step=5e-3,  # 1,200 for 10^9 multiply-adds on all lanes; 600 to 4,700
    latency=0.2,
)


_AMD, _NVIDIA, _QUALCOMM, _INTEL = 0x1002, 0x10DE, 0x5143, 0x8086
_APPLE, _APPLE_ITSELF = 0x10005, 0x106B  # the first by Mesa's driver
#: Lanes of a wave on GPUs that load into scalar registers (GCN, RDNA).
SCALAR = 64
#: Cycles until what a wave loads is there, as static profiles assume.
WAIT_CYCLES = 220
_RDNA_LANES, _GCN_LANES = 32, 16
#: AMD's chips before RDNA, as drivers name them or their cards.
_GCN = re.compile(
    r"\b(POLARIS|VEGA|RAVEN|RENOIR|TONGA|FIJI|HAWAII|BONAIRE)|RX [45]\d\d\b", re.IGNORECASE
)
#: Cycle of GCN in an APU by that of RDNA there, for which compute_units.py has the clock.
_GCN_SLOWER = 1.38
#: Lanes of a SIMD where it is not 32: GCN's, Adreno's by its peak, Intel's execution units.
_SIMD_LANES = {_QUALCOMM: 128, _INTEL: 8}
#: Multiply-adds that GPUs of the last years can do while their memory moves a byte: 13 to 20; 16 on
#: an RX 6800, 19 on an RTX 3090 and the M1, 30 on GCN beside a processor.
_STEPS_A_BYTE, _RDNA_STEPS = 14.5, 16.0
_MORE_STEPS = {
    ("discrete", _NVIDIA): 19.0,
    ("integrated", _APPLE): 19.0,
    ("integrated", _QUALCOMM): 16.0,
    ("integrated", _AMD): 30.0,
}
#: Processors of a maker's discrete cards whose driver does not tell. NVIDIA's own does; NVK's null
#: devices do not, whose times are modelled as an RTX 3090's.
_UNTOLD = {_NVIDIA: ComputeUnits(82, 128, 1.695)}
#: Vendor id as drivers give it -> a dispatch and a byte of GPUs that are not discrete, by what
#: docs/gpu.md has of them.
_VENDORS = {
    0x1002: (20.0, 1e-4),  # AMD: Vega 8
    0x8086: (12.0, 4e-5),  # Intel: 7 and 22; 29 and 54 a megabyte
    0x10DE: (15.0, 1e-5),  # NVIDIA: Tegra Orin
    0x5143: (47.0, 6e-5),  # Qualcomm: 16 to 74, the median of six; 25 to 300 a megabyte
    _APPLE_ITSELF: (3.0, 2.5e-5),  # Apple: 2.4 and 3.8; 14 and 37 a megabyte
    _APPLE: (3.0, 2.5e-5),  # Apple's by Mesa's driver
}
#: Lanes in flight that keep one lane of a processor busy: a load's latency over a round's work.
_LANES_TO_HIDE = 4
#: Bytes that a compute unit takes a cycle from caches behind its own, as static profiles assume.
_UNIT_BYTES = 64
#: Share of measured peaks that kernels reach.
_REACHED = 0.6


def machine_of(limits: DeviceLimits) -> Machine:
    """The machine that a device is taken for: by what is measured, else told, else by its kind."""
    return _CPU if limits.kind == "cpu" else _gpu(limits)


@cache
def _gpu(limits: DeviceLimits) -> Machine:
    machine = _DISCRETE if limits.kind == "discrete" else _OTHER
    if machine is _OTHER and limits.vendor_id in _VENDORS:
        dispatch, byte = _VENDORS[limits.vendor_id]
        machine = replace(machine, dispatch=dispatch, byte=byte)
    units = limits.compute_units
    if units is None and machine is _DISCRETE:
        units = _UNTOLD.get(limits.vendor_id)
    if units is not None:
        lanes = units.count * units.lanes * _LANES_TO_HIDE
        machine = replace(machine, lanes=lanes, step=_LANES_TO_HIDE / (units.gigahertz * 1e3))
    if speeds := limits.speeds:
        machine = replace(
            machine,
            dispatch=1e6 * speeds.dispatch,
            byte=1e-3 / (_REACHED * speeds.gbytes),
            step=2e-3 * machine.lanes / (_REACHED * speeds.gflops),
        )
    width = _simd_lanes(limits)
    # Workgroups of 64 lanes have no use for wider waves.
    wave = min(64, max(32, limits.subgroup_size))
    usual = _RDNA_STEPS if limits.subgroup_size == SCALAR else _STEPS_A_BYTE
    steps = _MORE_STEPS.get((limits.kind, limits.vendor_id), usual)
    told = limits.vendor_id in (_NVIDIA, _QUALCOMM)
    found = _with_simds(machine, width, wave, steps, told)
    if units is not None:
        found = replace(found, unit=max(1, units.lanes // width))
    if _no_faster_in_half(limits, units):
        found = replace(found, half=1.125)
    if limits.vendor_id == _INTEL:
        found = replace(found, few_registers=True)
    return found if limits.subgroup_size != SCALAR else _of_amd(found, width, limits.features)


def has_long_instructions(limits: DeviceLimits) -> bool:
    """True on NVIDIA's GPUs, where each takes 16 bytes since Volta."""
    return limits.vendor_id == _NVIDIA


def _no_faster_in_half(limits: DeviceLimits, units: ComputeUnits | None) -> bool:
    """True on Apple's GPUs and NVIDIA's with 32 lanes a scheduler (vknn.runtime.machines)."""
    if limits.vendor_id == _NVIDIA:
        return units is not None and units.lanes == 4 * 32
    return is_apple(limits)


def is_apple(limits: DeviceLimits) -> bool:
    """True on Apple's GPUs, by whichever driver."""
    return limits.kind == "integrated" and limits.vendor_id in (_APPLE, _APPLE_ITSELF)


def _simd_lanes(limits: DeviceLimits) -> int:
    if limits.vendor_id == _AMD:
        return _GCN_LANES if _GCN.search(limits.name) else _RDNA_LANES
    return 32 if limits.kind == "discrete" else _SIMD_LANES.get(limits.vendor_id, 32)


@cache
def _with_simds(machine: Machine, width: int, wave: int, steps: float, told: bool) -> Machine:
    """The machine with what :meth:`Machine.on_simds` needs, from its lanes and steps.

    ``width``: lanes of a SIMD. ``steps``: multiply-adds in the time of a byte.
    ``told``: whether tables have the waves that it holds.
    """
    lanes = machine.lanes // _LANES_TO_HIDE  # that compute at a time
    cycle = machine.step / _LANES_TO_HIDE
    return replace(
        machine,
        stream=steps * cycle / lanes,
        simds=max(1, lanes // width),
        wave=wave,
        issue=wave / width * cycle,
        wait=WAIT_CYCLES * cycle,
        registers=float(told),
    )


def _of_amd(machine: Machine, width: int, features: frozenset[str]) -> Machine:
    """The machine as GCN and RDNA are; cooperative matrices tell those from RDNA 3 on."""
    gcn = width < _RDNA_LANES
    if gcn:  # beside a processor it clocks lower than later ones: a Vega 10's 1.3 GHz
        cycle = _GCN_SLOWER
        machine = replace(machine, issue=cycle * machine.issue, wait=cycle * machine.wait)
    registers = 0.5 if gcn else 1.5 if "cooperative_matrix" in features else 1.0
    return replace(machine, scalar=True, converts=gcn, registers=registers)
