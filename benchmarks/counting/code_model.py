"""Modelled time of a dispatch by its compiled code, of any engine's pipelines alike.

The layer keeps all that vknn's static profile models a dispatch from: module, specialization, push
constants, and the compiler's texts, machine code among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vknn.plan import DeviceLimits, Dispatch
from vknn.profiling.modelled import ASSUMPTIONS
from vknn.profiling.static_analysis import Compiled, entry
from vknn.runtime.pipeline_statistics import CompiledPipeline

from .log import LoggedDispatch


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


def code_time(device: str, dispatch: LoggedDispatch, folder: Path) -> float | None:
    """Modelled microseconds of a dispatch whose module and texts lie in ``folder``.

    Of the dispatch alone, without the gap before it; None for devices that the model does not know
    and modules that it cannot follow.
    """
    given = compiled(device, dispatch, folder)
    limits = DeviceLimits(name=given.device, kind="discrete", subgroup_size=given.subgroup)
    constants = tuple(given.constants.items())
    asked = Dispatch("", (), constants, given.push, (), given.groups, nbytes=given.nbytes)
    pipeline = CompiledPipeline(given.subgroup, dict(given.statistics), dict(given.texts))
    time = entry(Compiled(asked, given.spirv, pipeline, 0), limits, ASSUMPTIONS).modelled
    return None if time is None else time.busy


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
