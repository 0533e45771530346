"""Files that a model is run on one after the other, and where drawings of them go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vknn.cli.inputs import is_array
from vknn.errors import InputError, VknnError
from vknn.named_files import named, replacing
from vknn.pictures import UnreadableFileError, open_pictures


@dataclass(frozen=True)
class Shot:
    """An array's file, or a picture. ``frame``: its number in a file of several, from 0."""

    path: Path
    picture: Any = None
    frame: int | None = None

    @property
    def text(self) -> str:
        """The file, and the frame where there are several."""
        return str(self.path) if self.frame is None else f"{self.path}#{self.frame}"


def shots(files: Sequence[Path]) -> Iterator[Shot | UnreadableFileError]:
    """The files in their order; of animated pictures each frame; errors where one is damaged."""
    for path in files:
        if is_array(path):
            yield Shot(path)
            continue
        try:
            yield from _frames(path)
        except UnreadableFileError as error:
            yield error


def _frames(path: Path) -> Iterator[Shot]:
    """The pictures of a file, with numbers where there are several."""
    pictures = enumerate(open_pictures(path))
    first = next(pictures, None)
    second = next(pictures, None)
    for found in (first, second):
        if found is not None:
            yield Shot(path, found[1], None if second is None else found[0])
    for number, picture in pictures:
        yield Shot(path, picture, number)


class Drawings:
    """Files for drawings: the one that --draw names, or one for each picture in its folder.

    ``files``: those that must not be written over; ``many``: whether there will be several
    drawings. Raises InputError where they cannot be kept.
    """

    def __init__(self, target: Path, files: Sequence[Path], many: bool) -> None:
        self.target, self.sources = target, {path.resolve() for path in files}
        self.whole = target.is_dir() or not target.suffix
        self._taken: set[Path] = set()
        if self.whole:
            return
        if many:
            raise InputError(
                f"--draw {target} is one file and there are {len(files)}: give it a folder"
            )
        if target.suffix.lower() not in _formats():
            raise InputError(
                f"--draw {target}: Pillow writes no such pictures; .png and .jpg are some it does"
            )

    def save(self, shot: Shot, drawn: Any) -> Path:
        """The drawing in its file. Raises InputError before a picture itself is written over."""
        path = self._path(shot)
        if path.resolve() in {*self.sources, shot.path.resolve()}:
            raise InputError(f"--draw would write over the picture {path}: give another folder")
        with named(path):
            if self.whole:
                path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with replacing(path) as file:
                    drawn.save(file, _formats()[path.suffix.lower()])
            except ValueError as error:
                raise VknnError(f"{path} cannot be written: {error}") from error
        return path

    def _path(self, shot: Shot) -> Path:
        if not self.whole:
            if shot.frame is not None:
                raise InputError(
                    f"{shot.path} has several frames and --draw {self.target} is one file: "
                    "give it a folder"
                )
            return self.target
        frame = "" if shot.frame is None else f"-{shot.frame:05d}"
        stem, number = f"{shot.path.stem}{frame}", 1
        path = self.target / f"{stem}.png"
        while path in self._taken:
            number += 1
            path = self.target / f"{stem}-{number}.png"
        self._taken.add(path)
        return path


def _formats() -> dict[str, str]:
    """Pillow's formats of pictures that can be written, by the endings of files."""
    from PIL import Image

    found = Image.registered_extensions().items()
    return {ending: kind for ending, kind in found if kind in Image.SAVE and kind != "PDF"}
