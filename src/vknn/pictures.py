"""Pictures: read from files, and made arrays for a network."""

from __future__ import annotations

import io
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import InputError, VknnError, naming
from vknn.named_files import is_endless

RESIZES = ("stretch", "crop", "pad")
ORDERS = ("rgb", "bgr", "gray")
#: Shape of an input, None where an axis is free; None as a whole where nothing is known.
Hint = tuple[int | None, ...] | None

#: Formats whose files are one picture after the other in time. (A telephone's MPO is not: what
#: follows the picture in it are previews and depths.)
_SEQUENCES = ("GIF", "PNG", "WEBP", "TIFF", "AVIF")


class UnreadableFileError(InputError):
    """A file that is no array and no picture, or a damaged one."""


@dataclass(frozen=True)
class ImageOptions:
    """Conversion of a picture to an array: (value - mean) / std of values 0 to 255, by channel.

    ``size`` (width, height) None: the size the model asks for, or, where it asks for none or with
    ``own_size``, the picture's own, made smaller until no side is above ``longest`` and then the
    next ``multiple``. ``resize``: "stretch", "crop"
    (the middle, in the right proportions) or "pad" (the whole picture, around it ``fill``, by
    channel as the mean, or else the mean). ``border``:
    pixels around that, which repeat those at the edges. ``layout``: "chw", "hwc", or None: as the
    shape of the input has it. ``dtype``: that of the input; values are rounded to an integer one,
    and must be within it, or to float16 and the like.
    """

    size: tuple[int, int] | None = None
    resize: str = "stretch"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    order: str | None = None
    layout: str | None = None
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))
    multiple: int = 1
    longest: int | None = None
    border: int = 0
    own_size: bool = False
    fill: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Placement:
    """Place of a picture in the input that was made of it.

    Attributes:
        picture: Width and height of the picture.
        size: Width and height of the input, without a border.
        scale: Pixels of the input to a pixel of the picture, along x and y.
        offset: The picture's left upper corner in the input, x and y.
    """

    picture: tuple[int, int]
    size: tuple[int, int]
    scale: tuple[float, float]
    offset: tuple[float, float]

    def to_picture(self, points: np.ndarray) -> np.ndarray:
        """Points [..., 2] (x, y), in pixels of the input, in pixels of the picture."""
        return (points - np.array(self.offset)) / np.array(self.scale)

    def to_input(self, points: np.ndarray) -> np.ndarray:
        """Points [..., 2] (x, y), in pixels of the picture, in pixels of the input."""
        return points * np.array(self.scale) + np.array(self.offset)


def open_picture(path: Path, contents: bytes | None = None) -> Any:
    """The picture of a file as a PIL image: turned as its EXIF says, of 8 bits, on white.

    ``contents``: what the file holds, where it was read already. Raises UnreadableFileError, and
    InputError for a file of several pictures.
    """
    count, first = 0, None
    for count, picture in enumerate(open_pictures(path, contents), 1):
        if count > 1:
            if contents is not None:
                raise InputError(
                    f"{path} holds an animation or several pictures: a record is one picture, and "
                    "files of single ones are what vknn batch reads"
                )
            raise InputError(
                f"{path} has several pictures: vknn run MODEL {path} runs the model on each"
            )
        first = picture
    return first


def refuse_endless(path: Path) -> None:
    """Check: UnreadableFileError for pipes and devices, which Pillow and NumPy cannot seek in."""
    if is_endless(path):
        raise UnreadableFileError(f"{path}: this is a pipe or a device: save it to a file first")


