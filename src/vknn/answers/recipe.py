"""Recipes: what becomes of a picture before a network, and what its outputs mean.

A recipe is a JSON file; docs/recipes.md says what may be in it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The decoders register themselves when they are imported.
from vknn.answers import heads, images, keypoints, masks, people, regions, rows, yolo  # noqa: F401
from vknn.answers.decoder import DECODERS, LAYOUTS, Decoder
from vknn.answers.fields import REQUIRED, Fields
from vknn.answers.labels import Labels, read_labels
from vknn.formats import Model, TensorSpec
from vknn.json_file import read_json
from vknn.pictures import ORDERS, RESIZES, ImageOptions

#: Lowest score and most things by task, where a recipe says neither.
THRESHOLDS = {"detection": 0.5, "keypoints": 0.3, "segmentation": 0.5}
MOST = {"detection": 100, "classification": 5}
#: Kinds of detections that come with doubles, and how much these may overlap.
_DOUBLES = {"boxes": 0.45, "priors": 0.45, "distances": 0.45, "yolo": 0.45}
_BUILT_IN = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class ModelSignature:
    """Inputs and outputs by which a recipe knows its model.

    ``layers``: their number; ``format``: the model's; None: any.
    """

    inputs: Mapping[str, tuple[int, ...] | None]
    outputs: Mapping[str, tuple[int, ...] | None]
    layers: int | None
    format: str | None = None

    def fits(self, model: Model) -> bool:
        """Whether it is the signature of this model."""
        hints = model.shape_hints
        return (
            self.layers in (None, len(model.layer_types))
            and self.format in (None, type(model).__module__.split(".")[-2])
            and _same(self.inputs, model.inputs, hints)
            and _same(self.outputs, model.outputs, {})
        )


@dataclass(frozen=True)
class Recipe:
    """A recipe, read and checked.

    Attributes:
        name: The file's name without its endings, or how vknn calls its own.
        decoder: What makes answers of outputs.
        input: Name of the input that takes the picture; None where the model has one.
        options: What becomes of the picture.
        threshold: The lowest score of an answer.
        iou: Overlap from which of two boxes of a class one goes; None: both stay.
        most: Things or classes that are told at most.
        labels: Names of the classes.
        match: Signatures of the models that it is for.
    """

    name: str
    decoder: Decoder
    input: str | None = None
    options: ImageOptions = field(default_factory=ImageOptions)
    threshold: float = 0.0
    iou: float | None = None
    most: int = 100
    labels: Labels = field(default_factory=Labels)
    match: tuple[ModelSignature, ...] = ()

    @property
    def task(self) -> str:
        """detection, keypoints, segmentation, image or classification."""
        return self.decoder.task

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recipe:
        """The recipe in a file.

        Args:
            path: The JSON file, of at most a MiB. Label files that it names lie beside it or in
                folders below.

        Raises:
            vknn.VknnError: The file is missing or none, or something in it is not as
                docs/recipes.md says; the text names the file and the key.
        """
        file = Path(path)
        return read_recipe(read_json(file), str(file), file.parent, _stem(file))


def read_recipe(document: Any, file: str, folder: Path, name: str) -> Recipe:
    """The recipe for a JSON document. Raises VknnError; ``file`` stands in its text."""
    fields = Fields(document, "", file)
    task = fields.choice("task", tuple(DECODERS))
    kinds = DECODERS[task]
    inner = fields.inner("decode", {})
    kind = inner.choice("kind", tuple(kinds), next(iter(kinds)))
    decoder = kinds[kind].read(inner)
    inner.end()
    input, options = _read_input(fields.inner("input", {}))
    overlap = _DOUBLES.get(kind) if task == "detection" else None
    recipe = Recipe(
        name,
        decoder,
        input,
        options,
        fields.number("threshold", THRESHOLDS.get(task, 0.0)),
        _overlap(fields, overlap),
        fields.whole("most", MOST.get(task, 100), least=1, most=10000),
        _read_labels(fields, folder),
        tuple(_read_signature(each) for each in fields.each("match", [])),
    )
    fields.end()
    return recipe


def _overlap(fields: Fields, default: float | None) -> float | None:
    """IoU from 0 to 1; null switches suppression off."""
    if fields.has("iou") and fields.peek("iou") is None:
        return fields.raw("iou", None)  # type: ignore[no-any-return]
    return fields.number("iou", default, least=0, most=1)


def _read_input(fields: Fields) -> tuple[str | None, ImageOptions]:
    """The name of the input and what becomes of a picture for it."""
    name, size, own = fields.text("name", None), None, False
    if fields.has("size") and (own := fields.peek("size") == "picture"):
        fields.raw("size")
    elif fields.has("size"):
        width, height = fields.numbers("size", count=2, least=1)
        if max(width, height) > 1 << 15 or width % 1 or height % 1:
            fields.fail("size", "is width and height, whole numbers up to 32768")
        size = int(width), int(height)
    options = ImageOptions(
        size=size,
        resize=fields.choice("resize", RESIZES, "stretch"),
        mean=fields.numbers("mean", (0.0,)),
        std=fields.numbers("std", (1.0,)),
        order=fields.choice("channels", ORDERS, None),
        layout=fields.choice("layout", LAYOUTS, None),
        multiple=fields.whole("multiple", 1, least=1, most=1024),
        longest=fields.whole("longest", None, least=1, most=1 << 15),
        border=fields.whole("border", 0, most=1024),
        own_size=own,
        fill=fields.numbers("fill", None),
    )
    given = (("mean", options.mean), ("std", options.std), ("fill", options.fill or (0.0,)))
    for key, values in given:
        if len(values) not in (1, 3):
            fields.fail(key, f"has {len(values)} numbers, not 1 or 3")
    if not all(options.std):
        fields.fail("std", "must not be 0")
    fields.end()
    return name, options


def _read_labels(fields: Fields, folder: Path) -> Labels:
    """Labels: a list, the name of a text file, or one of these for each output."""
    if not isinstance(fields.peek("labels"), dict):
        return Labels(_label_list(fields, "labels", folder, []))
    inner = fields.inner("labels")
    return Labels({key: _label_list(inner, key, folder) for key in inner.names()})


def _label_list(fields: Fields, key: str, folder: Path, default: Any = REQUIRED) -> Sequence[str]:
    value = fields.peek(key)
    if not isinstance(value, str):
        return fields.texts(key, default)
    fields.raw(key)
    inside = folder.resolve()
    path = (inside / value).resolve()
    if not path.is_relative_to(inside) or Path(value).is_absolute():
        fields.fail(key, f"{value!r} leaves the folder of the recipe")
    return read_labels(path)


def _read_signature(fields: Fields) -> ModelSignature:
    made = ModelSignature(
        _read_shapes(fields, "inputs"),
        _read_shapes(fields, "outputs"),
        fields.whole("layers", None, least=1, most=1 << 20),
        fields.text("format", None),
    )
    fields.end()
    return made


def _read_shapes(fields: Fields, key: str) -> dict[str, tuple[int, ...] | None]:
    """Shapes by name; null: any shape."""
    inner = fields.inner(key)
    return {
        name: None
        if inner.peek(name) is None
        else tuple(int(n) for n in inner.numbers(name, least=0))
        for name in inner.names()
    }


def _same(
    wanted: Mapping[str, tuple[int, ...] | None],
    specs: Sequence[TensorSpec],
    hints: Mapping[str, tuple[int, ...]],
) -> bool:
    """Whether these are the names, and the shapes as far as both sides say them."""
    if wanted.keys() != {spec.name for spec in specs}:
        return False
    shapes = {s.name: s.sizes for s in specs}
    for name, shape in wanted.items():
        known = shapes[name]
        if known is None or None in known:
            known = hints.get(name)
        if shape is not None and known is not None and known != shape:
            return False
    return True


@functools.cache
def built_in() -> tuple[Recipe, ...]:
    """The recipes that come with vknn."""
    found = []
    for file in sorted(_BUILT_IN.glob("*.json")):
        name = file.name.removesuffix(".json")
        found.append(read_recipe(read_json(file), file.name, _BUILT_IN, name))
    return tuple(found)


def beside(model: Path) -> Path | None:
    """The recipe beside a model: <its name>.recipe.json, the name with its ending or without."""
    stem = model.name.removesuffix(".bin").rpartition(".")[0] or model.name
    for name in (model.name, stem):
        path = model.with_name(f"{name}.recipe.json")
        if os.path.exists(path):  # False for a name that is too long, too
            return path
    return None


def _stem(file: Path) -> str:
    return file.name.removesuffix(".json").removesuffix(".recipe")
