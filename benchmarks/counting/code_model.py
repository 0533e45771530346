"""Modelled time of a dispatch by its compiled code: the one place where such a model is put in.

The layer keeps all that a model needs of any engine's pipelines: module, specialization, push
constants, and the compiler's texts, machine code among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

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


#: Microseconds of a dispatch alone, without the gap before it; None for a device that it does not
#: know. While there is no model, reports show counts and fitted costs only.
CodeModel = Callable[[CompiledDispatch], float | None]
CODE_MODEL: CodeModel | None = None


def code_time(device: str, dispatch: LoggedDispatch, folder: Path) -> float | None:
    """Modelled microseconds of a dispatch whose module and texts lie in ``folder``."""
    return CODE_MODEL(compiled(device, dispatch, folder)) if CODE_MODEL else None


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
    )


def forms(text: str) -> dict[str, str]:
    """The forms of a file that the layer wrote: each follows a line "=== name"."""
    found: dict[str, str] = {}
    for part in f"\n{text}".split("\n=== ")[1:]:
        name, _, body = part.partition("\n")
        found[name] = body
    return found
