"""Costs of a GPU, fitted to times of whole networks.

A run takes ``run`` microseconds, and each of its dispatches ``dispatch`` and the longest of three:
its multiply-adds at the GPU's rate, its bytes at the GPU's rate, and the steps of one lane, which
come one after another however few lanes there are. The costs are fitted as logarithms, so that none
is negative, to the logarithms of the times, so that small networks count as much as large ones;
where the networks say little of a cost, it stays near the one expected of the GPU's nominal rates
(ridge regression: Hoerl and Kennard, 1970; the steps are Levenberg's and Marquardt's).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from .work import KINDS, Work

Logs = np.ndarray
#: Weight of what is expected against the times.
RIDGE = 0.2
#: Rows that are multiplications with weights of a channel of its own: slower by a factor.
GROUPED = KINDS.index("depthwise")


@dataclass(frozen=True)
class Costs:
    """Costs of a GPU in microseconds: of a run; a dispatch with its barriers; a million
    multiply-adds with all lanes busy; a megabyte; a thousand steps of a lane; and a factor for the
    multiply-adds of depthwise and grouped kernels."""

    run: float
    dispatch: float
    macs: float
    megabyte: float
    steps: float
    grouped: float

    @classmethod
    def of_logs(cls, logs: Logs) -> Costs:
        return cls(*(float(value) for value in np.exp(logs)))

    def logs(self) -> Logs:
        return np.log(np.array(astuple(self)))


NAMES = tuple(field.name for field in fields(Costs))
#: How far costs may lie from what is expected, as logarithms: far, where nothing is known.
SPREAD = np.array([2.0, 1.0, 0.7, 0.7, 1.0, 0.7])
#: Parts of the nominal rates that kernels reach, and costs that no data sheet has: as expected.
SHARE_OF_FLOPS, SHARE_OF_BYTES = 0.3, 0.6
USUAL = {"run": 300.0, "dispatch": 6.0, "steps": 3.0, "grouped": 1.5}


def expected(tflops: float, gbytes: float) -> Costs:
    """Costs by nominal rates: 10^12 float32 operations a second, and 10^9 bytes."""
    macs = 2.0 / (tflops * SHARE_OF_FLOPS)
    return Costs(macs=macs, megabyte=1e3 / (gbytes * SHARE_OF_BYTES), **USUAL)


class Workload:
    """Dispatches of several networks as arrays, for fitting."""

    def __init__(self, networks: Mapping[str, Sequence[Work]]) -> None:
        self.names = list(networks)
        rows = [work for name in self.names for work in networks[name]]
        self._starts = np.cumsum([0, *(len(networks[name]) for name in self.names)])[:-1]
        self._counts = np.array([len(networks[name]) for name in self.names], float)
        self._grouped = np.array([work.kind == KINDS[GROUPED] for work in rows])
        self._macs = np.array([work.macs for work in rows]) / 1e6
        self._megabytes = np.array([work.nbytes for work in rows]) / 1e6
        self._steps = np.array([work.steps for work in rows]) / 1e3

    def dispatches(self, costs: Costs) -> np.ndarray:
        """Microseconds of each dispatch, without its ``dispatch``."""
        macs = self._macs * np.where(self._grouped, costs.grouped, 1.0) * costs.macs
        moved = self._megabytes * costs.megabyte
        return np.maximum(np.maximum(macs, moved), self._steps * costs.steps)

    def times(self, costs: Costs) -> np.ndarray:
        """Microseconds of a run of each network."""
        work = np.add.reduceat(self.dispatches(costs), self._starts)
        return costs.run + costs.dispatch * self._counts + work


def fit(
    workload: Workload, times: Mapping[str, float], prior: Logs, without: Sequence[str] = ()
) -> Costs:
    """Costs by which the networks that are not ``without`` take ``times`` (microseconds).

    ``prior``: logarithms of the costs that are expected.
    """
    used = [i for i, n in enumerate(workload.names) if n in times and n not in without]
    wanted = np.log([times[workload.names[i]] for i in used])

    def residuals(logs: Logs) -> np.ndarray:
        found = np.log(workload.times(Costs.of_logs(logs))[used])
        return np.concatenate([found - wanted, RIDGE * (logs - prior) / SPREAD])

    return Costs.of_logs(least_squares(residuals, np.array(prior)))


def least_squares(
    residuals: Callable[[np.ndarray], np.ndarray], start: np.ndarray, rounds: int = 60
) -> np.ndarray:
    """A minimum of the sum of squares near ``start``, by Levenberg's and Marquardt's method."""
    x, damping, small = start, 1e-2, 1e-4
    here = residuals(x)
    for _ in range(rounds):
        slopes = [(residuals(x + small * e) - here) / small for e in np.eye(len(x))]
        jacobian = np.array(slopes).T
        square = jacobian.T @ jacobian
        damped = square + damping * np.diag(np.diag(square) + 1e-9)
        step = np.clip(np.linalg.solve(damped, -jacobian.T @ here), -1, 1)
        there = residuals(x + step)
        gain = here @ here - there @ there
        if gain <= 0:
            damping *= 4
            if damping > 1e8:
                break
            continue
        x, damping = x + step, max(damping / 3, 1e-9)
        done = gain < 1e-9 * (here @ here)
        here = there
        if done:
            break
    return x


def errors(workload: Workload, times: Mapping[str, float], costs: Costs) -> dict[str, float]:
    """Relative error of each network that has a time: 0.1 is ten per cent too long."""
    found = workload.times(costs)
    return {
        name: float(found[i] / times[name] - 1)
        for i, name in enumerate(workload.names)
        if name in times
    }


@dataclass(frozen=True)
class Subject:
    """A GPU to be fitted: ``family`` names its like, from which costs are expected too; ``chip`` is
    the same for two publications of one GPU."""

    name: str
    family: str
    chip: str
    nominal: Costs
    workload: Workload
    times: Mapping[str, float]


def fit_all(subjects: Sequence[Subject], without: Sequence[str] = ()) -> dict[str, Costs]:
    """Costs of each GPU: first near those of its nominal rates, then near those of its nominal
    rates corrected by what the other GPUs of its family were found to have (medians)."""
    off = {}
    for s in subjects:
        nominal = s.nominal.logs()
        off[s.name] = fit(s.workload, s.times, nominal, without).logs() - nominal
    found = {}
    for s in subjects:
        kin = [o for o in subjects if o.family == s.family and o.chip != s.chip]
        shift = np.median([off[o.name] for o in kin], axis=0) if kin else 0.0
        found[s.name] = fit(s.workload, s.times, s.nominal.logs() + shift, without)
    return found


@dataclass(frozen=True)
class Fitted:
    """A GPU's costs, the networks' errors with all of them, and errors of networks left out: each
    network's of all the rounds."""

    costs: Costs
    inside: Mapping[str, float]
    outside: Mapping[str, Sequence[float]]

    @property
    def left_out(self) -> list[float]:
        """Absolute errors of all that was left out."""
        return [abs(error) for found in self.outside.values() for error in found]

    @property
    def worst(self) -> tuple[str, float]:
        """The network that was missed the most, and by how much."""
        each = [(name, error) for name, found in self.outside.items() for error in found]
        return max(each, key=lambda pair: abs(pair[1]))


def cross_validate(subjects: Sequence[Subject], rounds: int, seed: int = 0) -> dict[str, Fitted]:
    """Fits, and their errors on networks that they have not seen.

    In each round the networks are parted at random into thirds; each third is left out of the fits
    of all GPUs at once, so that none knows it by way of its family.
    """
    names = sorted({name for s in subjects for name in s.workload.names})
    outside: dict[str, dict[str, list[float]]] = {s.name: {} for s in subjects}
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        order = [str(name) for name in random.permutation(names)]
        for part in (order[k::3] for k in range(3)):
            found = fit_all(subjects, part)
            for s in subjects:
                for name, error in errors(s.workload, s.times, found[s.name]).items():
                    if name in part:
                        outside[s.name].setdefault(name, []).append(error)
    costs = fit_all(subjects)
    return {
        s.name: Fitted(costs[s.name], errors(s.workload, s.times, costs[s.name]), outside[s.name])
        for s in subjects
    }
