"""Keypoints of several people: the peaks of heat maps, grouped to persons."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer
from vknn.answers.decoder import Reading, decoder
from vknn.answers.keypoints import Maps, between_cells, corner_stride

#: Peaks of a map that are looked at, those with the best scores.
MOST_PEAKS = 64
#: Places on a limb at which its field is looked at; a limb is one where the field of most of them
#: points along it by more than this.
_SAMPLES, _ALONG, _MOST_OF_THEM = 10, 0.05, 0.8


def local_peaks(plane: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Column and row, [n, 2], and value, [n], of what is largest among its 8 neighbours.

    Of at least ``least``, the largest first. Of equal neighbours the first counts.
    """
    height, width = plane.shape
    around = np.pad(plane, 1, constant_values=-np.inf)
    largest = plane >= least
    for row in range(3):
        for column in range(3):
            other = around[row : row + height, column : column + width]
            before = (row, column) < (1, 1)
            if (row, column) != (1, 1):
                largest &= plane > other if before else plane >= other
    y, x = np.nonzero(largest)
    order = np.argsort(-plane[y, x], kind="stable")[:MOST_PEAKS]
    return np.stack([x[order], y[order]], axis=1), plane[y, x][order]


@dataclass(frozen=True, kw_only=True)
class People(Maps):
    """Base of the decoders of several people.

    ``least``: so many points of a person reach the threshold. ``sure``: their mean score at least.
    """

    least: int = members.whole(3, least=1)
    sure: float = members.number(0.0)


@dataclass
class _Person:
    """Peaks of a person: the number of one among those of its map, by keypoint."""

    peaks: dict[int, int] = field(default_factory=dict)


@decoder("keypoints", "limbs")
@dataclass(frozen=True, kw_only=True)
class Limbs(People):
    """Peaks joined by fields that point along limbs (part affinity fields, OpenPose).

    ``fields``: the output with the fields, by default that of the heat maps. ``limbs``: of each the
    keypoints at its ends and the maps of x and y of its field. Limbs are joined to persons in their
    order (Cao et al. 2017, "Realtime Multi-Person 2D Pose Estimation using Part Affinity Fields").
    """

    fields: str | None = members.text(None)
    limbs: tuple[tuple[int, int, int, int], ...] = members.rows(count=4)

    def decode(self, reading: Reading) -> Answer:
        maps = self.maps(reading)
        name = self.fields or self.heatmaps
        planes = reading.planes(name, self.layout)
        highest = max((max(limb[2:]) for limb in self.limbs), default=0)
        ends = max((max(limb[:2]) for limb in self.limbs), default=0)
        if planes.shape[1:] != maps.shape[1:] or highest >= len(planes) or ends >= len(maps):
            raise reading.misfit(name, f"limbs of {maps.shape[2]}x{maps.shape[1]} cells")
        found = [local_peaks(plane, reading.threshold) for plane in maps]
        people: list[_Person] = []
        for first, last, x, y in self.limbs:
            field = np.nan_to_num(planes[[x, y]], nan=0, posinf=0, neginf=0).clip(-1e9, 1e9)
            pairs = _joined(found[first][0], found[last][0], field)
            for begin, end in pairs:
                _add(people, (first, begin), (last, end))
        stride = np.array(reading.place.size) / (maps.shape[2], maps.shape[1])
        made = []
        for person in people:
            spots, scores = np.full((len(maps), 2), np.nan), np.zeros(len(maps))
            for part, peak in person.peaks.items():
                places, values = found[part]
                spots[part] = between_cells(maps[part][None], places[peak][None])[0] * stride
                scores[part] = values[peak]
            made.append((spots, scores))
        return self.answer(made, reading, self.least, self.sure)


