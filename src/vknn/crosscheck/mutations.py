"""Mutations of inputs, for a search for those that a device gets wrong: each changes one array.

Floats are scaled, thinned out, made constant, set to extremes or to subnormal numbers. Integers
keep to the numbers that inputs had at first: they may be indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

#: A generator of random numbers, an array, and the numbers of the same input at first.
Mutation = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
#: Exponents of 2 of factors are drawn with this spread, and constants among these.
_SPREAD = 6.0
_CONSTANTS = (0.0, 1.0, -1.0, 0.5, 255.0, 65504.0, 1e-3, 1e6)
_LARGEST, _SMALLEST = 1e15, 1e-15
_SUBNORMAL = 1e-40


def mutated(
    random: np.random.Generator,
    feeds: Mapping[str, np.ndarray],
    first: Mapping[str, np.ndarray],
    wanted: str | None = None,
) -> tuple[dict[str, np.ndarray], str]:
    """Inputs of which one array is changed, and the name of the mutation.

    Args:
        random: It decides all; the same state gives the same inputs.
        feeds: The arrays to start from.
        first: Arrays that the search began with.
        wanted: The mutation to take, where it is one for the array; None: any.
    """
    names = [name for name, array in feeds.items() if array.size and array.dtype.kind in "fiub"]
    if not names:
        return dict(feeds), "none"
    name = names[int(random.integers(len(names)))]
    array = feeds[name]
    kinds = FLOATS if array.dtype.kind == "f" else INTEGERS
    chosen = wanted if wanted in kinds else list(kinds)[int(random.integers(len(kinds)))]
    with np.errstate(all="ignore"):
        made = np.asarray(kinds[chosen](random, array, first[name]), array.dtype)
    return {**feeds, name: made.reshape(array.shape)}, chosen


def _factor(random: np.random.Generator) -> float:
    return float(np.exp2(random.normal(0.0, _SPREAD)))


def _within(array: np.ndarray) -> np.ndarray:
    """The array with nothing near to overflow; what is nearly 0 becomes 0."""
    clipped = np.clip(array, -_LARGEST, _LARGEST)
    return np.where(np.abs(clipped) < _SMALLEST, 0, clipped)


def _scaled(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    return _within(array.astype(np.float64) * _factor(random))


def _part_scaled(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    made = array.astype(np.float64)
    made[_part(random, array)] *= _factor(random)
    return _within(made)


def _sparse(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.where(random.random(array.shape) < random.random(), array, 0)


def _extremes(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    made = array.astype(np.float64).reshape(-1)
    largest = float(np.abs(made).max()) or 1.0
    places = random.integers(made.size, size=int(random.integers(1, 9)))
    made[places] = largest * _factor(random) * random.choice([-1.0, 1.0], size=places.size)
    return _within(made)


def _constant(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    made = array.copy()
    value = random.choice(_CONSTANTS)
    whole = random.random() < 0.5
    made[... if whole else _part(random, array)] = value
    return made


def _subnormal(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    where = random.random(array.shape) < random.random()
    return np.where(where, _SUBNORMAL * random.standard_normal(array.shape), array)


def _noisy(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    size = float(np.abs(array.astype(np.float64)).max()) * 0.1 * random.random()
    return _within(array + size * random.standard_normal(array.shape))


def _signs(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    return (np.abs(array), -np.abs(array), -array)[int(random.integers(3))]


def _rolled(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.roll(array, int(random.integers(array.size)))


def _mixed(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Some elements as they were at first."""
    if first.shape != array.shape:
        return array
    return np.where(random.random(array.shape) < 0.5, first, array)


def _constant_known(
    random: np.random.Generator, array: np.ndarray, first: np.ndarray
) -> np.ndarray:
    return np.full(array.shape, random.choice(first.reshape(-1)))


def _drawn(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    return random.choice(first.reshape(-1), size=array.shape)


def _bytes(random: np.random.Generator, array: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Bytes at the ends of their range, which are seldom indices."""
    if array.dtype.itemsize > 1 or array.dtype.kind == "b":
        return _drawn(random, array, first)
    info = np.iinfo(array.dtype)
    return np.where(random.random(array.shape) < 0.5, info.min, info.max)


def _part(random: np.random.Generator, array: np.ndarray) -> tuple[slice | int, ...]:
    """One index of a random axis: a channel, a row, a column."""
    if not array.ndim:
        return ()
    axis = int(random.integers(array.ndim))
    index = int(random.integers(array.shape[axis]))
    return (*(slice(None),) * axis, index)


#: Mutations of floats and of integers by name.
FLOATS: dict[str, Mutation] = {
    "scale": _scaled,
    "scale a part": _part_scaled,
    "sparse": _sparse,
    "extremes": _extremes,
    "constant": _constant,
    "subnormal": _subnormal,
    "noise": _noisy,
    "signs": _signs,
    "roll": _rolled,
    "mix": _mixed,
}
INTEGERS: dict[str, Mutation] = {
    "roll": _rolled,
    "mix": _mixed,
    "constant": _constant_known,
    "draw": _drawn,
    "bytes": _bytes,
}
