"""Summary of a campaign: counts of cases by format, of excuses by reason, of findings by kind."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any

#: Distinct findings that a summary shows.
SHOWN = 40


@dataclass
class Summary:
    """Counts of a campaign."""

    device: str = ""
    seconds: float = 0.0
    formats: dict[str, collections.Counter[str]] = field(default_factory=dict)
    excuses: collections.Counter[str] = field(default_factory=collections.Counter)
    findings: collections.Counter[str] = field(default_factory=collections.Counter)
    signatures: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, outcome: dict[str, Any]) -> None:
        """Count of a case."""
        counts = self.formats.setdefault(outcome["format"], collections.Counter())
        counts["mutated"] += 1
        for key in ("opened", "refused", "both"):
            counts[key] += outcome[key]
        self.excuses.update(outcome["excuses"])
        for finding in outcome["findings"]:
            self.note(finding["kind"], finding["signature"])

    def note(self, kind: str, signature: str) -> None:
        """Count of a finding."""
        self.findings[kind] += 1
        self.signatures[signature] += 1

    def total(self, key: str) -> int:
        """A count of all formats together."""
        return sum(counts[key] for counts in self.formats.values())

    def as_json(self) -> dict[str, Any]:
        """The counts as they are printed."""
        return {
            "mutated": self.total("mutated"), "opened": self.total("opened"),
            "refused": self.total("refused"), "run on both": self.total("both"),
            "formats": {name: dict(counts) for name, counts in sorted(self.formats.items())},
            "excused": dict(self.excuses.most_common()), "device": self.device,
            "seconds": round(self.seconds, 1), "findings": dict(self.findings.most_common()),
            "distinct findings": dict(self.signatures.most_common(SHOWN)),
        }  # fmt: skip