def _joined(begins: np.ndarray, ends: np.ndarray, field: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of peaks [n, 2] and [m, 2], each once, that a field [x and y, h, w] joins, best first.

    A pair's score is the mean of the field's part along the line between them.
    """
    if not len(begins) or not len(ends):
        return []
    lines = ends[None, :] - begins[:, None]
    lengths = np.maximum(1e-9, np.linalg.norm(lines, axis=2))
    shares = np.linspace(0, 1, _SAMPLES)[:, None]
    spots = np.rint(begins[:, None, None] + lines[:, :, None] * shares).astype(int)
    along = field[:, spots[..., 1], spots[..., 0]].transpose(1, 2, 3, 0) * lines[:, :, None]
    parts = along.sum(axis=3) / lengths[:, :, None]
    scores = parts.mean(axis=2)
    scores[(parts > _ALONG).mean(axis=2) < _MOST_OF_THEM] = 0
    pairs: list[tuple[int, int]] = []
    while (best := int(scores.argmax())) >= 0 and scores.flat[best] > 0:
        begin, end = divmod(best, scores.shape[1])
        pairs.append((begin, end))
        scores[begin], scores[:, end] = 0, 0
    return pairs


def _add(people: list[_Person], *ends: tuple[int, int]) -> None:
    """A limb's ends, (keypoint, peak) each, put to the person that has one of them.

    Two persons that have one each become one where they have no keypoint both; a person who has
    another peak for an end already stays as it is.
    """
    owners = [p for p in people if any(p.peaks.get(part) == peak for part, peak in ends)]
    if not owners:
        people.append(_Person(dict(ends)))
    elif len(owners) == 1:
        for part, peak in ends:
            owners[0].peaks.setdefault(part, peak)
    elif not owners[0].peaks.keys() & owners[1].peaks.keys():
        owners[0].peaks.update(owners[1].peaks)
        people.remove(owners[1])


@decoder("keypoints", "displacements")
@dataclass(frozen=True, kw_only=True)
class Displacements(People):
    """Peaks, and from each the way to its neighbours in a tree of keypoints (PoseNet, PersonLab).

    ``offsets``: as for heat maps. ``forward``, ``backward``: outputs with the rows' and then the
    columns' moves from each keypoint of a pair of ``tree`` to the other, in pixels of the input.
    Persons are begun at the best peaks that belong to none (Papandreou et al. 2018, "PersonLab").
    ``radius``: points of a kind that are nearer, in pixels, are one and count for the first person.
    """

    offsets: str = members.text()
    forward: str = members.text()
    backward: str = members.text()
    tree: tuple[tuple[int, int], ...] = members.rows()
    radius: float = members.number(20.0, least=0)

    def decode(self, reading: Reading) -> Answer:
        maps = self.maps(reading)
        if max((max(pair) for pair in self.tree), default=0) >= len(maps):
            raise reading.misfit(self.heatmaps, "tree")
        count = len(reading.planes(self.heatmaps, self.layout))
        offsets = self.moves(self.offsets, maps, count, reading)[:, self.first :][:, : len(maps)]
        ways = [
            self.moves(name, maps, len(self.tree), reading)
            for name in (self.forward, self.backward)
        ]
        walk = _Walk(maps, offsets, ways[0], ways[1], corner_stride(maps, reading), self.tree)
        people: list[tuple[np.ndarray, np.ndarray]] = []
        for part, place in _by_score(maps, reading.threshold):
            spot = walk.refined(part, place)
            if not np.isfinite(spot).all() or self._taken(spot, people, part).any():
                continue
            spots, scores = walk.person(part, spot)
            own = np.where(self._taken(spots, people), 0.0, scores)
            if (own >= reading.threshold).sum() >= self.least:
                people.append((spots, own))
            if len(people) == reading.most:
                break
        return self.answer(people, reading, self.least, self.sure)

    def _taken(
        self,
        spots: np.ndarray,
        people: list[tuple[np.ndarray, np.ndarray]],
        part: int | slice = slice(None),
    ) -> np.ndarray:
        """Whether a person has the keypoint there already, of one keypoint or of each."""
        taken = np.zeros(spots.shape[:-1], bool)
        if people:
            others = np.stack([others[part] for others, _ in people])
            taken |= (np.hypot(*np.moveaxis(others - spots, -1, 0)) <= self.radius).any(axis=0)
        return taken


def _by_score(maps: np.ndarray, least: float) -> list[tuple[int, np.ndarray]]:
    """Keypoint and cell of the peaks of all maps, those with the best scores first."""
    found = []
    for part, plane in enumerate(maps):
        places, values = local_peaks(plane, least)
        found += [(float(v), part, place) for v, place in zip(values, places, strict=True)]
    found.sort(key=lambda each: -each[0])
    return [(part, place) for _, part, place in found]


@dataclass(frozen=True)
class _Walk:
    """A way along the tree from one keypoint to all. Places are x, y in pixels of the input."""

    maps: np.ndarray
    offsets: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    stride: np.ndarray
    tree: tuple[tuple[int, int], ...]

    def refined(self, part: int, cell: np.ndarray) -> np.ndarray:
        """The place that a cell (column, row) says its keypoint has."""
        x, y = cell
        return np.asarray(cell * self.stride + self.offsets[::-1, part, y, x])

    def person(self, part: int, spot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places [k, 2] and scores [k] of all keypoints of who has this one; NaN: out of reach."""
        spots, scores = np.full((len(self.maps), 2), np.nan), np.zeros(len(self.maps))
        spots[part], scores[part] = spot, self._score(part, spot)
        for edge, (first, last) in reversed(list(enumerate(self.tree))):
            if np.isnan(spots[first]).any() and not np.isnan(spots[last]).any():
                spots[first] = self._step(spots[last], self.backward[:, edge], first)
                scores[first] = self._score(first, spots[first])
        for edge, (first, last) in enumerate(self.tree):
            if np.isnan(spots[last]).any() and not np.isnan(spots[first]).any():
                spots[last] = self._step(spots[first], self.forward[:, edge], last)
                scores[last] = self._score(last, spots[last])
        return spots, scores

    def _step(self, spot: np.ndarray, moves: np.ndarray, part: int) -> np.ndarray:
        """The place of a neighbour: a move, and twice what the cell there says of its place."""
        x, y = self._cell(spot)
        there = spot + moves[::-1, y, x]
        for _ in range(2):
            if np.isfinite(there).all():
                there = self.refined(part, self._cell(there))
        return there

    def _cell(self, spot: np.ndarray) -> np.ndarray:
        last = np.array([self.maps.shape[2], self.maps.shape[1]]) - 1
        return np.asarray(np.rint(spot / self.stride).clip(0, last).astype(int))

    def _score(self, part: int, spot: np.ndarray) -> float:
        if not np.isfinite(spot).all():
            return 0.0
        x, y = self._cell(spot)
        return float(self.maps[part, y, x])
