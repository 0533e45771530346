"""Settings of a campaign: what is run, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from fuzzing.corpus import FORMATS

ADDRESS_SPACE = 8 << 30


@dataclass(frozen=True)
class Settings:
    """Settings of a campaign."""

    seed: int = 0
    formats: tuple[str, ...] = FORMATS
    device: str = "auto"
    #: Of the processor, for a case.
    seconds: float = 10.0
    open_only: bool = False
    #: Fewer changes in a model, so that more of them can be run.
    gentle: bool = False
    #: Cases in a row that are made from one model; their pipelines are mostly the same ones.
    in_a_row: int = 1
    #: A child is replaced after so many cases, so that a case depends on few others.
    per_process: int = 2000
    address_space: int = ADDRESS_SPACE
