"""Drawings of answers, with Pillow."""

from __future__ import annotations

import colorsys
import os
import unicodedata
from typing import Any

import numpy as np

from vknn.answers.answer import Answer, Found
from vknn.errors import VknnError
from vknn.pictures import flat_colours

#: Pictures whose longer side is less are made larger before anything is written on them.
_LEAST_SIDE = 320
#: Lines of a legend.
_MOST_LINES = 12
_MASK_SHARE = 0.55
Colour = tuple[int, int, int]


def draw(picture: Any, answer: Answer, font: str | os.PathLike[str] | None = None) -> Any:
    """The answer drawn on the picture: boxes, keypoints, a mask, labels; or the picture made.

    Args:
        picture: The PIL image that the answer is about.
        answer: What a network says of it.
        font: A font's file, for labels in scripts that Pillow's own font has no letters of.

    Returns:
        A new PIL image in RGB. A picture of less than 320 pixels is made larger, so that text on
        it can be read.

    Raises:
        vknn.VknnError: The font cannot be read.
    """
    from PIL import Image, ImageDraw

    if answer.image is not None:
        return Image.fromarray(answer.image)
    drawn = flat_colours(picture).convert("RGB")
    if answer.mask is not None:
        drawn = _masked(drawn, answer.mask)
    factor = max(1, -(-_LEAST_SIDE // max(drawn.size)))
    if factor > 1:
        size = (drawn.width * factor, drawn.height * factor)
        drawn = drawn.resize(size, Image.Resampling.NEAREST)
    pen = _Pen(ImageDraw.Draw(drawn), drawn.size, factor, font)
    for index, thing in reversed(list(enumerate(answer.found))):  # the surest on top
        # People have no class: each has a colour of his own.
        pen.thing(thing, answer, colour_of(index if thing.box is None else thing.number))
    lines = [(f"{s.text} {s.score:.3g}", colour_of(s.number)) for s in answer.scores]
    lines += [(f"{s.text} {100 * s.share:.1f} %", colour_of(s.number)) for s in answer.shares]
    pen.legend(lines[:_MOST_LINES])
    return drawn


def colour_of(number: int | None) -> Colour:
    """A colour for a class; neighbours differ. Class 0 of a mask is mostly the background."""
    hue = (0.33 + 0.618034 * (number or 0)) % 1.0
    value = 1.0 if (number or 0) % 2 == 0 else 0.85
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.85, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def _masked(picture: Any, mask: np.ndarray) -> Any:
    """The picture with each class but 0 in its colour."""
    from PIL import Image

    pixels = np.asarray(picture, np.float32)
    numbers, which = np.unique(mask, return_inverse=True)
    colours = np.array([colour_of(int(n)) for n in numbers], np.float32)
    share = np.where(numbers == 0, 0.0, _MASK_SHARE).astype(np.float32)
    which = which.reshape(mask.shape)
    weight = share[which][:, :, None]
    mixed = pixels * (1 - weight) + colours[which] * weight
    return Image.fromarray(np.rint(mixed).astype(np.uint8))


class _Pen:
    """Lines and texts on a picture of some size; ``factor``: pixels to one of the answer's."""

    def __init__(
        self,
        pen: Any,
        size: tuple[int, int],
        factor: int,
        font: str | os.PathLike[str] | None,
    ) -> None:
        self.pen, self.size, self.factor = pen, size, factor
        side = max(size)
        self.width = max(2, side // 250)
        self.font = _font(max(12, side // 40), font)

    def thing(self, thing: Found, answer: Answer, colour: Colour) -> None:
        """A box with its label, and keypoints."""
        if thing.box is not None:
            left, top, right, bottom = (side * self.factor for side in thing.box)
            corners = [left, top, max(left, right - 1), max(top, bottom - 1)]
            grown = [left - 1, top - 1, corners[2] + 1, corners[3] + 1]
            self.pen.rectangle(grown, outline=(0, 0, 0), width=self.width + 2)
            self.pen.rectangle(corners, outline=colour, width=self.width)
            self.label(left, top, f"{thing.text} {thing.score:.2f}".strip(), colour)
        seen = {
            index: (point.x * self.factor, point.y * self.factor)
            for index, point in enumerate(thing.points)
            if point.is_found and (point.score is None or point.score >= answer.threshold)
        }
        for first, second in answer.skeleton:
            if first in seen and second in seen:
                ends = [seen[first], seen[second]]
                self.pen.line(ends, fill=(0, 0, 0), width=self.width + 2)
                self.pen.line(ends, fill=colour, width=self.width)
        radius = self.width if len(seen) > 40 else 2 * self.width
        for index, (x, y) in seen.items():
            spot = [x - radius, y - radius, x + radius, y + radius]
            inside = colour_of(index) if len(seen) <= 40 else colour
            self.pen.ellipse(spot, fill=inside, outline=(0, 0, 0))

    def legend(self, lines: list[tuple[str, Colour]]) -> None:
        """Lines of text in the upper left corner."""
        y = 0.0
        for text, colour in lines:
            y = self.label(0, y, text, colour, inside=True)

    def label(self, x: float, y: float, text: str, colour: Colour, inside: bool = False) -> float:
        """Text on a ground of its own, above a point or below where it would leave the picture.

        The result is where the ground ends.
        """
        text = drawable(text, self.font)
        left, top, right, bottom = self.pen.textbbox((0, 0), text or " ", font=self.font)
        width, height = right - left + 6, bottom - top + 6
        x = min(max(0, x), max(0, self.size[0] - width))
        y = y if inside or y < height else y - height
        y = min(y, max(0, self.size[1] - height))
        self.pen.rectangle([x, y, x + width, y + height], fill=colour)
        self.pen.text((x + 3 - left, y + 3 - top), text, fill=_ink(colour), font=self.font)
        return float(y + height + 1)


def _ink(ground: Colour) -> Colour:
    """Black or white, whichever can be read on the ground."""
    red, green, blue = ((part / 255) ** 2.2 for part in ground)
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    # Where the contrasts (light + 0.05) / 0.05 and 1.05 / (light + 0.05) are the same.
    return (0, 0, 0) if light > 0.179 else (255, 255, 255)


def _font(size: int, file: str | os.PathLike[str] | None) -> Any:
    """The font of a file, or Pillow's default one, in this size where it has sizes."""
    from PIL import ImageFont

    if file is not None:
        try:
            return ImageFont.truetype(os.fspath(file), size)
        except (OSError, ImportError) as error:
            raise VknnError(f"{os.fspath(file)} cannot be read as a font: {error}") from error
    try:
        return ImageFont.load_default(size)
    except TypeError:  # before Pillow 10.1 there is one size
        return ImageFont.load_default()


def drawable(text: str, font: Any) -> str:
    """The text as far as the font has letters: without accents, then "?", where it has none."""
    return "".join(_letter(c, font) for c in text)


def _letter(letter: str, font: Any) -> str:
    if not letter.isprintable():
        return " "
    if _has(letter, font):
        return letter
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(c)
    )
    return plain if plain and all(_has(c, font) for c in plain) else "?"


def _has(letter: str, font: Any) -> bool:
    """Whether a font has the letter: it is drawn otherwise than what is no letter."""
    if letter.isascii():
        return True
    if not hasattr(font, "getmask2"):  # the old font of one size, of Latin-1
        return ord(letter) < 256
    try:
        return bytes(font.getmask(letter)) != bytes(font.getmask("\U0010fffd"))
    except (UnicodeEncodeError, OSError):
        return False
