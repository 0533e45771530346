"""GPUs by name: the one table by which plans are estimated and times modelled. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vknn.plan import ComputeUnits, DeviceLimits


@dataclass(frozen=True)
class GpuMachine:
    """Numbers of a GPU.

    Attributes:
        simds: Units that issue instructions of a wave each cycle or every few.
        lanes: Lanes that a SIMD computes a cycle.
        clock: GHz under load.
        bandwidth: GB/s of its memory.
        shared_by: SIMDs that share one shared memory and innermost cache (a compute unit).
        counted_by: SIMDs over which the driver's number of waves in flight goes.
        matrix: Multiply-adds of cooperative matrices that a lane does a cycle.
        rdna: Generation of RDNA (1 to 4), whose machine code is read; 0 for other machines.
        gcn: Whether it is one of AMD's before RDNA, whose machine code is read, too.
        cache_bytes: Bytes that a compute unit's innermost cache serves a cycle.
        packed: Multiply-adds of float16 that a lane does a cycle.
        dot: Instructions of an integer dot product of four bytes.
    """

    simds: int
    lanes: int
    clock: float
    bandwidth: float
    shared_by: int = 1
    counted_by: int = 1
    matrix: int = 1
    rdna: int = 0
    gcn: bool = False
    cache_bytes: int = 128
    packed: int = 2
    dot: int = 1

    @property
    def reads_code(self) -> bool:
        """Whether the machine code of its driver is understood."""
        return self.gcn or self.rdna > 0

    @property
    def interval(self) -> int:
        """Cycles from one issue of a SIMD to its next: GCN's four SIMDs take turns."""
        return 4 if self.gcn else 1

    @property
    def peak(self) -> float:
        """Multiply-adds a second in float32, in thousands of millions."""
        return self.simds * self.lanes * self.clock

    @property
    def units(self) -> ComputeUnits:
        """Processors, as plans are estimated by."""
        count = self.simds // self.shared_by
        return ComputeUnits(count, self.lanes * self.shared_by, self.clock)


def _rdna(generation: int, units: int, clock: float, bandwidth: float) -> GpuMachine:
    """Compute units of two SIMDs of 32 lanes, caches of a line of 128 bytes a cycle: AMD, "RDNA
    Architecture" (whitepaper, 2019)."""
    return GpuMachine(2 * units, 32, clock, bandwidth, shared_by=2, rdna=generation)


def _gcn(units: int, clock: float, bandwidth: float) -> GpuMachine:
    """Compute units of four SIMDs of 16 lanes, caches of 64 bytes a cycle: AMD, "Graphics Cores
    Next (GCN) Architecture" (whitepaper, 2012)."""
    return GpuMachine(4 * units, 16, clock, bandwidth, shared_by=4, gcn=True, cache_bytes=64)


#: Instructions of an integer dot product where a GPU has none: drivers widen eight bytes and
#: multiply and add four times, of which a few join. Plans take as many for it.
EMULATED_DOT = 14


def _nvidia(multiprocessors: int, lanes: int, clock: float, bandwidth: float) -> GpuMachine:
    """Multiprocessors of four schedulers, the driver's warps counted over all four.

    Lanes of a scheduler: 32 on Maxwell, Ampere and Ada, 16 on Turing; products of matrices of
    float16 with sums of float32 on GeForce cards: 64 a cycle and scheduler; beside matrices float16
    is as fast as float32 with 32 lanes, else twice (NVIDIA's whitepapers).
    """
    return GpuMachine(
        simds=4 * multiprocessors,
        lanes=lanes,
        clock=clock,
        bandwidth=bandwidth,
        shared_by=4,
        counted_by=4,
        matrix=64 // lanes,
        packed=32 // lanes,
    )


def _hopper(bandwidth: float) -> GpuMachine:
    """132 multiprocessors that do 67 TFLOP/s in float32, 134 in float16 and 990 in products of its
    matrices (NVIDIA, data sheets of the H100 SXM and the H200)."""
    return GpuMachine(528, 32, 1.98, bandwidth, shared_by=4, counted_by=4, matrix=16)


