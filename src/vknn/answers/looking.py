"""Way from a session and a picture to an answer."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers.answer import Answer
from vknn.answers.decoder import Reading
from vknn.answers.labels import Labels, read_labels
from vknn.answers.own import own_recipe
from vknn.answers.recipe import Recipe, beside, built_in
from vknn.errors import InputError, VknnError, naming
from vknn.formats import Model, TensorSpec
from vknn.pictures import Hint, ImageOptions, Placement, open_picture, picture_array
from vknn.session import Session
from vknn.tool_inputs import likely_shape, needed_inputs

#: In the place of a recipe's file: outputs are shown as they are.
NO_RECIPE = "none"


def find_recipe(
    session: Session, model: str | os.PathLike[str] | None = None
) -> tuple[Recipe, bool] | None:
    """The recipe for a session's model.

    Args:
        session: The session.
        model: The model's file: a recipe beside it, ``<model>.recipe.json``, comes first.

    Returns:
        The recipe beside the file, else the one built in for this model, else what its outputs
        state; and whether it is the first of these, a user's own. None where there is none.

    Raises:
        vknn.VknnError: The recipe beside the file is not as it should be.
    """
    file = beside(Path(model)) if model is not None else None
    if file is not None:
        return Recipe.load(file), True
    for recipe in built_in():
        if any(signature.fits(session.model) for signature in recipe.match):
            return recipe, False
    own = own_recipe(session.model)
    return None if own is None else (own, False)


@dataclasses.dataclass(frozen=True)
class PictureInput:
    """An input of a model that pictures are made arrays for: all that this takes of a session.

    Attributes:
        spec: The input.
        hint: Its shape as far as it is known.
        is_image: Whether the model wants an image, and no array (Core ML).
    """

    spec: TensorSpec
    hint: Hint
    is_image: bool

    @classmethod
    def of(cls, session: Session, spec: TensorSpec) -> PictureInput:
        """The input of a session."""
        return cls(spec, input_hint(session, spec), spec.name in session.model.images)

    def array(self, picture: Any, options: ImageOptions) -> tuple[np.ndarray, Placement]:
        """The array of a PIL image, and where the picture lies in it. Raises InputError."""
        hint = self.hint
        options = dataclasses.replace(options, dtype=self.spec.dtype)
        if self.is_image:
            hint = (*hint, 1) if hint is not None and len(hint) == 2 else hint
            options = dataclasses.replace(options, layout="hwc")
        array, placement = picture_array(picture, hint, options)
        return in_batch(array, self.spec), placement


def picture_input(
    session: Session, spec: TensorSpec, picture: Any, options: ImageOptions
) -> tuple[np.ndarray, Placement]:
    """The array for an input of a session, of a PIL image, and where the picture lies in it."""
    return PictureInput.of(session, spec).array(picture, options)


def input_hint(session: Session, spec: TensorSpec) -> Hint:
    """The shape of an input as far as it is known; a free side of a picture is not 1."""
    hint, declared = likely_shape(session, spec), spec.sizes
    if hint is None or declared is None or len(declared) != len(hint):
        return hint
    # TensorFlow Lite's files say 1 for every axis that is free.
    return tuple(
        None if own is None and side == 1 else side
        for own, side in zip(declared, hint, strict=True)
    )


def in_batch(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """The array with a batch axis of 1 where that is all it lacks, as pictures do."""
    shape = spec.sizes
    lacks = shape is not None and len(shape) == array.ndim + 1 and shape[0] in (1, None)
    return array[None] if lacks else array


def picture_spec(session: Session, recipe: Recipe | None, given: Sequence[str] = ()) -> TensorSpec:
    """The input that takes the picture: the recipe's, or the one that is not given."""
    specs = {spec.name: spec for spec in session.inputs}
    if recipe is not None and recipe.input in specs:
        return specs[recipe.input]
    left = [spec.name for spec in needed_inputs(session, given)]
    if recipe is not None and recipe.input is not None:
        raise InputError(f"the recipe's input {recipe.input!r} is none of {', '.join(specs)}")
    if len(left) != 1:
        raise InputError(
            f"a picture is for one input and there are {len(left)}: {', '.join(left)}; a recipe's "
            '"input" names it, and the others are given beside it'
        )
    return specs[left[0]]