def open_pictures(path: Path, contents: bytes | None = None) -> Iterator[Any]:
    """The pictures of a file, as :func:`open_picture`: of an animated one its frames in order."""
    with naming(str(path)):
        if contents is None:
            refuse_endless(path)
        try:
            from PIL import Image, ImageOps, UnidentifiedImageError
        except ImportError:
            raise VknnError(
                f"{path} is read as a picture, which needs Pillow: pip install pillow"
            ) from None
        try:
            with Image.open(path if contents is None else io.BytesIO(contents)) as file:
                sequence = file.format in _SEQUENCES and getattr(file, "is_animated", False)
                for number in range(file.n_frames if sequence else 1):
                    if number:
                        file.seek(number)
                    file.load()
                    yield flat_colours(ImageOps.exif_transpose(file))
        except FileNotFoundError:
            raise UnreadableFileError(f"{path}: no such file") from None
        except UnidentifiedImageError as error:
            if (mimetypes.guess_type(path.name)[0] or "").startswith("video/"):
                raise UnreadableFileError(
                    f"{path} is a video: vknn reads pictures; ffmpeg -i {path.name} "
                    "FOLDER/%05d.png makes them of its frames, and vknn run MODEL FOLDER runs the "
                    "model on all"
                ) from None
            if contents is not None:  # Pillow names the object in memory, by its address
                raise UnreadableFileError(f"{path} holds no picture that can be read") from error
            raise UnreadableFileError(
                f"{path} is neither .npy, .npz nor a picture: {error}"
            ) from error
        except VknnError as error:
            raise UnreadableFileError(f"{path}: {error}") from None
        except Exception as error:  # Pillow's readers of damaged files raise errors of many kinds
            what = "is neither .npy, .npz nor a picture"
            if contents is not None:
                what = "holds no picture that can be read"
            raise UnreadableFileError(f"{path} {what}: {error}") from error


#: Formats whose files Pillow knows, and of which it reads none: films, pages, and what it leaves to
#: programs of others, such as .h5.
_NO_PICTURES = frozenset(("MPEG", "PDF", "BUFR", "GRIB", "HDF5", "WMF"))


def is_picture(path: Path) -> bool:
    """Whether the name is one of a picture that can be read."""
    try:
        from PIL import Image
    except ImportError:
        return (mimetypes.guess_type(path.name)[0] or "").startswith("image/")
    found = Image.registered_extensions().get(path.suffix.lower())
    return found in Image.OPEN and found not in _NO_PICTURES


def picture_array(picture: Any, hint: Hint, options: ImageOptions) -> tuple[np.ndarray, Placement]:
    """A PIL image as [C, H, W] (or [H, W, C]), and where it lies in that. Raises InputError."""
    layout = options.layout or likely_layout(hint)
    channels, asked = _from_hint(hint, layout)
    order = options.order or ("gray" if channels == 1 else "rgb")
    mean = _by_channel(options.mean, order, "mean")
    std = _by_channel(options.std, order, "std")
    if not all(std):
        raise InputError("std must not be 0")
    around = _by_channel(options.fill or mean, order, "fill")
    # In the order of the picture's own channels.
    fill = tuple(round(m) for m in (around[::-1] if order == "bgr" else around))
    colours = flat_colours(picture).convert("L" if order == "gray" else "RGB")
    size = options.size or (None if options.own_size else asked)
    size = size or _own_size(colours.size, options)
    placement = placed(colours.size, size, options.resize)
    array = np.asarray(_resized(colours, placement, options.resize, fill), np.float32)
    array = array[:, :, None] if array.ndim == 2 else array
    array = array[:, :, ::-1] if order == "bgr" else array
    if options.border:
        array = np.pad(array, ((options.border,) * 2, (options.border,) * 2, (0, 0)), "edge")
    scaled = (array - np.array(mean, np.float32)) / np.array(std, np.float32)
    turned = scaled.transpose(2, 0, 1) if layout == "chw" else scaled
    return np.ascontiguousarray(_as_dtype(turned, options.dtype)), placement


def flat_colours(picture: Any) -> Any:
    """A PIL image of 8 bits a channel without transparency: what is transparent lies on white."""
    from PIL import Image

    if picture.mode == "F":
        raise UnreadableFileError("the picture has floating-point pixels: save them as .npy")
    if picture.mode.startswith("I"):
        values = np.asarray(picture).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise UnreadableFileError(
                "the picture has pixels of more than 16 bits: save them as .npy"
            )
        return Image.fromarray(np.rint(values / 257).astype(np.uint8))
    if picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
        seen = picture.convert("RGBA")
        ground = Image.new("RGBA", seen.size, "white")
        return Image.alpha_composite(ground, seen).convert("RGB")
    return picture


