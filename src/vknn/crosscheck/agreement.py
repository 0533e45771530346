"""Agreement of answers: the best classes of classifiers, the boxes of detectors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers import Found, Placement, Recipe, decode, find_recipe
from vknn.answers.looking import NO_RECIPE
from vknn.answers.nms import overlaps
from vknn.errors import VknnError
from vknn.session import Session

#: Overlap from which on two boxes may be the same thing's.
IOU = 0.5
#: Elements of a vector at most that is looked at as scores.
_MOST_SCORES = 1 << 20


@dataclass(frozen=True)
class ClassAgreement:
    """Best classes of an output of scores.

    Attributes:
        output: Its name.
        examples: Rows of scores.
        top1: Share of the examples with the same best class.
        top5: Share of the reference's five best classes that are among the device's five best.
    """

    output: str
    examples: int
    top1: float
    top5: float


@dataclass(frozen=True)
class BoxAgreement:
    """Boxes of one class that overlap by an IoU of at least 0.5, matched from the best overlap on.

    Attributes:
        expected: Boxes of the reference.
        actual: Boxes of the device.
        matched: Pairs of them.
        mean_iou: Of the pairs; 1 where there are none on either side.
        least_iou: The least of a pair, likewise.
        score_error: The largest difference of the scores of a pair.
        missed: The reference's boxes that the device does not have, in words.
        extra: The device's that the reference does not have.
    """

    expected: int
    actual: int
    matched: int
    mean_iou: float
    least_iou: float
    score_error: float
    missed: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnswerAgreement:
    """Agreement of what the device and the reference answer.

    Attributes:
        classes: One for each output of scores.
        boxes: Of a detector whose recipe is known, else None.
    """

    classes: tuple[ClassAgreement, ...] = ()
    boxes: BoxAgreement | None = None

    def lines(self) -> list[str]:
        """The agreement in words, a line an output."""
        made = [
            f"{c.output}: top-1 agreement {c.top1:.2%}, top-5 {c.top5:.2%} of {c.examples}"
            for c in self.classes
        ]
        if self.boxes is not None:
            b = self.boxes
            made.append(
                f"boxes: {b.matched} of {b.expected} matched ({b.actual} on the device), IoU "
                f"{b.mean_iou:.4f} on average, {b.least_iou:.4f} at least, scores within "
                f"{b.score_error:.2g}"
            )
            made += [f"missed: {text}" for text in b.missed]
            made += [f"extra: {text}" for text in b.extra]
        return made


def agreement_of(
    session: Session,
    recipe: Recipe | str | os.PathLike[str] | None,
    actual: Mapping[str, Any],
    expected: Mapping[str, Any],
) -> AnswerAgreement | None:
    """Agreement of two runs' outputs; None of those that are neither scores nor boxes.

    ``recipe`` None: the one that is found for the model, where it fits. Raises VknnError where a
    recipe that was given does not.
    """
    chosen, own = _recipe(session, recipe)
    if chosen is not None and chosen.task in ("detection", "keypoints"):
        try:
            mine, right = (_things(session, chosen, outputs) for outputs in (actual, expected))
            return AnswerAgreement(boxes=match_boxes(mine, right))
        except VknnError:
            if own:
                raise
    many = chosen is not None and chosen.task == "classification"
    classes = tuple(
        top_agreement(actual[name], right, name)
        for name, right in expected.items()
        if name in actual and _is_scores(right, many) and actual[name].shape == right.shape
    )
    return AnswerAgreement(classes) if classes else None


def top_agreement(actual: np.ndarray, expected: np.ndarray, output: str = "") -> ClassAgreement:
    """Agreement of scores [..., classes], or of a vector with axes of 1 behind it.

    Where the reference has equal scores, each of their classes is right.
    """
    if expected.size == max(expected.shape, default=1):
        actual, expected = actual.reshape(1, -1), expected.reshape(1, -1)
    count = expected.shape[-1]
    a = np.nan_to_num(actual.reshape(-1, count).astype(np.float64), nan=-np.inf)
    b = np.nan_to_num(expected.reshape(-1, count).astype(np.float64), nan=-np.inf)
    best = np.take_along_axis(b, a.argmax(1)[:, None], 1)[:, 0] == b.max(1)
    few = min(5, count)
    # The least of the reference's best: a class with that score is one of them.
    bound = -np.sort(-b, axis=1)[:, few - 1 : few]
    taken = np.argsort(-a, axis=1, kind="stable")[:, :few]
    common = (np.take_along_axis(b, taken, 1) >= bound).mean()
    return ClassAgreement(output, len(b), float(best.mean()), float(common))


def match_boxes(
    actual: Sequence[Found], expected: Sequence[Found], iou: float = IOU
) -> BoxAgreement:
    """Agreement of the things that two answers hold; those without boxes are left out."""
    mine = [thing for thing in actual if thing.box is not None]
    right = [thing for thing in expected if thing.box is not None]
    pairs = _pairs(mine, right, iou)
    shares = [share for _, _, share in pairs]
    scores = [abs(mine[i].score - right[j].score) for i, j, _ in pairs]
    seen, met = {i for i, _, _ in pairs}, {j for _, j, _ in pairs}
    none = 1.0 if not mine and not right else 0.0
    return BoxAgreement(
        expected=len(right),
        actual=len(mine),
        matched=len(pairs),
        mean_iou=float(np.mean(shares)) if pairs else none,
        least_iou=min(shares, default=none),
        score_error=max(scores, default=0.0),
        missed=tuple(_text(t) for j, t in enumerate(right) if j not in met),
        extra=tuple(_text(t) for i, t in enumerate(mine) if i not in seen),
    )


def _pairs(
    mine: Sequence[Found], right: Sequence[Found], iou: float
) -> list[tuple[int, int, float]]:
    """Pairs of indices of one class and their overlaps, each index once, the best first."""
    if not mine or not right:
        return []
    boxes = np.array([thing.box for thing in mine], np.float64)
    shares = np.stack([overlaps(np.array(t.box, np.float64), boxes) for t in right], axis=1)
    same = np.array([[a.number == b.number for b in right] for a in mine])
    shares = np.where(same, shares, -1.0)
    found: list[tuple[int, int, float]] = []
    for flat in np.argsort(-shares, axis=None, kind="stable"):
        i, j = divmod(int(flat), len(right))
        if shares[i, j] < iou:
            break
        if all(i != a and j != b for a, b, _ in found):
            found.append((i, j, float(shares[i, j])))
    return found


def _text(thing: Found) -> str:
    sides = ",".join(f"{side:.0f}" for side in thing.box or ())
    return f"{thing.text} {thing.score:.2f} at {sides}".strip()


def _things(session: Session, recipe: Recipe, outputs: Mapping[str, Any]) -> tuple[Found, ...]:
    # Overlaps are the same in pixels of the picture and of the input: the input is the picture.
    size = _picture_size(session, recipe)
    place = Placement(size, size, (1.0, 1.0), (0.0, 0.0))
    return decode(session.model, session.model.results(outputs), recipe, place).found


def _picture_size(session: Session, recipe: Recipe) -> tuple[int, int]:
    """Width and height of the input of a picture, as far as they are known."""
    if recipe.options.size is not None:
        return recipe.options.size
    for spec in session.inputs:
        shape = spec.sizes or session.model.shape_hints.get(spec.name) or ()
        sides = [d for d in shape if d is not None and d > 4]
        if recipe.input in (None, spec.name) and len(sides) >= 2:
            return sides[1], sides[0]
    return 1 << 12, 1 << 12  # only cuts boxes at its edges


def _recipe(
    session: Session, recipe: Recipe | str | os.PathLike[str] | None
) -> tuple[Recipe | None, bool]:
    """The recipe, and whether the user gave it, or wants none."""
    if str(recipe) == NO_RECIPE:
        return None, True
    if recipe is not None:
        return (recipe if isinstance(recipe, Recipe) else Recipe.load(Path(recipe))), True
    found = find_recipe(session, getattr(session.model, "file", None))
    return (None, False) if found is None else found


def _is_scores(array: np.ndarray, many: bool) -> bool:
    """Whether it is a vector, or with ``many`` rows of some, of at least two scores."""
    if array.dtype.kind not in "fiu" or array.ndim == 0 or not array.size:
        return False
    vector = 1 < array.size == max(array.shape) <= _MOST_SCORES
    return vector or (many and array.ndim == 2 and array.shape[-1] > 1)
