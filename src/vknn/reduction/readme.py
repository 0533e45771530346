"""README of a reduced case: what fails, on what, and how to see it."""

from __future__ import annotations

from pathlib import Path

from vknn.reduction.report import ReductionReport
from vknn.reduction.verdict import KINDS

README = "README.md"
_FACTS = {
    "device": "device",
    "driver": "driver",
    "vulkan": "Vulkan",
    "system": "system",
    "vknn": "vknn",
    "python": "Python",
    "numpy": "NumPy",
}


def readme(report: ReductionReport) -> str:
    """The text of the file."""
    failure = report.last if report.last is not None and report.last.fails else report.failure
    lines = [
        f"# {KINDS[failure.kind][0].upper()}{KINDS[failure.kind][1:]}",
        "",
        f"    {failure.text}",
        "",
        f"What is left of `{Path(report.model).name}` when everything is left out that it does not "
        "take to fail so. In this folder:",
        "",
        f"    {report.command()}",
        "",
        f"runs and checks it; `vknn run` with the same options gives its results. {_kinds(report)}",
        "",
        "## The graph",
        "",
        *(f"    {line}" for line in report.graph.splitlines()),
        "",
        "`graph.json` is it as JSON, `arrays.npz` holds its inputs and weights; neither holds "
        "anything that is executed.",
        "",
        "## Where it was seen",
        "",
        *_facts(report),
        "",
        "## Where it comes from",
        "",
        f"    {report.failure.text}",
        "",
        f"Of {report.before.nodes} nodes and {report.before.elements:,} elements "
        f"{report.after.nodes} and {report.after.elements:,} are left, after {report.trials} "
        f"candidates. Inputs that were not given were made with the seed {report.seed}.",
    ]
    if report.stopped:
        lines.append(f"The search was not done ({report.stopped}); less may do.")
    return "\n".join(lines) + "\n"


def _kinds(report: ReductionReport) -> str:
    if report.check is not None:
        return "The exit code of the command is 0 where nothing fails."
    return "The exit code is 1 where it fails."


def _facts(report: ReductionReport) -> list[str]:
    rows = [(words, report.facts.get(key)) for key, words in _FACTS.items()]
    return [
        "| | |",
        "|---|---|",
        *(f"| {words} | {_escaped(str(value))} |" for words, value in rows if value),
    ]


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
