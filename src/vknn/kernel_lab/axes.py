"""Axes of a sweep: names and values as they are typed, held against what the kernel declares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vknn.errors import VknnError
from vknn.kernel_lab.declarations import Declarations

#: Names of the lanes of a workgroup along x, y and z.
LANES = ("LX", "LY", "LZ")
MOST_COMBINATIONS = 4096
#: Endings of names that are set by what is before them, in the order of the values in "4x8".
ENDINGS = ("D", "H", "W")
_WORD = re.compile(r"[\w.+-]{1,64}")


@dataclass(frozen=True)
class Axis:
    """An axis: the names that it sets at once, and for each value their words."""

    title: str
    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


def typed_axes(
    given: str | Mapping[str, Any], declared: Declarations, macros: Sequence[str]
) -> list[Axis]:
    """The axes of "LX=8,16,32 TILE=4x4,4x8", or of a mapping of names to values.

    A name is that of a specialization constant, a macro, or LX, LY, LZ. A value with an "x" in it
    is for several: of "TM" and "TN" by the name "TMxTN", of "TILE_H" and "TILE_W" also by "TILE",
    the height first however the kernel declares them.
    Raises VknnError for unknown names, with those that are known.
    """
    known = [*LANES, *declared.constants, *(m for m in macros if m not in declared.constants)]
    axes = [_axis(name, values, known) for name, values in _pairs(given)]
    names = [name for axis in axes for name in axis.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not axes:
        raise VknnError(f"sweep: {', '.join(twice)} twice" if twice else "sweep: no axis")
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > MOST_COMBINATIONS:
        raise VknnError(f"sweep: {count} combinations, over {MOST_COMBINATIONS}")
    return axes


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Each combination: its words by the axes' titles, and by the names that are set."""
    for values in itertools.product(*(axis.values for axis in axes)):
        shown = {a.title: "x".join(words) for a, words in zip(axes, values, strict=True)}
        chosen = {
            name: word
            for axis, words in zip(axes, values, strict=True)
            for name, word in zip(axis.names, words, strict=True)
        }
        yield shown, chosen


def _pairs(given: str | Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    if isinstance(given, str):
        for part in given.split():
            name, equals, values = part.partition("=")
            if not equals:
                raise VknnError(f"sweep: {part!r} is not NAME=value,value")
            yield name, values.split(",")
    else:
        for name, values in given.items():
            many = values if isinstance(values, list | tuple) else [values]
            yield name, ["x".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in many]


def _axis(title: str, values: Sequence[str], known: Sequence[str]) -> Axis:
    if title in known:
        split: list[tuple[str, ...]] = [(value,) for value in values]
        names: tuple[str, ...] = (title,)
    else:
        parts = tuple(title.split("x"))
        split = [tuple(value.split("x")) for value in values]
        beginning = tuple(sorted((n for n in known if n.startswith(f"{title}_")), key=_rank))
        names = parts if len(parts) > 1 and set(parts) <= set(known) else beginning
        if not names:
            raise VknnError(f"sweep: {title!r} is not known; known: {', '.join(known)}")
    for words in split:
        if len(words) != len(names) or not all(_WORD.fullmatch(word) for word in words):
            given = "x".join(words)
            raise VknnError(f"sweep: {title}={given}: {len(names)} values for {', '.join(names)}")
    return Axis(title, names, tuple(split))


def _rank(name: str) -> int:
    """Place of a name among those that begin alike; of other endings all are last."""
    ending = name.rpartition("_")[2]
    return ENDINGS.index(ending) if ending in ENDINGS else len(ENDINGS)
