"""FakeQuantize against the specification's formula in float32."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, refuse

from vknn.errors import ModelFormatError

SHAPE = (2, 3, 4, 5)


def quantized(x: np.ndarray, levels: int, *limits: np.ndarray) -> np.ndarray:
    low, high, out_low, out_high = (np.broadcast_to(v, x.shape) for v in limits)
    steps = np.float32(levels - 1)
    with np.errstate(all="ignore"):
        y = np.rint((x - low) / (high - low) * steps) / steps * (out_high - out_low) + out_low
    y = np.where(x > high, out_high, y)
    return np.where(x <= low, out_low, y).astype(np.float32)


def limits(shape: tuple[int, ...], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1.5, -0.5, shape)
    found = (
        low,
        low + rng.uniform(0.5, 2, shape),
        rng.uniform(-2, 1, shape),
        rng.uniform(1, 3, shape),
    )
    return [np.asarray(v, np.float32) for v in found]


def made(*shape: int) -> np.ndarray:
    values = np.random.default_rng(shape).standard_normal(shape)
    return np.asarray(values, np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_forms(backend: str, tmp_path: Path) -> None:
    """Limits of every shape that broadcasts, constant and computed."""
    many = Many(1e-6)
    x = made(*SHAPE)
    shapes = ((), (1,), (1, 1, 1, 1), (1, 3, 1, 1), (3, 1, 1), (5,), (2, 3, 4, 5), (4, 1))
    for number, (shape, levels) in enumerate(itertools.product(shapes, (2, 255))):
        given = limits(shape, number)
        y = quantized(x, levels, *given)
        fixed = [Fixed(v) for v in given] if number % 3 else given
        name = "FakeQuantize" if levels > 2 else "Quantize"
        many.add(name, [x, *fixed], y, {"levels": levels})
    for rank in (1, 2, 3, 5):
        x = made(*(2, 3, 4, 5, 2)[:rank])
        mixed = [limits(s, rank)[k] for k, s in enumerate(((), (1,) * rank, (1,), x.shape))]
        fixed = [Fixed(v) for v in mixed]
        many.add("FakeQuantize", [x, *fixed], quantized(x, 9, *mixed), {"levels": 9})
    x = made(2, 3, 4, 4)
    given = limits((3,), 7)  # numbers of channels, although they stand last
    y = quantized(x, 7, *(v.reshape(3, 1, 1) for v in given))
    many.add("FakeQuantize", [x, *map(Fixed, given)], y, {"levels": 7})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_binarization(backend: str, tmp_path: Path) -> None:
    """Equal limits of the input are a threshold."""
    many = Many()
    x = made(*SHAPE)
    x[0, :, 0, 0] = 0.25
    for number, (constant, outputs) in enumerate(
        itertools.product((True, False), ((0.0, 1.0), (-1.0, 1.0), (1.0, 0.0)))
    ):
        middle = np.full((1, 3, 1, 1), 0.25, np.float32) + np.arange(3).reshape(1, 3, 1, 1) * number
        middle = middle.astype(np.float32)
        low, high = np.float32(outputs[0]), np.float32(outputs[1])
        given = [middle, middle.copy(), np.full((1, 1, 1, 1), low), np.full((1, 1, 1, 1), high)]
        y = np.where(x > middle, high, low).astype(np.float32)
        fixed = [Fixed(v) for v in given] if constant else given
        many.add("FakeQuantize", [x, *fixed], y, {"levels": 2})
    # Some channels have a range, some none.
    low = np.float32([-1, 0.5, 0]).reshape(1, 3, 1, 1)
    high = np.float32([1, 0.5, 2]).reshape(1, 3, 1, 1)
    given = [low, high, np.float32(-1).reshape(1), np.float32(3).reshape(1)]
    many.add("FakeQuantize", [x, *map(Fixed, given)], quantized(x, 5, *given), {"levels": 5})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_halves_go_to_the_even_level(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = np.arange(-2, 12, dtype=np.float32).reshape(2, 7) / 2
    given = [np.float32(v).reshape(1) for v in (0, 4, 0, 4)]
    y = quantized(x, 5, *given)
    assert y[0, 3] == 0 and y[0, 5] == 2
    many.add("FakeQuantize", [x, *map(Fixed, given)], y, {"levels": 5})
    many.check(backend, tmp_path)


def test_contradictions(tmp_path: Path) -> None:
    x, one = made(2, 3), Fixed(np.float32([1]))
    good = [x, one, one, one, one]
    refuse(tmp_path, "FakeQuantize", good, [(2, 3)], {"levels": 1}, "levels")
    refuse(tmp_path, "FakeQuantize", good, [(2, 3)], {}, "has no levels", ModelFormatError)
    four = Fixed(np.ones(4, np.float32))
    refuse(tmp_path, "FakeQuantize", [x, four, one, one, one], [(2, 3)], {"levels": 2}, "broadcast")
    large = Fixed(np.ones((5, 2, 3), np.float32))
    wrong = [x, one, one, one, large]
    refuse(tmp_path, "FakeQuantize", wrong, [(2, 3)], {"levels": 2}, "broadcast")
