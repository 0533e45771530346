"""Static profile (``vknn.profiling.static``): what is known of every dispatch without a run.

Three sources. The driver's compiler tells registers, spills, code and occupancy by
VK_KHR_pipeline_executable_properties: Mesa's drivers of AMD, Qualcomm, NVIDIA, Apple and Intel GPUs
do, llvmpipe and SwiftShader do not. The SPIR-V of every kernel says what an invocation does, on any
driver. And on GPUs both together give a modelled time.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from vknn.errors import DeviceError, VknnError, naming
from vknn.json_file import read_json
from vknn.named_files import named
from vknn.precision import Precision
from vknn.profiling import static_analysis as analysis
from vknn.profiling.labels import first_rows
from vknn.profiling.modelled import ASSUMPTIONS, Assumptions, is_estimated, machine_text
from vknn.profiling.schema import Wrong
from vknn.profiling.static_entry import NAMES, StaticEntry
from vknn.profiling.static_floors import violations
from vknn.profiling.static_schema import MAX_BYTES, check_static
from vknn.profiling.static_tables import counts_table, driver_table
from vknn.program import Program
from vknn.rich_text import text_of
from vknn.runtime.pipeline_statistics import FEATURE
from vknn.session import Session, engine_of
from vknn.tool_inputs import Shapes, complete_feeds, opened

__all__ = ["NAMES", "StaticEntry", "StaticProfile", "static"]


@dataclass(frozen=True)
class StaticProfile:
    """Result of :func:`vknn.profiling.static`. ``print`` shows it as tables.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device.
        entries: The dispatches, in the order of the plans.
        assumptions: What modelled times rest on.
        left_out: What of the network is not among them, as a text; "" where all is.
    """

    model: str
    device: str
    entries: tuple[StaticEntry, ...]
    assumptions: str = ""
    left_out: str = ""

    @property
    def time(self) -> float | None:
        """Modelled microseconds of all dispatches; None where there is one without."""
        times = [e.modelled.time for e in self.entries if e.modelled is not None]
        return sum(times) if len(times) == len(self.entries) else None

    def violations(self) -> list[str]:
        """Floors that dispatches are below, each once and sorted: "kernel label: flag".

        Flags are "spills" and "scratch" (any), "large code" (above 16 KB on RADV, 32 KB on NVK),
        "few waves" (fewer than 4 a SIMD on RDNA, 2 on older GPUs of AMD's, 16 warps on NVK), and
        "not compiled" (the driver crashed or hung).
        """
        return violations(self.entries)

    def to_json(self) -> str:
        """JSON of everything; sizes in bytes, modelled times in microseconds."""
        document = {
            "model": self.model,
            "device": self.device,
            "time": self.time,
            "assumptions": self.assumptions,
            "left_out": self.left_out,
            "dispatches": [entry.document() for entry in self.entries],
        }
        return json.dumps(document, indent=2)

    @classmethod
    def from_json(cls, text: str) -> StaticProfile:
        """The profile that :meth:`to_json` wrote. Raises VknnError for what is none."""
        try:
            return cls._of(json.loads(text))
        except (TypeError, ValueError, RecursionError, Wrong) as error:
            raise VknnError(f"no static profile as JSON: {str(error)[:200]}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StaticProfile:
        """The profile of a file that ``vknn profile --static --json`` wrote. Raises VknnError."""
        try:
            file = Path(path)
        except TypeError as error:
            raise VknnError(f"{path!r:.80} is not the path of a file: {error}") from None
        with naming(str(file)):
            try:
                return cls._of(read_json(file, MAX_BYTES))
            except Wrong as error:
                raise VknnError(f"no static profile as JSON: {error}") from error

    @classmethod
    def _of(cls, document: Any) -> StaticProfile:
        check_static(document)
        entries = tuple(map(StaticEntry.from_document, document["dispatches"]))
        texts = (str(document.get(name, "")) for name in ("assumptions", "left_out"))
        return cls(document["model"], document["device"], entries, *texts)

    def table(self, limit: int | None = None) -> Table:
        """The driver's numbers of the dispatches; ``limit``: the most rows, None for all."""
        return driver_table(self._title, first_rows(self.entries, limit))

    def counts_table(self, limit: int | None = None) -> Table:
        """Counts, modelled times and flags of the dispatches, with the sum of the times."""
        said = self.left_out and f"without {self.left_out}"
        if not self.entries:
            said = "no layer runs on the device" + (f": {said}" if said else "")
        return counts_table(self._title, self.entries, limit, self.time, self.assumptions, said)

    def tables(self, limit: int | None = None) -> Group:
        """Both tables; the driver's only where it told something."""
        told = any(entry.statistics for entry in self.entries)
        counted = self.counts_table(limit)
        return Group(self.table(limit), counted) if told else Group(counted)

    @property
    def _title(self) -> str:
        return f"{self.model} on {self.device}, {len(self.entries)} dispatches"

    def __rich__(self) -> RenderableType:
        return self.tables()

    def __str__(self) -> str:
        return text_of(self, 200)


def static(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    isa: str | os.PathLike[str] | None = None,
    texts: bool = False,
    assumptions: Assumptions = ASSUMPTIONS,
) -> StaticProfile:
    """Static profile of a model: compiler's numbers, counts and a modelled time by dispatch.

    The model is planned and compiled for the device; nothing runs. Parts of a model whose shapes
    depend on data are left out, as they are compiled during runs. The driver's numbers are None
    where it does not tell any; counts of what an invocation does come from the SPIR-V on every
    device. Modelled times are arithmetic, no measurement: on AMD's GPUs from the machine code, on
    other GPUs coarser, from the counts; processors have none. A GPU of no table is taken for the
    machine that plans for it are estimated by, which ``assumptions`` then says.

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
        texts: Whether entries hold the texts of their machine code, where the driver gives them.
        assumptions: Latencies and overheads that modelled times rest on.

    Raises:
        vknn.DeviceError: There is no device, or with ``isa`` the driver does not tell.
        vknn.VknnError: ``isa`` is no path of a folder, or that cannot be made or written to.
    """
    if not isinstance(assumptions, Assumptions):
        raise VknnError(
            f"assumptions={assumptions!r:.80}: expected Assumptions, such as ASSUMPTIONS.scaled(2)"
        )
    folder = None if isa is None else _folder_of(isa)
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        if session.device is None:
            raise DeviceError("a static profile needs a Vulkan device: NumPy compiles nothing")
        limits = session.device.limits
        if folder is not None:
            if FEATURE not in limits.features:
                raise DeviceError(
                    f"{limits.name} does not say what its compiler made of shaders "
                    "(VK_KHR_pipeline_executable_properties)"
                )
            _make_folder(folder)  # before minutes of compiling
        program = engine_of(session).program(complete_feeds(session, inputs, shapes))
        executables = [s.executable for s in program.segments if s.executable is not None]
        made = [
            (x, analysis.compiled(x, limits, texts=texts or folder is not None))
            for x in executables
        ]
        if folder is not None:
            written = _write_texts(folder, [c for _, own in made for c in own])
            if made and not written:
                text = f"{limits.name} gives no texts of its compiler: {folder} has none"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        entries = tuple(
            entry
            for x, own in made
            for entry in analysis.entries(x, own, limits, assumptions, texts=texts)
        )
        name = program.graph.name if isinstance(model, Session) else str(model)
        assumed = str(assumptions)
        if is_estimated(limits):
            assumed += f"; {machine_text(limits)}"
        return StaticProfile(name, limits.name, entries, assumed, _left_out(program))


def _left_out(program: Program) -> str:
    """Parts of a network that the device's plans do not hold, "" where they hold all."""
    planned = {node for s in program.segments if s.executable is not None for node in s.graph.nodes}
    number = sum(node not in planned for node in program.graph.nodes)
    layers = "1 layer" if number == 1 else f"{number} layers"
    parts = [f"{layers} of the host's or of shapes that data decide"] if number else []
    if program.graph.continuation is not None:
        parts.append("what is planned during runs (shapes that data decide, branches, loops)")
    return ", and ".join(parts)


def _folder_of(isa: str | os.PathLike[str]) -> Path:
    """The folder of ``isa``; raises VknnError for what names none."""
    try:
        if str(isa):  # "" would be the folder that the program is in
            return Path(isa)
    except TypeError:
        pass
    raise VknnError(f"isa={isa!r:.80} is not the path of a folder")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise VknnError(f"{folder}: the compiler's texts have no folder here: {reason}") from error
    if not os.access(folder, os.W_OK):
        raise VknnError(f"{folder}: the compiler's texts cannot be written into this folder")


def _write_texts(folder: Path, made: Sequence[analysis.Compiled]) -> int:
    """Number of <number>-<kernel>.<form>.txt, one for each form that the driver gives."""
    written = 0
    for number, compiled in enumerate(made):
        for form, text in compiled.pipeline.texts.items():
            name = f"{number:03}-{_plain(compiled.dispatch.kernel)}.{_plain(form)}.txt"
            with named(folder / name):
                (folder / name).write_text(text, encoding="utf-8")
            written += 1
    return written


def _plain(text: str) -> str:
    """Letters and digits of a text, what is between them as hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
