"""Arrays and images from files."""

from __future__ import annotations

import argparse
import dataclasses
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import InputError, naming
from vknn.pictures import (
    ORDERS,
    RESIZES,
    Hint,
    ImageOptions,
    UnreadableFileError,
    is_picture,
    open_picture,
    picture_array,
    refuse_endless,
)

_ARRAYS = (".npy", ".npz")


def add_image_arguments(parser: argparse.ArgumentParser) -> None:
    """The options for images."""
    group = parser.add_argument_group(
        "pictures",
        "(value - mean) / std of values from 0 to 255; what is not given is as the recipe says "
        "(vknn run), else as in brackets",
    )
    group.add_argument("--size", type=_size, metavar="WxH", help="size (what the model asks for)")
    group.add_argument("--resize", choices=RESIZES, help="how to get there (stretch)")
    group.add_argument("--mean", type=_numbers, metavar="N[,N,N]", help="of each channel (0)")
    group.add_argument("--std", type=_numbers, metavar="N[,N,N]", help="of each channel (1)")
    group.add_argument(
        "--channels", choices=ORDERS, help="their order, also in --mean and --std (rgb)"
    )
    group.add_argument("--layout", choices=("chw", "hwc"), help="axes (as the model's input)")


def image_options(args: argparse.Namespace, otherwise: ImageOptions | None = None) -> ImageOptions:
    """The options given; the others are those of ``otherwise``."""
    given = {
        "size": args.size,
        "resize": args.resize,
        "mean": args.mean,
        "std": args.std,
        "order": args.channels,
        "layout": args.layout,
    }
    known = {key: value for key, value in given.items() if value is not None}
    return dataclasses.replace(otherwise or ImageOptions(), **known)


def is_array(path: Path) -> bool:
    """Whether the name is one of NumPy's files."""
    return path.suffix.lower() in _ARRAYS


def read_input(path: Path, name: str, hint: Hint, options: ImageOptions) -> np.ndarray:
    """The array for an input from a .npy, a .npz that holds it, or a picture."""
    with naming(str(path)):
        if not is_array(path):
            return picture_array(open_picture(path), hint, options)[0]
        if path.suffix.lower() == ".npy":
            return _load(path)
        arrays = read_npz(path)
        if name not in arrays and len(arrays) != 1:
            raise InputError(f"{path} has no array {name!r}; it has {', '.join(arrays) or 'none'}")
        return arrays[name] if name in arrays else next(iter(arrays.values()))


def read_npz(path: Path) -> Mapping[str, np.ndarray]:
    """All arrays of a .npz."""
    with naming(str(path)):
        archive = _load(path)
        try:
            return {key: archive[key] for key in archive.files}
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UnreadableFileError(f"{path} cannot be read: {error}") from error


def _load(path: Path) -> Any:
    refuse_endless(path)
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UnreadableFileError(f"{path}: no such file") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UnreadableFileError(f"{path} is no NumPy file: {error}") from error


def expanded(paths: Iterable[Path]) -> list[Path]:
    """The files, and for each folder the arrays and pictures in it by name. Raises InputError."""
    found: list[Path] = []
    for path in paths:
        inside = [path]
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.is_file() and _is_input(p))
            if not inside:
                raise InputError(f"{path}: there are no arrays and no pictures in this folder")
        found += inside
    return found


def _is_input(path: Path) -> bool:
    return not path.name.startswith(".") and (is_array(path) or is_picture(path))


def _size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdecimal() and 0 < int(p) <= 1 << 15 for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 224x224")
    return int(parts[0]), int(parts[1])


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list such as 104,117,123") from None
