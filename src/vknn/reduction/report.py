"""The result of a reduction: text, JSON."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vknn.crosscheck.json_text import json_text
from vknn.reduction.verdict import KINDS, Verdict
from vknn.reduction.worker import TrialSetting

#: Environment variables that change what a run does.
_VARIABLES = ("VKNN_DEVICE", "VKNN_DISABLE", "VKNN_NULL_DEVICE")


@dataclass(frozen=True)
class Size:
    """Size of a case.

    Attributes:
        nodes: Its operators, before any pass.
        elements: Of all its tensors: inputs, weights and results.
        nbytes: Bytes of the arrays of inputs and weights.
    """

    nodes: int
    elements: int
    nbytes: int


@dataclass(frozen=True)
class ReductionReport:
    """Result of :func:`vknn.reduction.reduce`.

    Attributes:
        model: The file.
        failure: How the model fails, an :class:`Verdict`.
        before: Size of the model (of the part that fails, where it has loops or branches).
        after: Size of what is left.
        folder: Where that is; empty where nothing fails.
        check: The command that judged; None: ``vknn.verify``.
        setting: The options that cases were run with.
        seed: Of random inputs.
        stages: Graphs that the model comes to; more than one where its data decide.
        trials: Candidates that were tried.
        seconds: How long it took.
        stopped: "out of time" or "interrupted" where the search was not done, else "".
        last: How the result fails.
        facts: Device, driver and versions.
        graph: The graph that is left, as text.
        operators: Layer and operator of each node that is left.
    """

    model: str
    failure: Verdict
    before: Size
    after: Size
    folder: str
    check: str | None
    setting: TrialSetting
    seed: int
    stages: int
    trials: int = 0
    seconds: float = 0.0
    stopped: str = ""
    last: Verdict | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    graph: str = field(default="", repr=False)
    operators: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """True where nothing fails."""
        return not self.failure.fails

    def command(self, folder: str = ".") -> str:
        """The command that shows the failure of the result in a folder."""
        if self.check is not None:
            return f"{self.check} {shlex.quote(folder)}"
        named = [f"{n}={shlex.quote(os.environ[n])}" for n in _VARIABLES if os.environ.get(n)]
        verb = "bisect" if self.failure.kind == "rewritten" else "verify"
        words = ["vknn", verb, folder]
        own, usual = self.setting, TrialSetting()
        for name in ("device", "precision", "arithmetic", "tolerance", "cumulative_tolerance"):
            if getattr(own, name) != getattr(usual, name):
                words += [f"--{name.replace('_', '-')}", str(getattr(own, name))]
        if own.disable:
            words += ["--disable", ",".join(own.disable)]
        for file in own.layers:
            words += ["--layers", os.path.join(folder, os.path.basename(file))]
        return " ".join([*named, shlex.join(words)])

    def summary(self) -> str:
        """The result in a few lines."""
        if self.failure.kind == "unchecked":
            return f"nothing fails: {KINDS['unchecked']}, so that there was nothing to compare"
        if self.ok:
            return f"nothing fails: {self.failure.text}"
        layers = ", ".join(f"{op} {name!r}" for name, op in self.operators)
        share = 100 * self.after.elements / max(1, self.before.elements)
        lines = [
            f"fails: {self.failure.text}",
            f"left of it: {layers}",
            f"{self.before.nodes} -> {self.after.nodes} nodes, {self.before.elements:,} -> "
            f"{self.after.elements:,} elements ({share:.2g}%), {self.trials} candidates tried in "
            f"{self.seconds:.0f} s",
        ]
        if self.stopped:
            lines.append(f"{self.stopped}: this is the best so far")
        if self.last is not None and not self.failure.is_like(self.last):
            lines.append(f"it does not fail each time: at last {self.last.text}")
        return "\n".join(
            [*lines, f"written to {self.folder}; {self.command(self.folder)} shows it"]
        )

    def to_json(self) -> str:
        """The report as JSON."""
        document = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in ("failure", "before", "after", "setting", "last"):
            if document[name] is not None:
                document[name] = dataclasses.asdict(document[name])
        document["ok"] = self.ok
        document["operators"] = [{"layer": n, "op": op} for n, op in self.operators]
        document["command"] = None if self.ok else self.command(self.folder)
        return json_text(document)

    def __str__(self) -> str:
        return self.summary()