def placed(picture: tuple[int, int], size: tuple[int, int], how: str) -> Placement:
    """Place of a picture of (width, height) ``picture`` in an input of ``size``."""
    across, down = size[0] / picture[0], size[1] / picture[1]
    if how == "stretch":
        return Placement(picture, size, (across, down), (0.0, 0.0))
    if how == "crop":
        scale = max(across, down)
        left, top = ((s - p * scale) / 2 for s, p in zip(size, picture, strict=True))
        return Placement(picture, size, (scale, scale), (left, top))
    scale = min(across, down)
    inner = [min(s, max(1, round(p * scale))) for s, p in zip(size, picture, strict=True)]
    left, top = ((s - i) // 2 for s, i in zip(size, inner, strict=True))
    return Placement(
        picture, size, (inner[0] / picture[0], inner[1] / picture[1]), (float(left), float(top))
    )


def likely_layout(hint: Hint) -> str:
    """The layout of pictures in an input of this shape: "hwc" where only its last axis may be C."""
    if hint is None or len(hint) not in (3, 4):
        return "chw"
    first, _, last = hint[-3:]
    return "hwc" if last in (1, 3) and first not in (1, 3) else "chw"


def _own_size(picture: tuple[int, int], options: ImageOptions) -> tuple[int, int]:
    """Width and height where neither the model nor the options say them."""
    scale = min(1.0, (options.longest or max(picture)) / max(picture))
    width, height = (-(-max(1, round(p * scale)) // options.multiple) for p in picture)
    return width * options.multiple, height * options.multiple


def _as_dtype(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array as floats of the input's width, or rounded to its integers. Raises InputError."""
    if dtype.kind not in "iu":
        floats = dtype.kind == "f" or dtype.name == "bfloat16"
        return array.astype(dtype, copy=False) if floats else array
    info, rounded = np.iinfo(dtype), np.rint(array)
    if rounded.min() < info.min or rounded.max() > info.max:
        raise InputError(
            f"the input takes {dtype} and the picture has values from {array.min():g} to "
            f"{array.max():g}: (value - mean) / std must be within {info.min} and {info.max}; "
            f"for all of a picture use --mean {128 if info.min else 0} --std 1"
        )
    return rounded.astype(dtype)


def _from_hint(hint: Hint, layout: str) -> tuple[int | None, tuple[int, int] | None]:
    """Channels and (width, height) that the model asks for, as far as it says."""
    if hint is None or len(hint) not in (3, 4):
        return None, None
    axes = hint[-3:]
    channels, height, width = axes if layout == "chw" else (axes[2], axes[0], axes[1])
    known = height is not None and width is not None
    return channels, (width, height) if known else None  # type: ignore[return-value]


def _resized(picture: Any, place: Placement, how: str, fill: tuple[int, ...]) -> Any:
    """The picture in the size of the input."""
    from PIL import Image

    bilinear = Image.Resampling.BILINEAR
    if how == "stretch":
        return picture if picture.size == place.size else picture.resize(place.size, bilinear)
    if how == "crop":
        ends = place.to_picture(np.array([(0.0, 0.0), place.size]))
        box = ends.clip(0, place.picture).reshape(-1).tolist()
        return picture.resize(place.size, bilinear, box=tuple(box))
    inner = tuple(round(p * s) for p, s in zip(place.picture, place.scale, strict=True))
    whole = Image.new(picture.mode, place.size, fill if len(fill) > 1 else fill[0])
    corner = (int(place.offset[0]), int(place.offset[1]))
    whole.paste(picture.resize(inner, bilinear), corner)
    return whole


def _by_channel(values: tuple[float, ...], order: str, what: str) -> tuple[float, ...]:
    count = 1 if order == "gray" else 3
    if len(values) not in (1, count):
        wanted = f"1 or {count} numbers" if count > 1 else "1 number where the channels are gray"
        own = "" if count > 1 else "; where those are of a recipe, give others"
        raise InputError(f"--{what} takes {wanted}, not {len(values)}{own}")
    return values * count if len(values) == 1 else values