def decode(
    model: Model,
    outputs: Mapping[str, Any],
    recipe: Recipe,
    placement: Placement,
    *,
    labels: Sequence[str] | None = None,
    threshold: float | None = None,
    most: int | None = None,
) -> Answer:
    """The answer that the outputs of a run are.

    Args:
        model: The session's model.
        outputs: Its outputs by name, as :meth:`vknn.Session.run` gives them.
        recipe: What they mean.
        placement: Where the picture lies in the input.
        labels: Names of the classes; by default the recipe's.
        threshold: The lowest score; by default the recipe's.
        most: Things or classes at most; by default the recipe's.

    Raises:
        vknn.VknnError: The outputs are not those that the recipe is for.
    """
    with naming(model.file):
        return recipe.decoder.decode(
            Reading(
                dequantized(model, outputs),
                placement,
                recipe.threshold if threshold is None else threshold,
                recipe.iou,
                recipe.most if most is None else most,
                recipe.labels if labels is None else Labels(labels),
            )
        )


def dequantized(model: Model, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs with quantized integers as the real numbers that they stand for."""
    made = dict(outputs)
    for name, (scale, zero) in model.quantization.items():
        if name in made:
            made[name] = (np.asarray(made[name]).astype(np.float64) - zero) * scale
    return made


def look(
    session: Session,
    picture: Any,
    recipe: Recipe | str | os.PathLike[str] | None = None,
    *,
    feeds: Mapping[str, Any] | None = None,
    labels: Sequence[str] | str | os.PathLike[str] | None = None,
    threshold: float | None = None,
) -> Answer:
    """Answer of a network to a picture, which is fed to it; its outputs are decoded.

    Args:
        session: The session.
        picture: A file, a PIL image, or an array uint8 [height, width] or [height, width, 3] in
            RGB.
        recipe: A recipe or its file; by default the one that :func:`find_recipe` finds.
        feeds: Arrays for inputs other than the picture's, by name.
        labels: Names of the classes, or a text file with one a line.
        threshold: The lowest score; by default the recipe's.

    Returns:
        The answer, in pixels of the picture.

    Raises:
        vknn.VknnError: There is no recipe for the model, or it does not fit.
        vknn.InputError: The picture cannot be read, or inputs are missing.
    """
    with naming(session.model.file):
        chosen = _recipe(session, recipe)
        seen = _as_picture(picture)
        spec = picture_spec(session, chosen, tuple(feeds or {}))
        array, placement = picture_input(session, spec, seen, chosen.options)
        outputs = session.run({**(feeds or {}), spec.name: array})
    names = read_labels(Path(labels)) if isinstance(labels, str | os.PathLike) else labels
    return decode(session.model, outputs, chosen, placement, labels=names, threshold=threshold)


def _recipe(session: Session, recipe: Recipe | str | os.PathLike[str] | None) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    if recipe is not None:
        return Recipe.load(recipe)
    found = find_recipe(session, getattr(session.model, "file", None))
    if found is None:
        raise no_recipe(session)
    return found[0]


def no_recipe(session: Session) -> VknnError:
    """The error for a model whose outputs nobody explains."""
    names = ", ".join(spec.name for spec in session.outputs)
    return VknnError(
        f"nothing says what the outputs ({names}) of this model mean: give a recipe "
        "(--recipe FILE, or <model>.recipe.json beside the model; docs/recipes.md)"
    )


def _as_picture(picture: Any) -> Any:
    """A PIL image of what a user has."""
    if isinstance(picture, str | os.PathLike):
        return open_picture(Path(picture))
    if isinstance(picture, np.ndarray):
        from PIL import Image

        if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or picture.shape[2:] not in (
            (), (3,),
        ) or not picture.size:  # fmt: skip
            raise InputError(
                "a picture is uint8 [height, width] or [height, width, 3], not "
                f"{picture.dtype} {list(picture.shape)}"
            )
        return Image.fromarray(picture)
    if not hasattr(picture, "convert"):
        raise InputError(f"a picture is a file, a PIL image or an array, not {type(picture)}")
    return picture
