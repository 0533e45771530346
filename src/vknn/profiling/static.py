"""Static profile (``vknn.profiling.static``): numbers of the driver's compiler by dispatch.

Nothing runs, so it works on devices that compute nothing, too. The driver tells by
VK_KHR_pipeline_executable_properties; Mesa's drivers of AMD, Qualcomm, NVIDIA, Apple and Intel GPUs
do, llvmpipe and SwiftShader do not.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from vknn.errors import DeviceError, VknnError
from vknn.plan import Dispatch
from vknn.rich_text import text_of
from vknn.runtime.executor import Executable
from vknn.runtime.pipeline_statistics import CompiledPipeline
from vknn.session import Session
from vknn.tool_inputs import Shapes, complete_feeds, opened

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


_Compiled = tuple[Dispatch, CompiledPipeline]


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

    @property
    def spilling(self) -> bool:
        """Whether it keeps values in memory that found no room in registers."""
        return bool(self.spills or self.scratch)


@dataclass(frozen=True)
class StaticProfile:
    """Result of :func:`vknn.profiling.static`. ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device.
        entries: The dispatches, in the order of the plans.
    """

    model: str
    device: str
    entries: tuple[StaticEntry, ...]

    def to_json(self) -> str:
        """JSON of everything; sizes in bytes."""
        document = {
            "model": self.model,
            "device": self.device,
            "dispatches": [asdict(entry) for entry in self.entries],
        }
        return json.dumps(document, indent=2)

    @classmethod
    def from_json(cls, text: str) -> StaticProfile:
        """The profile that :meth:`to_json` wrote. Raises VknnError for what is none."""
        try:
            document = json.loads(text)
            entries = tuple(_from_json(entry) for entry in document["dispatches"])
            return cls(str(document["model"]), str(document["device"]), entries)
        except (ValueError, KeyError, TypeError) as error:
            raise VknnError(f"no static profile as JSON: {error}") from error

    def table(self, limit: int | None = None) -> Table:
        """Dispatches as a rich table; ``limit``: the most rows, None for all."""
        title = f"{self.model} on {self.device}, {len(self.entries)} dispatches"
        table = Table(title=title, title_justify="left")
        for name in ("layers", "kernel", "what"):
            table.add_column(name, overflow="fold")
        for name in ("groups", "subgroups", *NAMES):
            table.add_column(name, justify="right", no_wrap=True)
        for entry in self.entries[:limit]:
            numbers = [getattr(entry, name) for name in ("subgroups", *NAMES)]
            table.add_row(
                ", ".join(entry.layers),
                entry.kernel,
                entry.label,
                "x".join(map(str, entry.groups)),
                *("" if number is None else f"{number:,}" for number in numbers),
                style="red" if entry.spilling else None,
            )
        return table

    def __rich__(self) -> RenderableType:
        return self.table()

    def __str__(self) -> str:
        return text_of(self, 200)


def static(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: str = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    isa: str | os.PathLike[str] | None = None,
) -> StaticProfile:
    """Static profile: registers, spills, code and occupancy of every dispatch of a model.

    The model is planned and compiled for the device; nothing runs. Parts of a model whose shapes
    depend on data are left out, as they are compiled during runs.

    Args:
        model: A model file or an open session.
        inputs: Arrays by name, of which the shapes matter; random ones stand in for missing ones.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used where ``model`` is a session. So are
            ``precision`` and ``arithmetic``.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        shapes: Shapes of inputs by name, where the model leaves them open.
        isa: A folder for the compiler's texts, intermediate forms and machine code, a file each.

    Raises:
        vknn.DeviceError: The driver does not tell, or there is no device.
    """
    options = {"device": device, "precision": precision, "arithmetic": arithmetic}
    with opened(model, weights, **options) as session:
        if session.device is None:
            raise DeviceError("a static profile needs a Vulkan device: NumPy compiles nothing")
        program = session._engine.program(complete_feeds(session, inputs, shapes))
        executables = [s.executable for s in program.segments if s.executable is not None]
        made = [pair for x in executables for pair in _compiled(x, texts=isa is not None)]
        if isa is not None:
            _write_texts(Path(isa), made)
        entries = tuple(_entry(dispatch, pipeline) for dispatch, pipeline in made)
        name = program.graph.name if isinstance(model, Session) else str(model)
        return StaticProfile(name, session.device.name, entries)


def _from_json(document: dict[str, Any]) -> StaticEntry:
    tuples = {name: tuple(document[name]) for name in ("layers", "groups", "local")}
    return StaticEntry(**{**document, **tuples})


def _compiled(executable: Executable, *, texts: bool) -> list[_Compiled]:
    return list(zip(executable.plan.dispatches, executable.compiled(texts=texts), strict=True))


def _entry(dispatch: Dispatch, pipeline: CompiledPipeline) -> StaticEntry:
    constants = dict(dispatch.specialization)
    x, y, z = (int(constants.get(number, 1)) for number in range(3))
    size = pipeline.subgroup_size
    subgroups = math.prod(dispatch.groups) * -(-x * y * z // size) if size else None
    numbers = {field: _number(pipeline.statistics, names) for field, names in NAMES.items()}
    return StaticEntry(
        dispatch.nodes,
        dispatch.kernel,
        dispatch.label,
        dispatch.groups,
        (x, y, z),
        size,
        subgroups,
        statistics=pipeline.statistics,
        **numbers,
    )


def _number(statistics: Mapping[str, float], names: tuple[str, ...]) -> int | None:
    return next((int(statistics[name]) for name in names if name in statistics), None)


def _write_texts(folder: Path, made: Sequence[_Compiled]) -> None:
    """<number>-<kernel>.<form>.txt for each dispatch and each form that the driver gives."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (dispatch, pipeline) in enumerate(made):
        for form, text in pipeline.texts.items():
            name = f"{number:03}-{_plain(dispatch.kernel)}.{_plain(form)}.txt"
            (folder / name).write_text(text, encoding="utf-8")


def _plain(text: str) -> str:
    """Letters and digits of a text, what is between them as hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
