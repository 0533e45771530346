"""A dispatch in a static profile: the driver's numbers, counts of its SPIR-V, a modelled time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vknn.profiling.invocation import HotLoop, Tally
from vknn.profiling.modelled import ModelledTime

#: Number -> what drivers call it, each in its own way: RADV, NVK, Turnip, Honeykrisp, ANV.
NAMES = {
    "registers": ("VGPRs", "Number of GPRs", "Registers used", "GPRs"),
    "spills": ("Spilled VGPRs", "Spills to memory", "STP Count", "Spills", "Spill Count"),
    "scratch": ("Scratch size", "SLM size", "Scratch", "Scratch Memory Size"),
    "shared": ("LDS size", "Workgroup Memory Size"),
    "code": ("Code size", "Code Size"),
    "instructions": ("Instructions", "Instruction count", "Instruction Count"),
    "cycles": ("Inverse Throughput", "Static cycle count", "Cycle Count"),
    "latency": ("Latency",),
    "waves": ("Subgroups per SIMD", "Max warps/SM", "Max Waves Per Core"),
}


@dataclass(frozen=True)
class StaticEntry:
    """A dispatch and its pipeline as the driver compiled it. None: the driver does not say.

    Attributes:
        layers: The layers that it computes, as the model file names them.
        kernel: The kernel as "family/name".
        label: The operator and the candidate that was chosen.
        groups: Workgroups along x, y and z.
        local: Lanes of a workgroup along x, y and z.
        subgroup_size: Lanes of a subgroup (a wave, a warp).
        subgroups: Subgroups of the whole dispatch.
        registers: Vector registers of a lane, as the driver counts them.
        spills: Registers or values spilled to memory.
        scratch: Bytes of private memory of a lane.
        shared: Bytes of shared memory of a workgroup.
        code: Bytes of machine code.
        instructions: Instructions of the machine code.
        cycles: The driver's estimate of the cycles that a subgroup keeps the machine busy; each
            driver has its own way to count loops.
        latency: The driver's estimate of a subgroup's cycles from begin to end.
        waves: Subgroups that may be in flight at a time where the driver counts them (a SIMD, a
            core). RADV counts a wave of 64 lanes as two on RDNA.
        statistics: All numbers of the driver, by its own names.
        counts: What one invocation in the middle of the grid does, from the SPIR-V; None where it
            could not be counted.
        hot: Its hottest loop; None without a loop.
        not_counted: Why ``counts`` is None, else "".
        modelled: Its modelled time; None on processors, and where nothing could be counted.
        flags: Floors that it is below: "spills", "scratch", "large code", "few waves"; "not
            compiled" where the driver crashed or hung at its pipeline (``vknn profile --static``).
        texts: The compiler's text of the machine code by the name of its form; only where they
            were asked for and the driver gives them.
    """

    layers: tuple[str, ...]
    kernel: str
    label: str
    groups: tuple[int, int, int]
    local: tuple[int, int, int]
    subgroup_size: int
    subgroups: int | None
    registers: int | None
    spills: int | None
    scratch: int | None
    shared: int | None
    code: int | None
    instructions: int | None
    cycles: int | None
    latency: int | None
    waves: int | None
    statistics: dict[str, float] = field(repr=False)
    counts: Tally | None = None
    hot: HotLoop | None = None
    not_counted: str = ""
    modelled: ModelledTime | None = None
    flags: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def spilling(self) -> bool:
        """Whether it keeps values in memory that found no room in registers."""
        return bool(self.spills or self.scratch)

    @property
    def multiply_adds(self) -> int | None:
        """Multiply-adds of all kinds of an invocation."""
        return None if self.counts is None else round(self.counts.work)

    @property
    def nbytes(self) -> int | None:
        """Bytes that an invocation loads from buffers and stores to them."""
        return None if self.counts is None else round(self.counts.nbytes)

    @property
    def time(self) -> float | None:
        """Modelled microseconds, in tenths."""
        return None if self.modelled is None else round(self.modelled.time, 1)

    def document(self) -> dict[str, Any]:
        """All fields as JSON takes them; texts only where there are some."""
        fields = asdict(self)
        if not self.texts:
            del fields["texts"]
        return fields

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StaticEntry:
        """The entry that :meth:`document` described, checked; older files have no counts."""
        given = dict(document)
        for name in ("layers", "groups", "local", "flags"):
            if name in given or name != "flags":
                given[name] = tuple(given[name])
        if given.get("counts") is not None:
            given["counts"] = Tally(**given["counts"])
        if given.get("hot") is not None:
            given["hot"] = HotLoop(given["hot"]["rounds"], Tally(**given["hot"]["each"]))
        if given.get("modelled") is not None:
            given["modelled"] = ModelledTime(**given["modelled"])
        return cls(**given)
