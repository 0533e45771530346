"""Report of choices: how near the candidates that are taken are to the best by modelled time.

Documents are what child.py answers: {"device": name, "choices": [{"problem", "form", "estimates":
{candidate: us}, "times": {candidate: us or None}, "taken": {network: {candidate: layers}}}]}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: A candidate that takes at most this many times as long as the best is as good.
GOOD = 1.10
#: Estimates by the least one up to which candidates are compiled.
NEAR = 1.6
#: A fill, by a dispatch with its barrier: it begins as one behind no barrier does.
FILL = 3 / 8
#: Columns of the table of what is kept.
SUMMARY_HEADS = ("", "within 10 %", "time lost", "further from the best")
#: What stands in place of a form where nodes are one chain or apart.
CHAIN = "chain"


@dataclass(frozen=True)
class Pick:
    """A candidate that is taken for a problem, and the best one. Times are microseconds.

    ``layers``: those that take it, by network. ``again``: other picks have their times, too, as
    of nodes that are a chain or apart.
    """

    problem: str
    taken: str
    time: float
    best: str
    best_time: float
    layers: Mapping[str, int]
    again: bool = False

    @property
    def ratio(self) -> float:
        """Time by that of the best candidate, 1 at least."""
        return self.time / self.best_time

    @property
    def good(self) -> bool:
        """Whether it is within 10 % of the best."""
        return self.ratio <= GOOD

    @property
    def lost(self) -> float:
        """Microseconds that all layers together lose."""
        return (self.time - self.best_time) * sum(self.layers.values())

    @property
    def key(self) -> str:
        """Name of the problem and the candidate, by which known exceptions are listed."""
        return f"{self.problem} | {self.taken}"


def picks_of(choices: Sequence[Mapping[str, Any]], fill: float = 0.0) -> list[Pick]:
    """Picks of a document's choices, the greatest loss first.

    A problem that networks take different candidates for is several picks; one whose candidate has
    no modelled time, or only copies, is none. ``fill``: microseconds of the one that clears all
    counters of a network. Candidates that count are no rivals in a network that takes none of
    them, if all of them together save no more than that.
    """
    plain, found = _without_counters(choices, fill), []
    for choice in choices:
        known = {name: time for name, time in choice["times"].items() if time}
        if not known:
            continue
        names = {name for counts in choice["taken"].values() for name in counts}
        for name in sorted(names & set(known)):
            users: dict[str, dict[str, int]] = {}
            for network, counts in choice["taken"].items():
                if name in counts:
                    best = _best(choice, known, counting=network not in plain)
                    users.setdefault(best, {})[network] = counts[name]
            for best, own in users.items():
                times = known[name], best, known[best]
                found.append(Pick(choice["problem"], name, *times, own, choice["form"] == CHAIN))
    return sorted(found, key=lambda pick: -pick.lost)


def _best(choice: Mapping[str, Any], known: Mapping[str, float], *, counting: bool) -> str:
    """The candidate of the least time; without ``counting`` of those that take no counters."""
    left = set(known) - (set() if counting else set(choice.get("counting", ())))
    return min(left or set(known), key=lambda name: (known[name], name))


def _without_counters(choices: Sequence[Mapping[str, Any]], fill: float) -> set[str]:
    """Networks that take no counters, where all that would save together are not worth a fill."""
    saved: dict[str, float] = {}
    counts = set()
    for choice in choices:
        known = {name: time for name, time in choice["times"].items() if time}
        counting = set(choice.get("counting", ()))
        for network, names in choice["taken"].items():
            saved.setdefault(network, 0.0)
            if counting & set(names):
                counts.add(network)
            elif known and choice["form"] != CHAIN:
                best, own = (known[_best(choice, known, counting=c)] for c in (True, False))
                saved[network] += (own - best) * sum(names.values())
    return {network for network, time in saved.items() if time <= fill} - counts


def share(picks: Sequence[Pick]) -> float:
    """Part of the picks that are within 10 % of the best, 1 without any."""
    return sum(pick.good for pick in picks) / len(picks) if picks else 1.0


def losses(picks: Iterable[Pick]) -> dict[str, tuple[float, float]]:
    """Microseconds of each network's picks, and of the best candidates in their place.

    What chains might save comes off the best.
    """
    found: dict[str, tuple[float, float]] = {}
    for pick in picks:
        for network, count in pick.layers.items():
            time, best = found.get(network, (0.0, 0.0))
            own = 0.0 if pick.again else count * pick.time
            found[network] = time + own, best + own - count * (pick.time - pick.best_time)
    return found


def exceptions(picks: Iterable[Pick]) -> dict[str, float]:
    """Ratios of the picks that are further from the best, by key."""
    return {pick.key: round(pick.ratio, 2) for pick in picks if not pick.good}


def summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """Summary of a device's choices, as it is kept: numbers of picks and times by precision, and
    the picks that are further from the best."""
    found: dict[str, Any] = {"null": document["null"], "device": document["device"]}
    found["dispatch"], found["precisions"] = document["dispatch"], {}
    for precision, choices in document["precisions"].items():
        picks = picks_of(choices, FILL * document["dispatch"])
        times = losses(picks).values()
        found["precisions"][precision] = {
            "picks": len(picks),
            "good": sum(pick.good for pick in picks),
            "time": round(sum(time for time, _ in times), 1),
            "best": round(sum(best for _, best in times), 1),
            "far": [[p.problem, p.taken, p.time, p.best, p.best_time] for p in picks if not p.good],
        }
    return found


def summary_rows(summaries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of SUMMARY_HEADS of what is kept of devices, one for each precision."""
    rows = []
    for kept in summaries:
        for precision, found in kept["precisions"].items():
            part = f"{found['good']:,} of {found['picks']:,}"
            lost = f"{100 * (found['time'] / found['best'] - 1):.1f}%"
            far = [
                f"{_operator(problem)}: {taken} ({time / best_time:.2f} x {best})"
                for problem, taken, time, best, best_time in found["far"]
            ]
            rows.append([f"{kept['null']} {precision}", part, lost, "; ".join(far) or "-"])
    return rows


def _operator(problem: str) -> str:
    """A problem in few words: its operator and the sizes of its first input."""
    name = problem.partition("(")[0]
    shape = problem.partition("): ")[2].partition("]")[0].partition("[")[2].replace(", ", "x")
    return f"{name} of {shape}" if shape else name


def text(picks: Sequence[Pick], *, rows: int | None = None, only_far: bool = False) -> str:
    """Table of picks, share and losses; ``only_far``: of those not within 10 %."""
    shown = [pick for pick in picks if not (only_far and pick.good)][:rows]
    lines = ["  taken us    best us  ratio  layers  taken -> best: problem"]
    lines += [
        f"{p.time:10.1f} {p.best_time:10.1f} {p.ratio:6.2f} {sum(p.layers.values()):7d}  "
        f"{p.taken} -> {p.best}: {p.problem}"
        for p in shown
    ]
    good = sum(pick.good for pick in picks)
    lines.append(f"within 10 %: {good} of {len(picks)} ({100 * share(picks):.1f} %)")
    for network, (time, best) in losses(picks).items():
        lost = 100 * (time / best - 1)
        lines.append(f"{network:>20}: {time:9.1f} us, best {best:9.1f} us, {lost:5.1f} % lost")
    return "\n".join(lines)
