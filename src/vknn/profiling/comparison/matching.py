"""Rows of a comparison: the commands of two profiles that compute the same layers.

Layers are the same where their names and the shapes of their outputs are. Commands may compute
several (fused ones), and a layer may take several commands: a row is the least set of layers that
no command of either side crosses.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: A layer: its name and the shapes of its outputs. Without a layer: the command's label.
Key = Hashable
#: The most rows. Of more the smallest are one: each row makes it harder for the others to be told
#: from chance.
MOST_ROWS = 500


@dataclass(eq=False)
class Matched:
    """A row: its layers, in order, the kernels on both sides, whether both have commands."""

    layers: list[str] = field(default_factory=list)
    kernels: tuple[dict[str, None], dict[str, None]] = field(default_factory=lambda: ({}, {}))

    @property
    def on_both(self) -> bool:
        return all(self.kernels)


def keys_of(document: dict[str, Any]) -> dict[str, Key]:
    """The key of each layer by its name; equal names are one layer with all their shapes."""
    shapes: dict[str, list[Any]] = {}
    for layer in document["layers"]:
        own = tuple(tuple(t["shape"]) for t in layer["outputs"])
        shapes.setdefault(layer["name"], []).append(own)
    return {name: (name, tuple(own)) for name, own in shapes.items()}


def match(a: dict[str, Any], b: dict[str, Any]) -> tuple[list[Matched], list[np.ndarray]]:
    """The rows of two documents, and for each side the row of each of its commands, [n]."""
    sets = _Sets()
    sides = [[list(keys) for keys in _commands_keys(d)] for d in (a, b)]
    for keys in (k for side in sides for k in side):
        sets.join(keys)
    numbers: dict[Key, int] = {}
    rows: list[Matched] = []
    places = []
    for side, (document, commands) in enumerate(zip((a, b), sides, strict=True)):
        of_commands = []
        for keys, command in zip(commands, _commands(document), strict=True):
            root = sets.root(keys[0])
            if root not in numbers:
                numbers[root] = len(rows)
                rows.append(Matched())
            row = rows[numbers[root]]
            row.kernels[side][command["kernel"]] = None
            of_commands.append(numbers[root])
        places.append(np.array(of_commands, np.intp))
    named: list[dict[str, None]] = [{} for _ in rows]
    for keys in (k for side in sides for k in side):
        named[numbers[sets.root(keys[0])]].update(dict.fromkeys(_name(k) for k in keys))
    for row, names in zip(rows, named, strict=True):
        row.layers = list(names)
    return rows, places


def pooled(
    rows: list[Matched], places: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> tuple[list[Matched], list[np.ndarray]]:
    """Rows, MOST_ROWS at most; of more the smallest by ``weights`` (of commands) become one."""
    if len(rows) <= MOST_ROWS:
        return rows, list(places)
    sums = sum(
        np.bincount(p, weights=w, minlength=len(rows)) for p, w in zip(places, weights, strict=True)
    )
    large = np.sort(np.argsort(-sums, kind="stable")[: MOST_ROWS - 1])
    numbers = np.full(len(rows), len(large))
    numbers[large] = np.arange(len(large))
    rest = Matched([f"({len(rows) - len(large)} smaller rows)"], ({"": None}, {"": None}))
    return [*(rows[n] for n in large), rest], [numbers[p] for p in places]


def common_layers(a: dict[str, Any], b: dict[str, Any]) -> int:
    """Number of layers with the same name and shapes on both sides."""
    return len(set(keys_of(a).values()) & set(keys_of(b).values()))


def _commands(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for segment in document["segments"]:
        yield from segment["commands"]


def _commands_keys(document: dict[str, Any]) -> Iterator[Iterable[Key]]:
    known = keys_of(document)
    for command in _commands(document):
        if command["layers"]:
            yield [known.get(name, (name, ())) for name in command["layers"]]
        else:
            yield [(command["label"], None)]


def _name(key: Any) -> str:
    name, shapes = key
    return f"({name})" if shapes is None else str(name)


class _Sets:
    """Disjoint sets of keys, joined step by step."""

    def __init__(self) -> None:
        self._above: dict[Key, Key] = {}

    def root(self, key: Key) -> Key:
        self._above.setdefault(key, key)
        while (above := self._above[key]) != key:
            self._above[key] = key = self._above[above]
        return key

    def join(self, keys: list[Key]) -> None:
        first = self.root(keys[0])
        for key in keys[1:]:
            self._above[self.root(key)] = first
