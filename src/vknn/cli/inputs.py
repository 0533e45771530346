"""Arrays and images from files."""

from __future__ import annotations

import argparse
import mimetypes
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import InputError, VknnError

RESIZES = ("stretch", "crop", "pad")
ORDERS = ("rgb", "bgr", "gray")


@dataclass(frozen=True)
class ImageOptions:
    """Conversion of a picture to an array: (value - mean) / std of values 0 to 255, by channel.

    ``size`` (width, height) None: the size the model asks for, or the picture's own. ``resize``:
    "stretch", "crop" (the middle, in the right proportions) or "pad" (the whole picture, mean
    around it). ``layout``: "chw", "hwc", or None: as the shape of the input has it. ``dtype``: that
    of the input; values are rounded to an integer one, and must be within it.
    """

    size: tuple[int, int] | None = None
    resize: str = "stretch"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    order: str | None = None
    layout: str | None = None
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))


def add_image_arguments(parser: argparse.ArgumentParser) -> None:
    """The options for images."""
    group = parser.add_argument_group("images", "(value - mean) / std of values from 0 to 255")
    group.add_argument("--size", type=_size, metavar="WxH", help="size (what the model asks for)")
    group.add_argument("--resize", choices=RESIZES, default="stretch", help="how to get there")
    group.add_argument("--mean", type=_numbers, default=(0.0,), metavar="N[,N,N]")
    group.add_argument("--std", type=_numbers, default=(1.0,), metavar="N[,N,N]")
    group.add_argument("--channels", choices=ORDERS, help="order of the channels (rgb)")
    group.add_argument("--layout", choices=("chw", "hwc"), help="axes (as the model's input)")


def image_options(args: argparse.Namespace) -> ImageOptions:
    return ImageOptions(args.size, args.resize, args.mean, args.std, args.channels, args.layout)


def read_input(
    path: Path, name: str, hint: tuple[int | None, ...] | None, options: ImageOptions
) -> np.ndarray:
    """The array for an input from a .npy, a .npz that holds it, or a picture."""
    if path.suffix == ".npz":
        arrays = read_npz(path)
        if name not in arrays and len(arrays) != 1:
            raise InputError(f"{path} has no array {name!r}; it has {', '.join(arrays)}")
        return arrays[name] if name in arrays else next(iter(arrays.values()))
    if path.suffix == ".npy":
        return _load(path)
    return read_image(path, hint, options)


def read_npz(path: Path) -> Mapping[str, np.ndarray]:
    """All arrays of a .npz."""
    archive = _load(path)
    try:
        return {key: archive[key] for key in archive.files}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is no NumPy file: {error}") from error


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
    kind = mimetypes.guess_type(path.name)[0] or ""
    return path.suffix in (".npy", ".npz") or kind.startswith("image/")


def read_image(
    path: Path, hint: tuple[int | None, ...] | None, options: ImageOptions
) -> np.ndarray:
    """A picture as [C, H, W] (or [H, W, C])."""
    picture = _open(path)
    layout = options.layout or likely_layout(hint)
    channels, asked = _from_hint(hint, layout)
    order = options.order or ("gray" if channels == 1 else "rgb")
    mean = _by_channel(options.mean, order, "mean")
    std = _by_channel(options.std, order, "std")
    if not all(std):
        raise InputError("std must not be 0")
    picture = picture.convert("L" if order == "gray" else "RGB")
    size = options.size or asked
    if size is not None:
        # "pad" fills with the mean, in the order of the picture's own channels.
        fill = mean[::-1] if order == "bgr" else mean
        picture = _resized(picture, size, options.resize, tuple(round(m) for m in fill))
    array = np.asarray(picture, np.float32)
    array = array[:, :, None] if array.ndim == 2 else array
    array = array[:, :, ::-1] if order == "bgr" else array
    scaled = (array - np.array(mean, np.float32)) / np.array(std, np.float32)
    turned = scaled.transpose(2, 0, 1) if layout == "chw" else scaled
    return np.ascontiguousarray(_as_dtype(turned, options.dtype))


def likely_layout(hint: tuple[int | None, ...] | None) -> str:
    """The layout of pictures in an input of this shape: "hwc" where only its last axis may be C."""
    if hint is None or len(hint) not in (3, 4):
        return "chw"
    first, _, last = hint[-3:]
    return "hwc" if last in (1, 3) and first not in (1, 3) else "chw"


def _as_dtype(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array, where the input takes small integers rounded to them. Raises InputError."""
    if dtype.kind not in "iu":
        return array
    info, rounded = np.iinfo(dtype), np.rint(array)
    if rounded.min() < info.min or rounded.max() > info.max:
        raise InputError(
            f"the input takes {dtype} and the picture has values from {array.min():g} to "
            f"{array.max():g}: (value - mean) / std must be within {info.min} and {info.max}"
        )
    return rounded.astype(dtype)


def _open(path: Path) -> Any:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise VknnError(
            f"{path} is read as a picture, which needs Pillow: pip install pillow"
        ) from None
    try:
        with Image.open(path) as picture:
            picture.load()
            return ImageOps.exif_transpose(picture)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnidentifiedImageError as error:
        if (mimetypes.guess_type(path.name)[0] or "").startswith("video/"):
            raise InputError(f"{path} is a video: vknn reads pictures, as its frames are") from None
        raise InputError(f"{path} is neither .npy, .npz nor a picture: {error}") from error
    except (Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise InputError(f"{path} is neither .npy, .npz nor a picture: {error}") from error


def _from_hint(
    hint: tuple[int | None, ...] | None, layout: str
) -> tuple[int | None, tuple[int, int] | None]:
    """Channels and (width, height) that the model asks for, as far as it says."""
    if hint is None or len(hint) not in (3, 4):
        return None, None
    axes = hint[-3:]
    channels, height, width = axes if layout == "chw" else (axes[2], axes[0], axes[1])
    known = height is not None and width is not None
    return channels, (width, height) if known else None  # type: ignore[return-value]


def _resized(picture: Any, size: tuple[int, int], how: str, fill: tuple[int, ...]) -> Any:
    from PIL import Image, ImageOps

    bilinear = Image.Resampling.BILINEAR
    if how == "stretch":
        return picture.resize(size, bilinear)
    if how == "crop":
        return ImageOps.fit(picture, size, bilinear)
    return ImageOps.pad(picture, size, bilinear, color=fill if len(fill) > 1 else fill[0])


def _by_channel(values: tuple[float, ...], order: str, what: str) -> tuple[float, ...]:
    count = 1 if order == "gray" else 3
    if len(values) not in (1, count):
        raise InputError(f"--{what} takes 1 or {count} numbers, not {len(values)}")
    return values * count if len(values) == 1 else values


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
