"""Files of a model: what a worker on another machine needs to open it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vknn import environment
from vknn.errors import ModelFormatError, VknnError
from vknn.scale.options import Predictor

#: Endings of second files that lie beside a model under its name (ncnn, OpenVINO, recipes).
_BESIDE = (".bin", ".recipe.json")
_BLOCK = 1 << 20


def model_files(
    model: str | os.PathLike[str], weights: str | os.PathLike[str] | None
) -> list[Path]:
    """The model file, its weights, and what lies beside it. Raises ModelFormatError."""
    path = Path(model)
    found = [path, *([Path(weights)] if weights is not None else [])]
    for file in found:
        if not file.is_file():
            raise ModelFormatError("there is no such file", file=str(file))
    for ending in _BESIDE:
        for beside in (path.with_suffix(ending), path.with_name(path.name + ending)):
            if beside.is_file() and beside not in found:
                found.append(beside)
    return found


def digest(files: list[Path]) -> str:
    """SHA-256 of files, one after the other."""
    found = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
    return found.hexdigest()


@dataclass(frozen=True)
class ModelCopy:
    """Files of a predictor as they are sent to workers: once, by their hash. Can be pickled.

    Attributes:
        name: Hash of all of them.
        fetch: Gives their contents by name, where the machine does not have them yet.
        model: Name of the model file.
        weights: Name of its second file, where it was given.
        layers: Names of the files with layers of one's own.
        recipe: Name of the recipe, where it is a file.
        labels: Name of the labels, where they are a file.
    """

    name: str
    fetch: Callable[[], Mapping[str, bytes]]
    model: str
    weights: str | None
    layers: tuple[str, ...]
    recipe: str | None
    labels: str | None

    def predictor(self, predictor: Predictor) -> Predictor:
        """The predictor with files of this machine, which are written where they are missing."""
        folder = _cache() / self.name
        if not folder.is_dir():
            self._write(folder)

        def here(name: str | None, otherwise: Any) -> Any:
            return otherwise if name is None else folder / name

        return replace(
            predictor,
            model=folder / self.model,
            weights=here(self.weights, None),
            layers=tuple(folder / name for name in self.layers),
            recipe=here(self.recipe, predictor.recipe),
            labels=here(self.labels, predictor.labels),
        )

    def _write(self, folder: Path) -> None:
        """Writing of the files, all or none: other processes may do so as well."""
        contents = self.fetch()
        if _hash(contents) != self.name:
            raise VknnError("the model's files were damaged on their way to this machine")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".copy-") as made:
            inside = Path(made) / "files"
            for name, data in contents.items():
                file = inside / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            try:
                inside.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise


def contents_of(predictor: Predictor) -> tuple[dict[str, bytes], ModelCopy]:
    """The contents of a predictor's files by name, and a copy that lacks its ``fetch``."""
    files = model_files(predictor.model, predictor.weights)
    held = {path.name: path.read_bytes() for path in files}
    layers = []
    for number, layer in enumerate(predictor.layers):
        layers.append(f"layers/{number}-{Path(layer).name}")
        held[layers[-1]] = Path(layer).read_bytes()
    recipe = _small(predictor.recipe, "given.recipe.json", held)
    labels = _small(predictor.labels, "labels.txt", held)
    weights = None if predictor.weights is None else Path(predictor.weights).name
    copy = ModelCopy(_hash(held), dict, files[0].name, weights, tuple(layers), recipe, labels)
    return held, copy


def _small(given: Any, name: str, held: dict[str, bytes]) -> str | None:
    """Name of a file that was given among the contents; None where it is none."""
    if not isinstance(given, str | os.PathLike) or not Path(given).is_file():
        return None
    held[name] = Path(given).read_bytes()
    return name


def _hash(contents: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for name in sorted(contents):
        found.update(f"{name} {len(contents[name])}\n".encode())
        found.update(contents[name])
    return found.hexdigest()


def _cache() -> Path:
    """Folder for models that came from other machines."""
    folder = environment.read().cache_path()
    return (Path(tempfile.gettempdir()) / "vknn" if folder is None else Path(folder)) / "models"
