"""The result of a bisection: text, JSON."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vknn.crosscheck.json_text import json_text
from vknn.reduction.switches import PartSwitch
from vknn.reduction.verdict import KINDS, Verdict


@dataclass(frozen=True)
class BisectReport:
    """Result of :func:`vknn.reduction.bisect`.

    Attributes:
        model: The file.
        failure: How the model fails, an :class:`Verdict`.
        facts: Device, driver, versions, and the quirks that are known of the driver.
        switches: A least set without which it does not fail: one, or several that help together
            only; empty where none does.
        host: The switch that has the host compute the wrong operator, where no other helps.
        confirmed: Whether they help the whole model, too, and not just the part that was tried.
        steady: Whether it failed each time.
        runs: Runs that were made.
        seconds: How long it took.
        off: What was switched off all the time.
    """

    model: str
    failure: Verdict
    facts: Mapping[str, Any] = field(default_factory=dict)
    switches: tuple[PartSwitch, ...] = ()
    host: PartSwitch | None = None
    confirmed: bool = True
    steady: bool = True
    runs: int = 0
    seconds: float = 0.0
    off: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True where nothing fails."""
        return not self.failure.fails

    @property
    def workaround(self) -> str | None:
        """The environment variable that helps; None where none is known."""
        found = self.switches or ((self.host,) if self.host else ())
        if not found:
            return None
        names = [*self.off, *(s.name for s in found)]
        return f"VKNN_DISABLE={shlex.quote(','.join(names))}"

    @property
    def quirk(self) -> str:
        """Whether vknn has a quirk entry for the driver, in a sentence."""
        if not self.facts:
            return ""
        driver = self.facts.get("driver") or self.facts["device"]
        known = self.facts.get("quirks") or {}
        if not known:
            return f"vknn knows no quirk of this driver ({driver})"
        listed = ", ".join(
            n + (f" (switches off {', '.join(d)})" if d else "") for n, d in known.items()
        )
        return f"vknn knows quirks of this driver ({driver}), which do not cover this: {listed}"

    def summary(self) -> str:
        """The result in a few lines."""
        if self.failure.kind == "unchecked":
            return f"nothing fails: {KINDS['unchecked']}, so that there was nothing to compare"
        if self.ok:
            return f"nothing fails: {self.failure.text}"
        lines = [f"fails: {self.failure.text}", *self._found()]
        if self.workaround:
            lines.append(f"workaround: {self.workaround}")
        if self.quirk:
            lines.append(self.quirk)
        return "\n".join([*lines, f"{self.runs} runs in {self.seconds:.0f} s"])

    def _found(self) -> list[str]:
        if not self.steady:
            return ["it does not fail each time: no switch can be told from chance"]
        if not self.switches and self.host:
            return [
                "no pass, kernel, feature or tuned choice makes the difference: whatever kernel "
                f"takes its place, {self.failure.layers or 'it'} is wrong; it is right on the host"
            ]
        if not self.switches:
            return [
                "no switch makes the difference, not even all of them together: try another device "
                "or driver, and `vknn reduce` for a small case"
            ]
        if len(self.switches) == 1:
            lines = [f"the {self.switches[0]} makes the difference: without it nothing fails"]
        else:
            together = " and ".join(f"the {s}" for s in self.switches)
            lines = [
                f"no single switch makes the difference: {together} do together, each alone does "
                "not"
            ]
        if not self.confirmed:
            lines.append("that helps the part of the model that was tried, not the whole of it")
        return lines

    def to_json(self) -> str:
        """The report as JSON."""
        document = dataclasses.asdict(self)
        document |= {"ok": self.ok, "workaround": self.workaround, "quirk": self.quirk}
        return json_text(document)

    def __str__(self) -> str:
        return self.summary()
