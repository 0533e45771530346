"""Comparison of the profiles of two sides.

The runs of one process are alike: it got its memory, its threads and its share of the machine once.
So where there are several processes a side, each is one observation, by its medians; and where
these ran in turn, pairs of neighbours are compared, which the machine treated alike, run by run
where their runs took turns as well. From one
process a side nothing is known of how processes differ: intervals are widened by what they differ
by as a rule.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.profiling.comparison import statistics
from vknn.profiling.comparison.matching import Matched, common_layers, match, pooled
from vknn.profiling.comparison.result import (
    CANNOT_TELL,
    FASTER,
    ONLY_AFTER,
    ONLY_BEFORE,
    SAME,
    SLOWER,
    ProfileComparison,
    Row,
)
from vknn.profiling.comparison.samples import Samples, samples_of
from vknn.profiling.labels import shortened
from vknn.profiling.profile import Profile

Source = Profile | str | os.PathLike[str]
#: Above these p values nothing is said: of the whole, and of rows after Holm.
WHOLE_LEVEL, ROWS_LEVEL = 0.01, 0.05
#: Within this of 1 the whole interval has to lie for "same".
SAME_WITHIN = 0.03
#: Fewer processes a side cannot tell anything by themselves: their runs are looked at.
FEWEST_PROCESSES = 4
#: By so much two processes of the same network differ without any reason that could be found.
BETWEEN_PROCESSES = 0.05


def compare(
    before: Source | Sequence[Source],
    after: Source | Sequence[Source],
    *,
    paired: bool = False,
    in_turn: bool = False,
) -> ProfileComparison:
    """Comparison of profiles layer by layer, with a word for each that chance is no excuse for.

    Layers are matched by name and shape, sets of layers where kernels compute several at once.

    Args:
        before: A profile, a ``.vkprof`` file, or several of the same, a process each.
        after: The same of the other side.
        paired: Whether the first of ``before`` ran beside the first of ``after``, and so on.
        in_turn: Whether the runs of such pairs took turns.

    Raises:
        vknn.VknnError: There is no layer that both sides have, a side's profiles are not of the
            same plans, or a file is damaged.
    """
    sides = (_loaded(before), _loaded(after))
    if (paired or in_turn) and len(sides[0]) != len(sides[1]):
        raise VknnError(f"{len(sides[0])} profiles and {len(sides[1])} make no pairs")
    abouts = [_about(profiles[0]) for profiles in sides]
    _check_common(*abouts)
    rows, places = pooled(*match(*abouts), _weights(sides))
    a, b = (samples_of(p, place, len(rows)) for p, place in zip(sides, places, strict=True))
    tests = _Tests(a, b, paired or in_turn, in_turn)
    found = [tests.row(number, row) for number, row in enumerate(rows)]
    return ProfileComparison(
        before=_title(sides[0][0], abouts[0]),
        after=_title(sides[1][0], abouts[1]),
        unit=tests.unit,
        units=tests.counts,
        whole=tests.whole(),
        rows=tuple(_held(found)),
        parts={name: (a.parts[name], b.parts[name]) for name in a.parts},
        notes=tuple(_notes(abouts, tests, len(rows))),
    )


def _loaded(source: Source | Sequence[Source]) -> list[Profile]:
    sources = [source] if isinstance(source, (Profile, str, os.PathLike)) else list(source)
    if not sources:
        raise VknnError("there is no profile to compare")
    found: list[Profile] = []
    for one in sources:
        profile = one if isinstance(one, Profile) else Profile.load(one)
        if profile.about is None:
            raise VknnError(f"the profile of {profile.model} was not made by vknn.profile")
        if found and _commands(profile) != _commands(found[0]):
            raise VknnError(
                f"the profiles of {shortened(profile.model)} on one side are of different plans: "
                "take those of one setting, one model and one device"
            )
        # What is said of the plans is kept once: there may be many processes.
        found.append(replace(profile, about=found[0].about) if found else profile)
    return found


def _commands(profile: Profile) -> list[Any]:
    return [segment["commands"] for segment in _about(profile)["segments"]]


def _about(profile: Profile) -> dict[str, Any]:
    return profile.about or {}


def _check_common(a: dict[str, Any], b: dict[str, Any]) -> None:
    if common_layers(a, b):
        return
    models = [shortened(d["model"]["name"]) for d in (a, b)]
    names = [{layer["name"] for layer in d["layers"]} for d in (a, b)]
    if names[0] & names[1]:
        raise VknnError(
            f"{models[0]} and {models[1]}: layers have the same names, but none has the same shape "
            "on both sides: give both inputs of the same shapes"
        )
    raise VknnError(f"{models[0]} and {models[1]} have no layer in common: these are other models")


def _weights(sides: Sequence[Sequence[Profile]]) -> list[np.ndarray]:
    """Seconds of each command of a side, of one process, by which small rows are found."""
    return [np.array([t.median for t in profiles[0].timings]) for profiles in sides]


@dataclass(eq=False)
class _Tests:
    """Tests of two sides' samples."""

    a: Samples
    b: Samples
    paired: bool
    in_turn: bool

    def __post_init__(self) -> None:
        few = min(self.a.processes, self.b.processes) < FEWEST_PROCESSES
        self.paired &= not few
        self.unit = "runs" if few else "pairs" if self.paired else "processes"
        self.widening = 1 + BETWEEN_PROCESSES if few else 1.0
        self._times = [s.pooled() if few else s.medians() for s in (self.a, self.b)]
        self.counts = (len(self._times[0][1]), len(self._times[1][1]))
        self._ratios = self.a.ratios(self.b) if self.paired and self.in_turn else None

    def whole(self) -> Row:
        """The row of plain runs, with its word."""
        ratios = None if self._ratios is None else self._ratios[1]
        return _worded(self._tested(self._times[0][1], self._times[1][1], ratios), WHOLE_LEVEL)

    def row(self, number: int, matched: Matched) -> Row:
        """A row with its plain p value and no word."""
        a, b = (rows[:, number] for rows, _ in self._times)
        about = (tuple(matched.layers), (tuple(matched.kernels[0]), tuple(matched.kernels[1])))
        if not matched.on_both:
            if matched.kernels[0]:
                return Row(*about, float(np.median(a)), None, word=ONLY_BEFORE)
            return Row(*about, None, float(np.median(b)), word=ONLY_AFTER)
        ratios = None if self._ratios is None else self._ratios[0][:, number]
        tested = self._tested(a, b, ratios)
        return replace(tested, layers=about[0], kernels=about[1])

    def _tested(self, a: np.ndarray, b: np.ndarray, ratios: np.ndarray | None) -> Row:
        """Ratio, interval and p; ``ratios``: of pairs whose runs took turns."""
        middle = (float(np.median(a)), float(np.median(b)))
        bare = Row((), ((), ()), *middle)
        if min(a.min(), b.min()) <= 0 or min(self.counts) < 2:
            divisible = min(middle) > 0
            return replace(bare, ratio=middle[1] / middle[0] if divisible else None)
        if self.paired:
            if ratios is None or not np.isfinite(ratios).all() or ratios.min() <= 0:
                ratios = b / a
            found, p = statistics.paired_ratio(ratios), statistics.signed_sum(np.log(ratios))
        else:
            found, p = statistics.ratio(a, b), statistics.mann_whitney(a, b)
        low, high = found[1] / self.widening, found[2] * self.widening
        return replace(bare, ratio=found[0], low=low, high=high, p=p)