def _adreno(cores: int, lanes: int, clock: float, bandwidth: float, dot: int = 1) -> GpuMachine:
    """Shader cores of two halves that issue by themselves, with one shared memory."""
    return GpuMachine(2 * cores, lanes, clock, bandwidth, shared_by=2, dot=dot)


def _intel(
    units: int, clock: float, bandwidth: float, shared_by: int = 16, dot: int = 1
) -> GpuMachine:
    return GpuMachine(units, 8, clock, bandwidth, shared_by=shared_by, dot=dot)


def _apple(cores: int, clock: float, bandwidth: float) -> GpuMachine:
    """Cores of four SIMDs of 32 lanes, which are no faster in float16 (measurements of
    github.com/philipturner/metal-benchmarks)."""
    return GpuMachine(4 * cores, 32, clock, bandwidth, shared_by=4, packed=1, dot=EMULATED_DOT)


# Compute units, clocks and bandwidths are those of the vendors' product pages, for the first card
# named; clocks between "game" and "boost" where there are both. Others of a chip differ by a third.
_MACHINES: tuple[tuple[str, GpuMachine], ...] = (
    # AMD
    (r"NAVI10", _rdna(1, 40, 1.8, 448)),  # RX 5700 XT: 1.755 to 1.905 GHz, GDDR6 of 448 GB/s
    (r"RX 6[89]\d\d|NAVI21", _rdna(2, 60, 2.1, 512)),  # RX 6800: 1.815 to 2.105, 512 GB/s
    (r"VANGOGH", _rdna(2, 8, 1.6, 88)),  # Steam Deck: 1.0 to 1.6, LPDDR5 of 88 GB/s
    (r"RX 79\d\d|NAVI31", _rdna(3, 96, 2.4, 960)),  # RX 7900 XTX: 2.3 to 2.5, 960 GB/s
    (r"RX 7600|NAVI33", _rdna(3, 32, 2.4, 288)),  # RX 7600: 2.25 to 2.655, 288 GB/s
    (r"RX 9070|GFX1201", _rdna(4, 64, 2.6, 640)),  # RX 9070 XT: 2.4 to 2.97, 640 GB/s
    (r"POLARIS10", _gcn(36, 1.3, 256)),  # RX 580: 1.257 to 1.34, 256 GB/s
    (r"POLARIS12", _gcn(8, 1.2, 112)),  # RX 550: 1.1 to 1.183, 112 GB/s
    (r"VEGA10", _gcn(64, 1.4, 484)),  # RX Vega 64: 1.247 to 1.546, HBM2 of 484 GB/s
    (r"VEGA20", _gcn(60, 1.7, 1024)),  # Radeon Pro VII: up to 1.7, 1,024 GB/s
    (r"RAVEN\b", _gcn(10, 1.3, 38)),  # Vega 10 of a Ryzen 7 2700U: 1.3, DDR4-2400 in two channels
    (r"RAVEN2", _gcn(3, 1.2, 38)),  # Vega 3 of a Ryzen 3 3200U
    (r"RENOIR", _gcn(8, 1.75, 51)),  # Ryzen 7 4800U: 1.75, DDR4-3200 in two channels
    # NVIDIA
    (r"GTX 980 Ti|TITAN X|GM200", _nvidia(22, 32, 1.08, 336)),  # GTX 980 Ti: 1.0 to 1.076
    (r"RTX 2080|TU104", _nvidia(46, 16, 1.71, 448)),  # RTX 2080: 1.515 to 1.71
    (r"RTX 3060 Ti|GA104", _nvidia(38, 32, 1.665, 448)),  # RTX 3060 Ti: 1.41 to 1.665
    (r"RTX 30[89]0|GA102", _nvidia(82, 32, 1.695, 936)),  # RTX 3090: 1.395 to 1.695
    (r"RTX 4090|AD102", _nvidia(128, 32, 2.52, 1008)),  # RTX 4090: 2.235 to 2.52
    (r"\bH100\b", _hopper(3350)),  # SXM: HBM3 of 3.35 TB/s
    (r"\bH200\b", _hopper(4800)),  # HBM3e of 4.8 TB/s
    # A null device of NVK's does not say its chip: the RTX 3090's numbers for all of them.
    (r"^NVK\s*$", _nvidia(82, 32, 1.695, 936)),
    # Adreno: ALUs by the lists of notebookcheck.net, whose GFLOP/s they give (630: 727, 660: 1,720,
    # 730: 1,678, 740: 2,089, 750: 2,774); memory of the Snapdragon that has it.
    (r"Adreno.*\b630\b", _adreno(2, 128, 0.71, 30, EMULATED_DOT)),  # 845: LPDDR4X
    (r"Adreno.*\b640\b", _adreno(2, 192, 0.585, 34, EMULATED_DOT)),  # 855: LPDDR4X
    (r"Adreno.*\b650\b", _adreno(2, 256, 0.587, 44)),  # 865: LPDDR5
    (r"Adreno.*\b660\b", _adreno(2, 256, 0.84, 51)),  # 888
    (r"Adreno.*\b730\b", _adreno(4, 128, 0.818, 51)),  # 8 Gen 1
    (r"Adreno.*\b740\b", _adreno(6, 128, 0.68, 67)),  # 8 Gen 2
    (r"Adreno.*\b750\b", _adreno(6, 128, 0.903, 77)),  # 8 Gen 3
    # Intel: execution units of 8 lanes (ark.intel.com), 8 or 16 of them to a shared memory.
    (r"DG2|Arc.* A770\b", _intel(512, 2.1, 560)),
    (r"Arc.* A750\b", _intel(448, 2.05, 512)),
    (r"Arc.* A380\b", _intel(128, 2.0, 186)),
    (r"UHD Graphics 770\b", _intel(32, 1.5, 77, shared_by=8)),  # DDR5-4800 in two channels
    # No dot products of four bytes before Xe; "GT2" is what Mesa's driver names.
    (r"UHD Graphics 630\b", _intel(24, 1.15, 43, 8, EMULATED_DOT)),  # DDR4-2666 in two channels
    (r"HD Graphics 530\b|(SKL|KBL) GT2", _intel(24, 1.05, 34, 8, EMULATED_DOT)),  # DDR4-2133
    (r"Iris.* Plus Graphics\b|ICL GT2", _intel(64, 1.05, 60, 8, EMULATED_DOT)),  # LPDDR4X-3733
    (r"TGL|Iris.* Xe Graphics\b", _intel(96, 1.3, 68)),  # up to 1.35 GHz, LPDDR4X
    # Apple: Wikipedia's "Apple M1", "Apple M2".
    (r"Apple M1\b(?! (Pro|Max|Ultra))", _apple(8, 1.278, 68)),
    (r"Apple M1 Pro\b", _apple(16, 1.296, 200)),
    (r"Apple M1 Max\b", _apple(32, 1.296, 400)),
    (r"Apple M1 Ultra\b", _apple(64, 1.296, 800)),
    (r"Apple M2\b(?! (Pro|Max|Ultra))", _apple(10, 1.398, 100)),
)


#: AMD's chips from RDNA on, by what RADV writes behind the card's name.
_RDNA = re.compile(r"RADV (NAVI|GFX1[01-9]|VANGOGH|REMBRANDT|RAPHAEL|PHOENIX|STRIX)", re.IGNORECASE)


def is_rdna(name: str) -> bool:
    """Whether a device of this name is one of AMD's from RDNA on, driven by RADV."""
    return _RDNA.search(name) is not None


def gpu_machine(limits: DeviceLimits) -> GpuMachine | None:
    """The machine of a device, by the name that its driver gives it; None for unknown ones."""
    return None if limits.kind == "cpu" else machine_of(limits.name)


def machine_of(name: str) -> GpuMachine | None:
    """The machine of GPUs of this name; None for unknown ones."""
    return next((machine for pattern, machine in _MACHINES if re.search(pattern, name)), None)
