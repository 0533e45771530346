"""Inputs of a session, taken from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers import Recipe
from vknn.answers.looking import in_batch, input_hint, picture_input, picture_spec
from vknn.cli.arguments import named
from vknn.cli.inputs import image_options, is_array, read_input, read_npz
from vknn.cli.shots import Shot
from vknn.errors import InputError
from vknn.formats import TensorSpec
from vknn.pictures import ImageOptions, Placement, open_picture
from vknn.session import Session
from vknn.tool_inputs import needed_inputs


@dataclass(frozen=True)
class Given:
    """Arrays for a session, and the picture that an answer would be about.

    ``placement``: where the picture lies in its input; None where no input is a picture. ``path``:
    the picture's file.
    """

    feeds: Mapping[str, np.ndarray] = field(default_factory=dict)
    picture: Any = None
    placement: Placement | None = None
    path: Path | None = None


def read_feeds(args: argparse.Namespace, session: Session) -> dict[str, np.ndarray]:
    """The arrays given with --input."""
    return dict(given_inputs(args, session, None).feeds)


def given_inputs(args: argparse.Namespace, session: Session, recipe: Recipe | None) -> Given:
    """The arrays given with --input; the picture of the recipe's input as the recipe wants it."""
    feeds: dict[str, np.ndarray] = {}
    specs = {spec.name: spec for spec in session.inputs}
    left = []
    for text in args.input:
        path = Path(text)
        # A .npz without a name may feed several inputs; of one that is missing reading tells.
        several = path.suffix == ".npz" and (path.exists() or "=" not in text)
        if several and set(arrays := read_npz(path)) & set(specs):
            feeds.update((n, a) for n, a in arrays.items() if n in specs)
        else:
            left.append(text)
    found = Given(feeds)
    files = {name: Path(text) for name, text in named(left, session, "file").items()}
    for name, path in files.items():
        if is_array(path):
            array = read_input(path, name, input_hint(session, specs[name]), ImageOptions())
            feeds[name] = in_batch(array, specs[name])
            continue
        own = recipe if recipe is not None and recipe.input in (None, name) else None
        picture = open_picture(path)
        options = image_options(args, None if own is None else own.options)
        feeds[name], placement = picture_input(session, specs[name], picture, options)
        if found.placement is None or own is not None:
            found = Given(feeds, picture, placement, path)
    return found


def with_shot(
    args: argparse.Namespace, session: Session, recipe: Recipe | None, given: Given, shot: Shot
) -> Given:
    """Inputs given and a further file, for the input that is left."""
    if shot.picture is None:
        spec = _input_left(session, given.feeds)
        array = read_input(shot.path, spec.name, input_hint(session, spec), ImageOptions())
        return Given({**given.feeds, spec.name: in_batch(array, spec)})
    named_by = recipe if recipe is not None and recipe.input not in (None, *given.feeds) else None
    if named_by is None:
        spec = _input_left(session, given.feeds)
    else:
        spec = picture_spec(session, named_by)
    options = image_options(args, None if recipe is None else recipe.options)
    array, placement = picture_input(session, spec, shot.picture, options)
    return Given({**given.feeds, spec.name: array}, shot.picture, placement, shot.path)


def _input_left(session: Session, given: Mapping[str, np.ndarray]) -> TensorSpec:
    """The one input that --input does not give."""
    left = needed_inputs(session, given)
    if len(left) != 1:
        names = ", ".join(spec.name for spec in left)
        raise InputError(
            "files are for one input and "
            + (f"these are left: {names}" if left else "all inputs are given")
            + ": give the others with --input NAME=FILE"
        )
    return left[0]
