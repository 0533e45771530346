"""Pictures that a network makes, and scores of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.answers import members
from vknn.answers.answer import Answer, Score
from vknn.answers.decoder import ACTIVATIONS, LAYOUTS, Decoder, Reading, activated, decoder
from vknn.answers.labels import Labels
from vknn.errors import VknnError

#: Sides of a picture that is made larger or smaller.
_MOST_SIDE = 1 << 15


@decoder("image", "pixels")
@dataclass(frozen=True, kw_only=True)
class Pixels(Decoder):
    """A picture of one or three channels: value * ``std`` + ``mean``, from 0 to 255.

    ``scale``: how much larger than the picture it is shown; None: as the network makes it. Of a
    padded input the picture's part is cut out.
    """

    image: str = members.text()
    layout: str = members.choice(LAYOUTS)
    channels: str = members.choice(("rgb", "bgr"))
    mean: tuple[float, ...] = members.numbers((0.0,))
    std: tuple[float, ...] = members.numbers((1.0,))
    scale: float | None = members.number(None, least=0.01, most=64)

    def decode(self, reading: Reading) -> Answer:
        planes = reading.planes(self.image, self.layout)
        if len(planes) not in (1, 3) or 0 in planes.shape:
            raise reading.misfit(self.image, "picture of 1 or 3 channels")
        if len(self.mean) not in (1, len(planes)) or len(self.std) not in (1, len(planes)):
            raise reading.misfit(self.image, "mean and std")
        if self.channels == "bgr":
            planes = planes[::-1]
        values = planes.transpose(1, 2, 0) * np.array(self.std) + np.array(self.mean)
        values = np.nan_to_num(values, nan=0.0, posinf=255.0, neginf=0.0)
        pixels = np.rint(values.clip(0, 255)).astype(np.uint8)
        pixels = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
        return Answer("image", reading.place.picture, image=self._shown(pixels, reading))

    def _shown(self, pixels: np.ndarray, reading: Reading) -> np.ndarray:
        """The picture's own part of the pixels, in the size that it is shown in."""
        from PIL import Image

        place = reading.place
        made = np.array(pixels.shape[1::-1])
        whole = np.array([(0.0, 0.0), place.picture])
        corners = place.to_input(whole) * made / np.array(place.size)
        (left, top), (right, bottom) = corners.clip(0, made)
        sides = np.maximum(1, np.rint([right - left, bottom - top]))
        if self.scale is not None:
            sides = np.maximum(1, np.rint(np.array(place.picture) * self.scale))
        if sides.max() > _MOST_SIDE:
            raise VknnError(f"the picture would have sides of {sides.tolist()} pixels")
        if tuple(sides) == tuple(made):
            return pixels
        size = (int(sides[0]), int(sides[1]))
        resized = Image.fromarray(pixels).resize(
            size, Image.Resampling.BICUBIC, box=(left, top, right, bottom)
        )
        return np.asarray(resized)


@decoder("classification", "scores")
@dataclass(frozen=True, kw_only=True)
class Scores(Decoder):
    """Scores of classes. ``outputs``: empty for all that are a vector."""

    outputs: tuple[str, ...] = members.texts(())
    activation: str = members.choice(ACTIVATIONS)

    def decode(self, reading: Reading) -> Answer:
        names = self.outputs or tuple(n for n, v in reading.outputs.items() if is_vector(v))
        found = tuple(score for name in names for score in self._best(reading, name))
        return Answer("classification", reading.place.picture, scores=found)

    def _best(self, reading: Reading, name: str) -> list[Score]:
        """The best classes of an output; NaN comes last."""
        labels, value = reading.labels, reading.value(name)
        if isinstance(value, dict):
            scores = np.array(list(value.values()), float)
            labels = labels or Labels([str(label) for label in value])
        else:
            if not is_vector(value):
                raise reading.misfit(name, "scores of classes")
            scores = activated(reading.array(name).reshape(-1), self.activation)
        labels = labels.fitted(len(scores), name)
        order = np.argsort(-scores, kind="stable")[: reading.most]
        return [
            Score(name, int(i), labels.of(int(i)), float(scores[i]))
            for i in order
            if not np.isnan(scores[i])
        ]


def is_vector(value: object) -> bool:
    """Whether an output is a vector of numbers, or a classifier's dictionary of scores."""
    if isinstance(value, dict):
        return True
    array = np.asarray(value)
    return array.dtype.kind in "fiu" and 1 < array.size == max(array.shape)
