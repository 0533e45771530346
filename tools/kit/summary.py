"""The summary of all steps, one page of Markdown. Standard library only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import processes
from processes import Outcome

BAD = (processes.FAILED, processes.CRASHED, processes.TIMED_OUT)
KINDS = (processes.PASSED, *BAD, processes.SKIPPED, processes.LEFT_OUT)


@dataclass(frozen=True)
class Done:
    """A step that has been run."""

    name: str
    what: str
    seconds: float
    outcomes: list[Outcome]

    def number(self, status: str) -> int:
        """Number of its tasks that ended so."""
        return sum(outcome.status == status for outcome in self.outcomes)

    def counts(self) -> str:
        """Numbers of what passed, failed and so on, in words."""
        found = [f"{n} {kind}" for kind in KINDS if (n := self.number(kind))]
        return ", ".join(found) or "nothing to do"

    def answers(self) -> Iterator[tuple[str, Any]]:
        """Name and answer of the tasks that gave one."""
        return ((o.name, o.answer) for o in self.outcomes if o.answer is not None)

    def to_json(self) -> str:
        """JSON of everything; times in seconds."""
        tasks = [asdict(outcome) for outcome in self.outcomes]
        step = {"step": self.name, "what": self.what, "seconds": self.seconds, "tasks": tasks}
        return json.dumps(step, indent=1) + "\n"


def exit_code(done: Sequence[Done]) -> int:
    """0: all passed; 1: something failed; 3: nothing failed, but something was left out."""
    if any(step.number(status) for step in done for status in BAD):
        return 1
    return 3 if any(step.number(processes.LEFT_OUT) for step in done) else 0


def packed(path: Path) -> dict[str, Any]:
    """Version and revision that the kit was made from."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def markdown(done: Sequence[Done], kit: dict[str, Any]) -> str:
    """The page: a table of the steps, what did not pass, and what was measured."""
    steps = {step.name: step for step in done}
    parts = [f"# vknn on {_device(steps)}", _made_from(kit), _table(done), _troubles(done)]
    tables = {
        "limits": _limits,
        "compare": _compare,
        "profile": _profile,
        "operators": _operators,
        "tune": _tune,
    }
    for name, make in tables.items():
        if name in steps and any(steps[name].answers()):
            parts += [f"## {steps[name].what}", make(steps)]
    return "\n\n".join(filter(None, parts)) + "\n"


