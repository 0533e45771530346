"""Many inputs of --input: a folder, a pattern, several files, arrays with an axis in front."""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.answers import Recipe
from vknn.answers.looking import in_batch, picture_input, picture_spec
from vknn.cli.feeds import given_inputs
from vknn.cli.inputs import expanded, image_options, is_array
from vknn.cli.shots import Shot, shots
from vknn.crosscheck import InputRecord
from vknn.crosscheck.npz_files import load_npy, load_npz
from vknn.errors import InputError, VknnError
from vknn.formats import TensorSpec
from vknn.pictures import UnreadableFileError
from vknn.session import Session
from vknn.tool_inputs import likely_shape

_PATTERN = frozenset("*?[")


@dataclass(frozen=True)
class InputFiles:
    """Files of one --input. ``name``: the input it names, or None. ``many``: more than a file."""

    text: str
    name: str | None
    files: tuple[Path, ...]
    many: bool


def input_records(
    args: argparse.Namespace, session: Session, recipe: Recipe | None
) -> Iterator[InputRecord] | None:
    """The inputs one after the other; None where --input gives one set of inputs, or none.

    Files that cannot be read are records with an error. Raises InputError for --input that cannot
    be meant.
    """
    found = [_files(text, session) for text in args.input]
    names = [f.name for f in found if not (f.name is None and _is_npz(f))]
    repeated = {n for n in names if names.count(n) > 1}
    reader = _Reader(args, session, recipe, args.limit is not None or args.search_asked)
    several = [f for f in found if f.many or (f.name in repeated and not _by_name(f))]
    if not several:
        several = [f for f in found if reader.is_stacked(f)]
    if not several:
        return None
    if len({f.name for f in several}) > 1:
        raise InputError(
            f"several inputs have many records: {', '.join(f.text for f in several)}: a .npz holds "
            "the arrays of all inputs, with the names of the inputs"
        )
    reader.free = True
    others = [f.text for f in found if f not in several]
    if others:
        single = argparse.Namespace(**{**vars(args), "input": others})
        reader.given = dict(given_inputs(single, session, recipe).feeds)
    return reader.records([(f.name, path) for f in several for path in f.files])


def _is_npz(found: InputFiles) -> bool:
    return all(path.suffix.lower() == ".npz" for path in found.files)


def _by_name(found: InputFiles) -> bool:
    """Whether it is a .npz that may feed inputs by their names, together with others."""
    return found.name is None and _is_npz(found)


def _files(text: str, session: Session) -> InputFiles:
    """The files that one --input means."""
    fitting = [s.name for s in session.inputs if text.startswith(f"{s.name}=")]
    name = max(fitting, key=len) if fitting else None
    path = text if name is None else text[len(name) + 1 :]
    if _PATTERN & set(path) and not os.path.exists(path):
        files = sorted(Path(p) for p in glob.glob(path, recursive=True) if os.path.isfile(p))
        if not files:
            raise InputError(f"no file has a name like {path}")
        return InputFiles(text, name, tuple(files), True)
    place = Path(path)
    return InputFiles(text, name, tuple(expanded([place])), place.is_dir())


class _Reader:
    """Reader of records. ``free``: a first axis that is free counts records, and no batch."""

    def __init__(
        self, args: argparse.Namespace, session: Session, recipe: Recipe | None, free: bool
    ) -> None:
        self.args, self.session, self.recipe, self.free = args, session, recipe, free
        self.given: dict[str, np.ndarray] = {}
        self.specs = {spec.name: spec for spec in session.inputs}

    def is_stacked(self, found: InputFiles) -> bool:
        """Whether the one file has arrays with an axis of records."""
        if not is_array(found.files[0]):
            return False
        try:
            arrays = self._arrays(found.files[0], found.name)
        except VknnError:
            return False  # the reader of a single set of inputs says what is wrong
        return any(self._counts(arrays))

    def records(self, files: Sequence[tuple[str | None, Path]]) -> Iterator[InputRecord]:
        """The records of files, each for the input of a name."""
        for name, path in files:
            try:
                yield from self._rows(path, name) if is_array(path) else self._pictures(path, name)
            except (VknnError, OSError, MemoryError) as error:
                yield InputRecord(str(path), error=error)

    def _pictures(self, path: Path, name: str | None) -> Iterator[InputRecord]:
        for shot in shots([path]):
            if isinstance(shot, UnreadableFileError):
                yield InputRecord(str(path), error=shot)
            else:
                yield InputRecord(shot.text, self._feeds(shot, name))

    def _feeds(self, shot: Shot, name: str | None) -> dict[str, np.ndarray]:
        spec = self._spec(name)
        own = self.recipe is not None and self.recipe.input in (None, spec.name)
        options = self.recipe.options if own and self.recipe is not None else None
        made = image_options(self.args, options)
        return {**self.given, spec.name: picture_input(self.session, spec, shot.picture, made)[0]}

    def _spec(self, name: str | None) -> TensorSpec:
        """The input that is named, or the one that the recipe names or that is left."""
        if name is not None:
            return self.specs[name]
        return picture_spec(self.session, self.recipe, tuple(self.given))

    def _arrays(self, path: Path, name: str | None) -> dict[str, np.ndarray]:
        """Arrays of a file by the inputs that they are for."""
        if path.suffix.lower() == ".npy":
            return {self._spec(name).name: load_npy(path)}
        arrays = load_npz(path)
        if name is not None and len(arrays) > 1 and name in arrays:
            return {name: arrays[name]}
        if name is None and (known := {n: a for n, a in arrays.items() if n in self.specs}):
            return known
        if len(arrays) != 1:
            raise InputError(f"{path} has {', '.join(arrays) or 'no arrays'}, which are no inputs")
        return {self._spec(name).name: next(iter(arrays.values()))}

    def _rows(self, path: Path, name: str | None) -> Iterator[InputRecord]:
        arrays = self._arrays(path, name)
        counts = self._counts(arrays)
        if not any(counts):
            feeds = {n: in_batch(np.array(a), self.specs[n]) for n, a in arrays.items()}
            yield InputRecord(str(path), {**self.given, **feeds})
            return
        if len(set(filter(None, counts))) > 1:
            shown = ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items())
            raise InputError(f"{path}: the first axes count records and differ: {shown}")
        for number in range(max(counts)):
            feeds = self._row(arrays, counts, number)
            yield InputRecord(f"{path}#{number}", {**self.given, **feeds})

    def _counts(self, arrays: Mapping[str, np.ndarray]) -> list[int]:
        """Of each array the records along its first axis; 0 of one that is a record's."""
        return [self._count(array, self.specs[name]) for name, array in arrays.items()]

    def _count(self, array: np.ndarray, spec: TensorSpec) -> int:
        sizes = likely_shape(self.session, spec) if spec.sizes is None else spec.sizes
        if sizes is None or array.ndim == 0:
            return 0
        if array.ndim == len(sizes) + 1:
            return len(array)
        batch = array.ndim == len(sizes) and len(array) > 1
        fixed = batch and sizes[0] == 1
        return len(array) if fixed or (batch and sizes[0] is None and self.free) else 0

    def _row(
        self, arrays: Mapping[str, np.ndarray], counts: Sequence[int], number: int
    ) -> dict[str, np.ndarray]:
        """One record's arrays; those without an axis of records are everyone's."""
        found = {}
        for (name, array), count in zip(arrays.items(), counts, strict=True):
            row = np.array(array[number] if count else array)
            found[name] = in_batch(row, self.specs[name])
        return found
