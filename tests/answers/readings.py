"""Recipes and outputs by hand, for tests of decoders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers import Answer, Placement, Recipe
from vknn.answers.decoder import Reading
from vknn.answers.recipe import read_recipe


def recipe(task: str, kind: str = "", **members: Any) -> Recipe:
    """A recipe; members of "decode" are those that are no members of a recipe."""
    own = {k: members.pop(k) for k in ("input", "threshold", "iou", "most", "labels", "match")
           if k in members}  # fmt: skip
    decode = {**members, **({"kind": kind} if kind else {})}
    return read_recipe({"task": task, "decode": decode, **own}, "r.json", Path("."), "r")


def same_place(width: int, height: int) -> Placement:
    """A picture that is the input."""
    return Placement((width, height), (width, height), (1.0, 1.0), (0.0, 0.0))


def answered(
    made: Recipe, outputs: Mapping[str, Any], place: Placement | None = None, **changed: Any
) -> Answer:
    """The answer of a recipe for outputs."""
    values = {
        "threshold": made.threshold, "iou": made.iou, "most": made.most, "labels": made.labels,
        **changed,
    }  # fmt: skip
    arrays = {
        n: v if isinstance(v, np.ndarray | dict) else np.array(v, np.float32)
        for n, v in outputs.items()
    }
    return made.decoder.decode(Reading(arrays, place or same_place(100, 100), **values))