def rows(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table in Markdown; all but the first column to the right."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [heads, rule, *lines])


def _device(steps: dict[str, Done]) -> str:
    for name in ("limits", "compare", "profile", "verify"):
        for _, answer in steps[name].answers() if name in steps else ():
            if isinstance(answer, dict) and answer.get("device"):
                return str(answer["device"])
    for _, found in steps["devices"].answers() if "devices" in steps else ():
        return ", ".join(str(d["name"]) for d in found if d["usable"]) or "no device"
    return "an unknown device"


def _made_from(kit: dict[str, Any]) -> str:
    return f"Kit of vknn {kit['version']} ({kit['revision']}), {kit['date']}." if kit else ""


def _table(done: Sequence[Done]) -> str:
    kinds = [k for k in KINDS if k == processes.PASSED or any(step.number(k) for step in done)]
    lines = [(step.name, *(step.number(k) for k in kinds), f"{step.seconds:.1f}") for step in done]
    return rows(["step", *kinds, "seconds"], lines)


def _troubles(done: Sequence[Done]) -> str:
    lines = [
        f"- {step.name}: {outcome.name}: {outcome.status}: {outcome.note}"
        for step in done
        for outcome in step.outcomes
        if outcome.status in (*BAD, processes.SKIPPED)
    ]
    lines += [
        f"  - {line}"
        for step in done
        for _, answer in (step.answers() if step.name == "tests" else ())
        for line in answer
        if line.startswith(("FAILED", "ERROR"))
    ]
    left = [
        f"- {step.name}: {step.number(processes.LEFT_OUT)} left out: the time was up"
        for step in done
        if step.number(processes.LEFT_OUT)
    ]
    return "\n".join([*lines, *left, *_refusals(done)])


def _refusals(done: Sequence[Done]) -> Iterator[str]:
    """What single engines and cases refused within tasks."""
    for step in done:
        if step.name in ("compare", "operators", "torch"):
            for name, answer in step.answers():
                for what, why in _errors(answer):
                    yield f"- {step.name}: {name}: {what}: {why.splitlines()[0][:300]}"


def _errors(answer: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every {"error": text} within an answer, and the names that lead to it."""
    if isinstance(answer, dict):
        if isinstance(answer.get("error"), str):
            yield path, answer["error"]
        for name, part in answer.items():
            yield from _errors(part, f"{path} {name}".strip())


def _limits(steps: dict[str, Done]) -> str:
    ((_, answer),) = steps["limits"].answers()
    plain = {k: v for k, v in answer.items() if isinstance(v, (int, float, str))}
    return rows(["what", "value"], [(k, _number(v)) for k, v in plain.items()])


def _compare(steps: dict[str, Done]) -> str:
    found = dict(steps["compare"].answers())
    engines = list(dict.fromkeys(e for answer in found.values() for e in answer["series"]))
    lines = []
    for name, answer in found.items():
        series = answer["series"]
        cells = [
            _pair(series[e]["min"], series[e]["median"], 1e3) if e in series else ""
            for e in engines
        ]
        lines.append((name, *cells))
    ratios = [_ratio(found.values(), e) for e in engines]
    lines.append(("least of ncnn's = 1, geometric mean of least", *ratios))
    return "Milliseconds of a run, least and median.\n\n" + rows(["network", *engines], lines)


def _ratio(answers: Any, engine: str) -> str:
    logs = []
    for answer in answers:
        series = answer["series"]
        peers = [s["min"] for name, s in series.items() if name.startswith("ncnn")]
        if peers and engine in series:
            logs.append(math.log(series[engine]["min"] / min(peers)))
    return f"{math.exp(sum(logs) / len(logs)):.2f} ({len(logs)})" if logs else ""


def _profile(steps: dict[str, Done]) -> str:
    lines = []
    modelled = False
    for name, answer in steps["profile"].answers():
        total, commands = answer["total"], answer["commands"]
        slowest = max(commands, key=lambda c: c["median"], default=None)
        modelled |= answer["modelled"] is not None
        static = sum("static" in c for c in commands)
        parts = (total["wall"], total.get("busy", 0), answer["modelled"])
        worst = f"{slowest['label']} {slowest['median']:.0f}" if slowest else ""
        cells = ("" if part is None else f"{part:.0f}" for part in parts)
        lines.append((name, len(commands), static, *cells, worst))
    heads = ["network", "commands", "with static numbers", "run, us", "busy, us", "modelled, us"]
    said = "" if modelled else "\n\nThe static profiles have no modelled times."
    return rows([*heads, "the longest, us"], lines) + said


def _operators(steps: dict[str, Done]) -> str:
    columns = {f"vknn {name}": answer for name, answer in steps["operators"].answers()}
    for _, answer in steps["torch"].answers() if "torch" in steps else ():
        columns |= {f"torch {k}": v for k, v in answer.items() if isinstance(v, dict)}
    cases = list(dict.fromkeys(case for answer in columns.values() for case in answer))
    lines = []
    for case in cases:
        times = [answer.get(case, {}) for answer in columns.values()]
        lines.append(
            (case, *(_pair(t["min"], t["median"], 1) if "min" in t else "" for t in times))
        )
    head = "Microseconds on the device, least and median; of torch between two events.\n\n"
    return head + rows(["case", *columns], lines)


def _tune(steps: dict[str, Done]) -> str:
    return "\n".join(f"- {o.name}: {o.status}, {o.seconds:.0f} s" for o in steps["tune"].outcomes)


def _pair(least: float, median: float, scale: float) -> str:
    return f"{_number(least * scale)} / {_number(median * scale)}"


def _number(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
