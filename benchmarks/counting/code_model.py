"""Modelled time of a dispatch by its compiled code, of any engine's pipelines alike.

The layer keeps all that vknn's static profile models a dispatch from: module, specialization, push
constants, and the compiler's texts, machine code among them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vknn.plan import DeviceLimits, Dispatch
from vknn.profiling.modelled import ASSUMPTIONS
from vknn.profiling.static_analysis import Compiled, counted, modelled
from vknn.runtime.pipeline_statistics import CompiledPipeline

from .log import LoggedDispatch, LoggedRun

#: Factors of the latencies that are tried beside those assumed.
SCALED = (0.5, 2.0)


@dataclass(frozen=True)
class CompiledDispatch:
    """A dispatch as it was compiled. ``device``: its name; ``texts``: the compiler's forms by name,
    as its driver calls them ("Assembly" is RADV's machine code)."""

    device: str
    spirv: bytes
    texts: Mapping[str, str]
    constants: Mapping[int, int]
    push: bytes
    groups: tuple[int, int, int]
    subgroup: int
    statistics: Mapping[str, float]
    nbytes: int


@dataclass(frozen=True)
class CodeTimes:
    """Modelled microseconds of a dispatch, without the gap before it: with latencies as they are
    assumed, and with each of SCALED's. ``by_data``: what buffers hold decides how long it takes.
    ``share``: multiply-adds' part of the hottest loop's vector instructions, None where no machine
    code is read; ``bound``: what decides the time."""

    time: float
    scaled: tuple[float, ...]
    by_data: bool
    share: float | None
    bound: str


def code_times(run: LoggedRun, folder: Path) -> list[CodeTimes | None]:
    """Times of a run's dispatches, whose modules and texts lie in ``folder``.

    None for devices that the model does not know and modules that it cannot follow.
    """
    found: dict[tuple[int, bytes, tuple[int, int, int], int], CodeTimes | None] = {}
    for d in run.dispatches:
        key = d.pipeline.number, d.push, d.groups, d.nbytes
        if key not in found:
            found[key] = _code_times(run.device, d, folder)
    return [found[d.pipeline.number, d.push, d.groups, d.nbytes] for d in run.dispatches]


def _code_times(device: str, dispatch: LoggedDispatch, folder: Path) -> CodeTimes | None:
    given = compiled(device, dispatch, folder)
    limits = DeviceLimits(name=given.device, kind="discrete", subgroup_size=given.subgroup)
    constants = tuple(given.constants.items())
    asked = Dispatch("", (), constants, given.push, (), given.groups, nbytes=given.nbytes)
    pipeline = CompiledPipeline(given.subgroup, dict(given.statistics), dict(given.texts))
    whole = Compiled(asked, given.spirv, pipeline, 0)
    counts, why = counted(whole, limits)
    if counts is None:
        print(f"{device}: pipeline {dispatch.pipeline.number}: {why}", file=sys.stderr)
        return None
    assumed = [ASSUMPTIONS, *(ASSUMPTIONS.scaled(factor) for factor in SCALED)]
    first, *rest = (modelled(whole, counts, limits, a) for a in assumed)
    if first is None:
        return None
    scaled = tuple(t.busy for t in rest if t is not None)
    return CodeTimes(first.busy, scaled, counts.by_data, first.share, first.bound)


def compiled(device: str, dispatch: LoggedDispatch, folder: Path) -> CompiledDispatch:
    """All that the layer kept of a dispatch's pipeline. Raises OSError where it kept nothing."""
    pipeline = dispatch.pipeline
    text = (folder / f"{pipeline.number:05}.txt").read_text(errors="replace")
    return CompiledDispatch(
        device=device,
        spirv=(folder / f"{pipeline.module}.spv").read_bytes(),
        texts=forms(text),
        constants=pipeline.constants,
        push=dispatch.push,
        groups=dispatch.groups,
        subgroup=pipeline.subgroup,
        statistics=pipeline.statistics,
        nbytes=dispatch.nbytes,
    )


def forms(text: str) -> dict[str, str]:
    """The forms of a file that the layer wrote: each follows a line "=== name"."""
    found: dict[str, str] = {}
    for part in f"\n{text}".split("\n=== ")[1:]:
        name, _, body = part.partition("\n")
        found[name] = body
    return found