def _held(rows: Sequence[Row]) -> list[Row]:
    """Rows with p values held against their number, and words."""
    tested = [n for n, row in enumerate(rows) if row.ratio is not None]
    adjusted = statistics.holm(np.array([rows[n].p for n in tested]))
    found = list(rows)
    for n, p in zip(tested, adjusted, strict=True):
        found[n] = _worded(replace(rows[n], p=float(p)), ROWS_LEVEL)
    return found


def _worded(row: Row, level: float) -> Row:
    word = CANNOT_TELL
    if row.low is not None and row.high is not None:
        if row.p < level and row.low > 1:
            word = SLOWER
        elif row.p < level and row.high < 1:
            word = FASTER
        elif row.low >= 1 / (1 + SAME_WITHIN) and row.high <= 1 + SAME_WITHIN:
            word = SAME
    return replace(row, word=word)


def _title(profile: Profile, about: dict[str, Any]) -> str:
    options = about["options"]
    off = f" without {' '.join(options['disabled'])}" if options["disabled"] else ""
    text = f"{profile.model} on {profile.device}, {options['precision']}{off}"
    return shortened(text, 200)


def _notes(abouts: Sequence[dict[str, Any]], tests: _Tests, rows: int) -> list[str]:
    a, b = abouts
    notes = []
    if tests.unit == "runs":
        notes.append(
            "runs of one process are alike, so intervals are wider by "
            f"{BETWEEN_PROCESSES:.0%}: take {FEWEST_PROCESSES} processes a side or more "
            "(`vknn profile --versus` runs them in turn)"
        )
    if min(tests.counts) < 2:
        notes.append("one run a side tells nothing: take more with --runs")
    elif statistics.least_p(*tests.counts, tests.paired) >= min(
        WHOLE_LEVEL, ROWS_LEVEL / max(1, rows)
    ):
        notes.append(
            f"{min(tests.counts)} {tests.unit} are too few to call any of {rows} layers faster or "
            "slower: take more"
        )
    if a["model"]["hash"] != b["model"]["hash"]:
        both = common_layers(a, b)
        counts = (len(a["layers"]), len(b["layers"]))
        notes.append(
            f"the models differ: {both} layers are the same, of {counts[0]} and {counts[1]}"
        )
    names = [(d["device"] or {}).get("name", "NumPy") for d in abouts]
    if names[0] != names[1]:
        notes.append(f"the devices differ: {shortened(names[0])} and {shortened(names[1])}")
    return notes
