"""Answers on the command line: the recipe, decoding and drawing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vknn.answers import Answer, Recipe, decode, draw, find_recipe
from vknn.answers.looking import NO_RECIPE, no_recipe
from vknn.cli.feeds import Given
from vknn.cli.shots import Drawings, Shot
from vknn.errors import InputError, VknnError
from vknn.session import Session


def add_answers(group: argparse._ActionsContainer) -> None:
    """The options for answers."""
    group.add_argument(
        "--draw",
        type=Path,
        metavar="FILE",
        help="draw the answer on the picture: a file, or a folder where there are several pictures",
    )
    group.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="what the outputs mean (<model>.recipe.json, else built in); none: nothing",
    )
    group.add_argument("--threshold", type=float, metavar="N", help="lowest score (the recipe's)")
    group.add_argument("--font", type=Path, metavar="FILE", help="a font for drawn labels")


class Asking:
    """Answers of a run of the command: made of outputs by a recipe, drawn, and told.

    ``files``: those that it is about, ``many`` of them. ``recipe``: None where there is none.
    ``wanted``: whether the user asks for an answer; a recipe that vknn found by itself and that
    does not fit then is an error, else it is left aside.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        session: Session,
        labels: Sequence[str] | None,
        files: Sequence[Path],
        many: bool,
    ) -> None:
        self.args, self.model, self.labels = args, session.model, labels
        self.recipe: Recipe | None = None
        self.wanted = args.draw is not None
        self.drawings = None if args.draw is None else Drawings(args.draw, files, many)
        if args.recipe is None:
            found = find_recipe(session, args.model)
            if found is not None:
                self.recipe, own = found
                self.wanted = self.wanted or own
        elif str(args.recipe) != NO_RECIPE:
            self.recipe, self.wanted = Recipe.load(args.recipe), True
        if self.drawings is not None and self.recipe is None:
            raise no_recipe(session)

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return "" if self.recipe is None else self.recipe.name

    def answer(self, outputs: Mapping[str, Any], given: Given) -> Answer | None:
        """The answer to a picture; None where there is no picture or no recipe."""
        if self.recipe is None or given.placement is None:
            if self.drawings is not None:
                raise InputError("--draw draws on pictures, and the input is none")
            return None
        most = self.args.top if self.recipe.task == "classification" else None
        try:
            return decode(
                self.model, outputs, self.recipe, given.placement,
                labels=self.labels, threshold=self.args.threshold, most=most,
            )  # fmt: skip
        except VknnError:
            if self.wanted:
                raise
            self.recipe = None
            return None

    def drawn(self, shot: Shot, answer: Answer | None) -> Path | None:
        """The file with the drawing of an answer; None where none is asked for."""
        if self.drawings is None or answer is None:
            return None
        return self.drawings.save(shot, draw(shot.picture, answer, self.args.font))

    def told(self, answer: Answer | None, drawn: Path | None) -> dict[str, Any]:
        """The fields of JSON for an answer."""
        if answer is None:
            return {}
        told: dict[str, Any] = {"recipe": self.name, "answer": answer.to_json()}
        return told if drawn is None else {**told, "drawn": str(drawn)}
