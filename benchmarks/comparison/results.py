"""Results of a comparison, the figures that follow from them, and the goals."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: The engines, by the names that results use.
VKNN, NCNN, NCNN_DEFAULT, NCNN_CPU = "vknn", "ncnn", "ncnn default", "ncnn cpu"
EMPTY, WARM = "empty", "warm"

GEOMETRIC_MEAN, LEAST_RATIO, COLD_SHARE, MEMORY_SHARE, OVERHEAD = 3.0, 1.5, 0.5, 1.0, 0.3e-3


@dataclass(frozen=True)
class Kernel:
    """All dispatches of one kernel in a run. ``ideal``: seconds at the device's peaks."""

    name: str
    dispatches: int
    seconds: float
    share: float
    flops: int
    nbytes: int
    ideal: float

    @property
    def gflops(self) -> float:
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def of_limit(self) -> float:
        """The time it would take at the device's peaks over the time it takes."""
        return self.ideal / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Network:
    """One network's figures: seconds of each run by engine; of each first answer by state of the
    caches and engine; peak bytes by engine. What failed is in ``errors``."""

    name: str
    runs: dict[str, list[float]] = field(default_factory=dict)
    difference: float | None = None
    cold: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    rss: dict[str, int] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def least_ratio(self) -> float | None:
        """ncnn's shortest run over ours, both on Vulkan in 32-bit floats: above 1 we are faster."""
        return _ratio(self.runs, min)

    @property
    def median_ratio(self) -> float | None:
        return _ratio(self.runs, statistics.median)

    def cold_share(self, caches: str) -> float | None:
        """Our time to the first answer over ncnn's, the shortest of each."""
        times = self.cold.get(caches, {})
        if not times.get(VKNN) or not times.get(NCNN):
            return None
        return min(times[VKNN]) / min(times[NCNN])

    @property
    def memory_share(self) -> float | None:
        """Our peak device memory over ncnn's."""
        if not self.memory.get(VKNN) or not self.memory.get(NCNN):
            return None
        return self.memory[VKNN] / self.memory[NCNN]


@dataclass(frozen=True)
class Goal:
    """``ok`` is None where it was not measured."""

    text: str
    found: str
    ok: bool | None


@dataclass(frozen=True)
class Comparison:
    """A whole comparison. ``limits``: Limits as a mapping; ``overhead``: seconds of the host a run,
    beyond the device's."""

    device: str
    date: str
    versions: dict[str, str]
    networks: list[Network]
    limits: dict[str, Any] = field(default_factory=dict)
    overhead: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def means(self) -> tuple[float | None, float | None]:
        """Geometric means of the ratios: of shortest runs, of medians."""
        return (
            geometric_mean(n.least_ratio for n in self.networks),
            geometric_mean(n.median_ratio for n in self.networks),
        )

    def goals(self) -> list[Goal]:
        """The goals; the worse of shortest and median counts. What failed to run, fails."""
        return [*_speed_goals(self), *_share_goals(self.networks), _overhead_goal(self.overhead)]

    def to_json(self) -> str:
        """JSON of everything, with the figures that follow; times in seconds."""
        document = asdict(self)
        for entry, network in zip(document["networks"], self.networks, strict=True):
            entry["least_ratio"] = network.least_ratio
            entry["median_ratio"] = network.median_ratio
        least, median = self.means()
        document["geometric_mean"] = {"least": least, "median": median}
        document["goals"] = [asdict(goal) for goal in self.goals()]
        return json.dumps(document, indent=1)


def read(path: Path) -> Comparison:
    """A comparison that :meth:`Comparison.to_json` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    networks = []
    for entry in document.pop("networks"):
        kernels = [Kernel(**k) for k in entry.pop("kernels")]
        derived = ("least_ratio", "median_ratio")
        networks.append(
            Network(**{k: v for k, v in entry.items() if k not in derived}, kernels=kernels)
        )
    for derived_key in ("geometric_mean", "goals"):
        document.pop(derived_key, None)
    return Comparison(networks=networks, **document)


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """Geometric mean of those that are known and positive; None without any."""
    known = [math.log(r) for r in ratios if r is not None and r > 0]
    return math.exp(statistics.fmean(known)) if known else None


def _ratio(runs: Mapping[str, Sequence[float]], statistic: Any) -> float | None:
    if not runs.get(VKNN) or not runs.get(NCNN):
        return None
    return float(statistic(runs[NCNN]) / statistic(runs[VKNN]))


def _speed_goals(comparison: Comparison) -> list[Goal]:
    networks = comparison.networks
    means = [m for m in comparison.means() if m is not None]
    ratios = [r for n in networks for r in (n.least_ratio, n.median_ratio) if r is not None]
    failed = [n.name for n in networks if n.least_ratio is None]
    mean, least = min(means, default=None), min(ratios, default=None)
    slowest = min(
        (n for n in networks if n.least_ratio and n.median_ratio),
        key=lambda n: min(n.least_ratio or 0.0, n.median_ratio or 0.0),
        default=None,
    )
    note = f"; failed: {', '.join(failed)}" if failed else ""
    where = f" ({slowest.name})" if slowest else ""
    return [
        Goal(
            f"geometric mean at least {GEOMETRIC_MEAN:g} times as fast",
            f"{_number(mean)}{note}",
            None if mean is None else mean >= GEOMETRIC_MEAN and not failed,
        ),
        Goal(
            f"no network below {LEAST_RATIO:g}",
            f"{_number(least)}{where}{note}",
            None if least is None else least >= LEAST_RATIO and not failed,
        ),
    ]


def _share_goals(networks: Sequence[Network]) -> list[Goal]:
    wanted = [
        (f"cold start, {caches} caches, at most {COLD_SHARE:g} of ncnn's", COLD_SHARE, shares)
        for caches in (EMPTY, WARM)
        for shares in [{n.name: n.cold_share(caches) for n in networks}]
    ]
    memory = {n.name: n.memory_share for n in networks}
    wanted.append(("peak device memory no larger than ncnn's", MEMORY_SHARE, memory))
    goals = []
    for text, limit, shares in wanted:
        known = {name: s for name, s in shares.items() if s is not None}
        if not known:
            goals.append(Goal(text, "not measured", None))
            continue
        worst = max(known, key=lambda name: known[name])
        over = [name for name, share in known.items() if share > limit]
        found = f"{known[worst]:.2f} at worst ({worst})"
        if len(known) < len(shares):
            found += f", {len(shares) - len(known)} not measured"
        if over:
            found += f"; above: {', '.join(over)}"
        goals.append(Goal(text, found, not over and len(known) == len(shares)))
    return goals


def _overhead_goal(overhead: Mapping[str, float]) -> Goal:
    text = f"host overhead of a run below {1e3 * OVERHEAD:g} ms beyond the device's time"
    if not overhead:
        return Goal(text, "not measured", None)
    spent = overhead["host"] + overhead["submit"]
    found = (
        f"{1e3 * spent:.3f} ms on {overhead['dispatches']:.0f} dispatches "
        f"({1e3 * overhead['host']:.3f} of it vknn's own, the rest submit and wait)"
    )
    return Goal(text, found, spent < OVERHEAD)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"
