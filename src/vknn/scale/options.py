"""Options of a batch job: the model, how it runs, and which columns go in and out."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

from vknn import environment
from vknn.answers.labels import read_labels
from vknn.batching import MOST_STACKED
from vknn.errors import InputError, VknnError
from vknn.pictures import ORDERS, RESIZES, ImageOptions
from vknn.precision import Precision, chosen_precision
from vknn.scale.shares import share_of

#: Columns that rows have besides the record's own and the outputs.
DEVICE, BATCH, ERROR = "device", "batch", "error"
#: Of classifiers, of detectors, of segmentation.
LABEL, PROBABILITY, FOUND, CLASSES = "label", "probability", "found", "classes"
#: Name of the device that is none.
NUMPY = "numpy"
RESERVED = (DEVICE, BATCH, ERROR, LABEL, PROBABILITY, FOUND, CLASSES)
#: Begin of names of columns on their way to workers, which no source may have.
PACKED = "__vknn_"
#: Rows that are computed and counted together.
BATCH_ROWS = 32
MOST_BATCH_ROWS = 1 << 16
MOST_PER_DEVICE = 64
#: Pixels of an input, which --size may ask for.
MOST_PIXELS = 1 << 26


@dataclass(frozen=True)
class Predictor:
    """A model and what its records are made of; can be pickled.

    Attributes:
        model: The model file.
        weights: Its second file, where that does not lie beside it.
        device: As for :class:`vknn.Session`, or "gpu": with Ray, the GPUs that Ray gives out. What
            "auto" means with Ray: its GPUs, else its resource "vulkan", else one worker.
        per_device: Workers that share a device.
        workers: Workers in all; by default as many as there are devices for.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        disable: As for :class:`vknn.Session`.
        layers: Python files that register layers of one's own, run by each worker first.
        columns: Name of the input -> column that it is read from. Left out, where the model has one
            input and the source one column that may be meant.
        id: Column that names records; its values must differ.
        keep: Columns that answers keep beside the id.
        outputs: Names of the outputs that are written; None: all.
        size: Of pictures, width and height; None: what the model asks for.
        resize: "stretch", "crop" or "pad".
        mean: Taken from values 0 to 255, of each channel.
        std: Divides them then.
        channels: "rgb", "bgr" or "gray".
        layout: "chw" or "hwc".
        recipe: File that says what the outputs mean; None: what is found for the model, "none":
            nothing.
        labels: Names of the classes, or a file with one a line.
        threshold: Lowest score of what is found.
        batch_size: Rows that are written and counted together.
        stacked: Records of one shape that one run computes, where the network keeps them apart; 1:
            each has its own run; None: 8, where that is measured to be faster.
        check: Share of the records that NumPy computes as well (1/1000), besides the first of each
            worker; "first": only these; "none": not even these.
    """

    model: str | os.PathLike[str]
    weights: str | os.PathLike[str] | None = None
    _: dataclasses.KW_ONLY
    device: str = "auto"
    per_device: int = 1
    workers: int | None = None
    precision: Precision = "fp32"
    arithmetic: str = "fp32"
    disable: Sequence[str] | str = ()
    layers: Sequence[str | os.PathLike[str]] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    keep: Sequence[str] = ()
    outputs: Sequence[str] | None = None
    size: tuple[int, int] | None = None
    resize: str | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    channels: str | None = None
    layout: str | None = None
    recipe: str | os.PathLike[str] | None = None
    labels: Sequence[str] | str | os.PathLike[str] | None = None
    threshold: float | None = None
    batch_size: int = BATCH_ROWS
    stacked: int | None = None
    check: str | float = "first"

    def __post_init__(self) -> None:
        chosen = chosen_precision(self.precision, self.arithmetic)
        object.__setattr__(self, "precision", chosen.given)  # workers may lack its file
        environment.parts(self.disable, "disable")
        _check_count(self.per_device, "per_device", MOST_PER_DEVICE)
        _check_count(self.batch_size, "batch_size", MOST_BATCH_ROWS)
        if self.workers is not None:
            _check_count(self.workers, "workers", 1 << 16)
        if self.stacked is not None:
            _check_count(self.stacked, "stacked", MOST_STACKED)
        for given, known, name in (
            (self.resize, RESIZES, "resize"),
            (self.channels, ORDERS, "channels"),
            (self.layout, ("chw", "hwc"), "layout"),
        ):
            if given is not None and given not in known:
                raise InputError(f"{name}={given!r}: expected one of {', '.join(known)}")
        if not isinstance(self.columns, Mapping):
            raise InputError("columns is a dict, input of the model -> column")
        self._check_names()
        self._check_pictures()
        _ = self.checked

    def _check_names(self) -> None:
        if not isinstance(self.model, str | os.PathLike):
            raise InputError(f"model={self.model!r}: expected a path")
        if not isinstance(self.id, str | None):
            raise InputError(f"id={self.id!r}: expected the name of a column")
        for what in ("keep", "outputs", "layers"):
            names = getattr(self, what)
            if what == "outputs" and names is None:
                continue
            found = _list_of(names, (str, os.PathLike))
            if found is None:
                raise InputError(f"{what}={names!r}: expected a list of names")
            object.__setattr__(self, what, found)
        own = [name for name in (self.id, *self.keep) if name is not None]
        if twice := sorted({name for name in own if own.count(name) > 1} - {self.id}):
            raise InputError(f"keep names {', '.join(twice)} twice")
        outputs = self.outputs or ()
        if twice := sorted({name for name in outputs if outputs.count(name) > 1}):
            raise InputError(f"outputs names {', '.join(twice)} twice")
        given = (*own, *map(str, self.columns.values()))
        if hidden := [name for name in given if name.startswith(PACKED)]:
            raise InputError(
                f"column {hidden[0]!r}: names that begin with {PACKED} are those of what goes to "
                "workers; rename it in the source"
            )
        if taken := [name for name in own if name in RESERVED]:
            raise InputError(
                f"column {taken[0]!r} cannot be kept: answers have a column of this name "
                f"({', '.join(RESERVED)}); rename it in the source"
            )

    def _check_pictures(self) -> None:
        if self.size is not None:
            size = _list_of(self.size, (numbers.Integral,))
            if size is None or len(size) != 2 or min(size) < 1:
                raise InputError(f"size={self.size!r}: expected a width and a height in pixels")
            if size[0] * size[1] > MOST_PIXELS:
                raise InputError(f"size={self.size!r}: at most {MOST_PIXELS} pixels are computed")
            object.__setattr__(self, "size", (int(size[0]), int(size[1])))
        for what in ("mean", "std"):
            given = getattr(self, what)
            if given is not None:
                found = _list_of(given, (numbers.Real,))
                if found is None or len(found) not in (1, 3) or not all(map(math.isfinite, found)):
                    raise InputError(f"{what}={given!r}: expected 1 or 3 numbers")
                object.__setattr__(self, what, tuple(map(float, found)))
        if self.std is not None and 0 in self.std:
            raise InputError(f"std={self.std!r}: 0 divides nothing")
        score = self.threshold
        if not isinstance(score, int | float | None) or not math.isfinite(score or 0):
            raise InputError(f"threshold={self.threshold!r}: expected a number")
        if self.labels is not None and not isinstance(self.labels, str | os.PathLike | Sequence):
            raise InputError(f"labels={self.labels!r}: expected a list of names, or a file of them")

    @property
    def checked(self) -> Fraction | None:
        """Share of records that NumPy computes, too; 0: the first only; None: not even that."""
        if self.check == "none":
            return None
        return Fraction(0) if self.check == "first" else share_of(self.check, "check")

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of the source that answers have: the id first."""
        own = [] if self.id is None else [self.id]
        return (*own, *(name for name in self.keep if name != self.id))

    @property
    def actor(self) -> Any:
        """The callable class for ``Dataset.map_batches``; :meth:`map_batches_options` goes with it.

        Raises:
            vknn.VknnError: Ray is missing.
        """
        return import_module("vknn.scale.ray_worker").BatchActor

    def map_batches_options(self, dataset: Any) -> dict[str, Any]:
        """Arguments for ``Dataset.map_batches`` beside :attr:`actor`: how many actors, and where.

        Args:
            dataset: The dataset that they are for; its first rows are read.

        Raises:
            vknn.VknnError: Ray is missing, the cluster lacks what is asked for, or columns do not
                fit the model.
        """
        found: dict[str, Any] = import_module("vknn.scale.stages").actor_options(self, dataset)
        return found

    def label_names(self) -> list[str] | None:
        """Names of the classes that were given; None: none were. Raises VknnError."""
        own = self.labels
        if own is None:
            return None
        return read_labels(Path(own)) if isinstance(own, str | os.PathLike) else list(own)

    def image_options(self, otherwise: ImageOptions | None = None) -> ImageOptions:
        """Options of pictures; what is not given is as ``otherwise`` has it."""
        given: dict[str, Any] = {
            "size": self.size,
            "resize": self.resize,
            "mean": None if self.mean is None else tuple(self.mean),
            "std": None if self.std is None else tuple(self.std),
            "order": self.channels,
            "layout": self.layout,
        }
        known = {key: value for key, value in given.items() if value is not None}
        return dataclasses.replace(otherwise or ImageOptions(), **known)

    def identity(self) -> dict[str, Any]:
        """All that decides the answers, as JSON: two jobs alike in it may share a folder."""
        labels = self.labels
        return {
            "precision": self.precision,
            "arithmetic": self.arithmetic,
            "disable": sorted(environment.parts(self.disable, "disable")),
            "columns": dict(sorted(self.columns.items())),
            "id": self.id,
            "keep": list(self.keep),
            "outputs": None if self.outputs is None else list(self.outputs),
            "size": None if self.size is None else list(self.size),
            "resize": self.resize,
            "mean": None if self.mean is None else [float(number) for number in self.mean],
            "std": None if self.std is None else [float(number) for number in self.std],
            "channels": self.channels,
            "layout": self.layout,
            "recipe": None if self.recipe is None else _text_of(self.recipe),
            "labels": _text_of(labels) if isinstance(labels, str | os.PathLike) else labels,
            "threshold": self.threshold,
            "stacked": self.stacked,
            "layers": [_text_of(path) for path in self.layers],
        }


def predictor_of(model: Any, weights: Any, options: Mapping[str, Any]) -> Predictor:
    """The predictor given, or one of a model file and options. Raises InputError."""
    if isinstance(model, Predictor):
        if weights is not None or options:
            raise InputError("options belong to the Predictor: dataclasses.replace changes them")
        return model
    names = {f.name for f in dataclasses.fields(Predictor)} - {"model", "weights"}
    if unknown := sorted(set(options) - names):
        raise InputError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(names))}")
    return Predictor(model, weights, **options)


def _list_of(given: Any, types: tuple[type, ...]) -> tuple[Any, ...] | None:
    """The values of something that is a list of these types; None where it is none."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        return None
    found = tuple(given)
    return found if all(isinstance(value, types) for value in found) else None


def _check_count(value: Any, name: str, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{name}={value!r}: expected a whole number from 1 to {most}")


def _text_of(path: str | os.PathLike[str]) -> str:
    """What a small text file holds; a name that is no file stays a name."""
    file = Path(path)
    try:
        return file.read_text("utf-8") if file.is_file() else str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise VknnError(f"{path} cannot be read: {error}") from None
