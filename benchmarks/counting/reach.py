"""Ratios of ncnn's modelled time to vknn's, from the dispatches of both."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vknn.profiling.modelled import ASSUMPTIONS

from .code_model import SCALED
from .report import ENGINES, markdown

Document = Mapping[str, Any]
#: Part of what a dispatch with its barriers costs that is left where it stands behind none: by what
#: static profiles assume of both. Fitted costs do not tell, as ncnn's dispatches all have barriers.
WITHOUT_BARRIER = ASSUMPTIONS.dispatch / (ASSUMPTIONS.dispatch + ASSUMPTIONS.barrier)


@dataclass(frozen=True)
class Goal:
    """A null device's goal: the geometric mean over all networks, and the least of them.

    ``card``: the GPU whose fitted cost of a dispatch is taken.
    """

    card: str
    mean: float
    least: float


GOALS = {
    "navi21": Goal("RX 6900 XT", 2.0, 1.2),
    "navi31": Goal("RX 6900 XT", 2.0, 1.2),
    "nv172": Goal("RTX 3090 (newer)", 2.0, 1.2),
    "a740": Goal("Adreno 740", 1.5, 1.0),
    "m1": Goal("M1", 1.5, 1.0),
    "raven": Goal("Vega 8", 1.5, 1.0),
}


@dataclass(frozen=True)
class Reach:
    """A device in one precision. Times are ncnn's by vknn's: over 1, vknn is the faster.

    Attributes:
        device: The null device.
        precision: vknn's; ncnn runs as :data:`GOALS` says.
        times: By network; None where one of the engines has no modelled time.
        turned: Networks in which another engine is ahead once latencies are scaled.
    """

    device: str
    precision: str
    times: Mapping[str, float | None]
    turned: Sequence[str]

    @property
    def mean(self) -> float:
        """Geometric mean of the times that are known; 0 without any."""
        known = [t for t in self.times.values() if t]
        return statistics.geometric_mean(known) if known else 0.0

    @property
    def least(self) -> float:
        """The least of the times that are known; 0 without any."""
        return min((t for t in self.times.values() if t), default=0.0)

    @property
    def reached(self) -> bool:
        """Whether all networks have a time, and mean and least are what they are to be."""
        goal = GOALS[self.device]
        whole = all(time is not None for time in self.times.values())
        return whole and self.mean >= goal.mean and self.least >= goal.least


def reach_of(document: Document, dispatch: float) -> Reach:
    """Times of a document of modelled.py; ``dispatch``: microseconds of a dispatch with its
    barriers, beside what its code takes."""
    times: dict[str, float | None] = {}
    turned = []
    for network, engines in document["networks"].items():
        ours, theirs = (engines.get(engine, {}) for engine in ENGINES)
        time = _times(ours, theirs, dispatch, None)
        times[network] = time
        scaled = [_times(ours, theirs, dispatch, f"{factor:g}") for factor in SCALED]
        if time and any(s and (s > 1) != (time > 1) for s in scaled):
            turned.append(network)
    return Reach(document["null"], document["precision"], times, turned)


def _times(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], dispatch: float, scale: str | None
) -> float | None:
    whole = []
    for side in (theirs, ours):
        code = side.get("code_us") if scale is None else side.get("code_scaled_us", {}).get(scale)
        if code is None:
            return None
        whole.append(code + dispatch * _gaps(side))
    return float(whole[0] / whole[1])


def _gaps(side: Mapping[str, Any]) -> float:
    """Dispatches, those that stand behind no barrier for the part of one that is no barrier's."""
    behind: int = side["waiting"]
    return behind + WITHOUT_BARRIER * (side["dispatches"] - behind)


def reach_table(found: Sequence[Reach], dispatches: Mapping[str, float]) -> str:
    """A table of networks by devices in Markdown, with means, goals and the cost of a dispatch."""
    heads = ["network", *(f"{r.device} {r.precision}" for r in found)]
    networks = list(dict.fromkeys(n for r in found for n in r.times))
    rows = [[n, *(_cell(r, n) for r in found)] for n in networks]
    goals = [GOALS[r.device] for r in found]
    rows += [
        [
            "geometric mean (goal)",
            *_pairs((r.mean, g.mean) for r, g in zip(found, goals, strict=True)),
        ],
        ["least (goal)", *_pairs((r.least, g.least) for r, g in zip(found, goals, strict=True))],
        ["reached", *("yes" if r.reached else "no" for r in found)],
        ["us a dispatch", *(f"{dispatches[r.device]:.1f}" for r in found)],
    ]
    return markdown(heads, rows)


def _pairs(values: Iterable[tuple[float, float]]) -> list[str]:
    return [f"{value:.2f} ({goal:g})" for value, goal in values]


def _cell(reach: Reach, network: str) -> str:
    time = reach.times.get(network)
    mark = "*" if network in reach.turned else ""
    return "-" if time is None else f"{time:.2f}{mark}"
