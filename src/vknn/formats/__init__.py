"""Model formats: loading of a file as a :class:`Model`.

A format is a package in this directory that defines ``FORMAT``, a :class:`Format`; it is found by
that alone.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.errors import ModelFormatError, OutOfMemoryError, VknnError
from vknn.formats.identify import identify, identify_directory, remedy
from vknn.formats.model import BoxOutputs, Model, TensorSpec
from vknn.formats.regular_file import refuse_special

__all__ = ["BoxOutputs", "Format", "Model", "TensorSpec", "formats", "load"]

_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Format:
    """A model format.

    ``recognizes``: whether the first bytes of a file may be of this format. ``suffixes``: those of
    its main file, lower case, with the dot. ``load``: reads the main file and the weights file
    (None: the default one). ``has_layer``: whether the format has a built-in layer of this name.
    """

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes], bool]
    load: Callable[[Path, Path | None], Model]
    has_layer: Callable[[str], bool] = lambda name: False


@functools.cache
def formats() -> tuple[Format, ...]:
    """All formats, in alphabetical order of their packages."""
    packages = [m.name for m in pkgutil.iter_modules(__path__) if m.ispkg]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in sorted(packages)]
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))


def load(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> Model:
    """The model in a file; ``weights``: its second file, by default the one beside the first.

    Raises ModelFormatError for files that are missing, damaged or of no known format, and
    UnsupportedLayerError for layers that vknn cannot run. A folder that ``vknn reduce`` wrote is
    a model, too.
    """
    path, weights = as_path(path), None if weights is None else as_path(weights)
    path = _main_file(path)
    head = _read_head(path)
    claims = [f for f in formats() if f.recognizes(head)]
    named = [f for f in formats() if path.name.lower().endswith(f.suffixes)]
    # The content decides. A format that claims a file by suffix alone reports the error in it.
    chosen = [f for f in claims if f in named] or claims or named
    if not chosen or (not claims and not _worth_trying(head)):
        known = ", ".join(f"{f.name} ({', '.join(f.suffixes)})" for f in formats())
        advice = remedy(head, path.name)
        raise ModelFormatError(
            f"this is {identify(head)}, not a model that vknn reads: {known}"
            + (f"; {advice}" if advice else ""),
            file=str(path),
        )
    try:
        with np.errstate(all="ignore"):
            return chosen[0].load(path, None if weights is None else Path(weights))
    except MemoryError as error:
        if isinstance(error, VknnError):
            raise
        raise OutOfMemoryError(f"{path}: host memory is exhausted by reading it") from error


def _main_file(path: Path) -> Path:
    """The model's file, which in a folder that ``vknn reduce`` wrote is graph.json."""
    inside = path / "graph.json"
    # os.path: a name that is too long is no file, and whoever opens it says so.
    return inside if os.path.isfile(inside) else path


def as_path(file: str | os.PathLike[str]) -> Path:
    """``file`` as a Path; raises ModelFormatError for what names no file."""
    try:
        path = Path(file)
        os.stat(path)
    except OSError:  # whoever opens it says more
        return path
    except (TypeError, ValueError) as error:
        raise ModelFormatError(f"{_short(file)} is not the path of a file: {error}") from None
    return path


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}..."


def _worth_trying(head: bytes) -> bool:
    """Whether a file is text: the error of a format's own reader is then more helpful."""
    return bool(head) and identify(head).startswith("a text file")


def _read_head(path: Path) -> bytes:
    refuse_special(path)
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise ModelFormatError("no such file", file=str(path)) from None
    except OSError as error:
        if os.path.isdir(path):  # Windows denies access to it, as to files of other users
            raise ModelFormatError(identify_directory(path.name), file=str(path)) from None
        raise ModelFormatError(f"cannot be read: {error.strerror}", file=str(path)) from error
