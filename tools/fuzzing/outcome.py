"""Outcome of a case, as the child that ran it tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Outcome of a case."""

    case: int
    name: str
    format: str
    done: list[str] = field(default_factory=list)
    opened: bool = False
    both: bool = False
    refused: bool = False
    refusal: str = ""
    #: Why a case was not run on both, or a difference is none.
    excuses: list[str] = field(default_factory=list)
    findings: list[dict[str, str]] = field(default_factory=list)

    def add(self, kind: str, text: str, signature: str = "") -> None:
        """Note of a finding; those with the same signature are alike."""
        short = re.sub(r"\d+", "N", signature or text)[:160]
        self.findings.append({"kind": kind, "text": text[:1500], "signature": f"{kind}: {short}"})
