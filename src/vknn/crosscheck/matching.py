"""Matching of recorded tensors with a model's: by name, by layer, by shape; layouts are tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.crosscheck.tensors import NamedTensor

#: Cosine from which on one of several tensors of a shape is taken for the recorded one.
_NEAR = 0.99
#: Layouts that are tried: name and permutation, of tensors of its rank.
_LAYOUTS = {
    "channels last": (0, 3, 1, 2),
    "channels first": (0, 2, 3, 1),
    "HWC": (2, 0, 1),
    "CHW": (1, 2, 0),
    "transposed": (1, 0),
}
#: What engines put around the names of blobs.
_DECORATION = re.compile(r"^(?:/|out_|in_)|(?::\d+|/output(?:_\d+)?|_output_\d+)$")


@dataclass(frozen=True, eq=False)
class TensorMatch:
    """A recorded tensor and the model's own.

    Attributes:
        recorded: Name in the record.
        own: The model's tensor, by NumPy.
        how: "name", "layer" or "shape".
        layout: What was done to the recorded array; empty where it was taken as it is.
        array: The recorded array in the layout of the model's.
    """

    recorded: str
    own: NamedTensor
    how: str
    layout: str
    array: np.ndarray


def matched(
    recorded: Mapping[str, np.ndarray], tensors: Sequence[NamedTensor]
) -> tuple[list[TensorMatch], list[str]]:
    """Matches in the order of the model, and the names of records that match nothing."""
    found: dict[str, TensorMatch] = {}
    taken: set[str] = set()
    for how in ("name", "layer", "shape"):
        for name, array in recorded.items():
            if name in found:
                continue
            free = [t for t in tensors if t.name not in taken]
            match = _best(name, array, _candidates(how, name, free), how)
            if match is not None:
                found[name] = match
                taken.add(match.own.name)
    order = {t.name: number for number, t in enumerate(tensors)}
    matches = sorted(found.values(), key=lambda m: order[m.own.name])
    return matches, [name for name in recorded if name not in found]


def layouts(array: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """The array in each layout that has this shape, axes of 1 aside, with the layout's name."""
    if array.shape == shape:
        yield "", array
    elif _sides(array.shape) == _sides(shape):
        yield "axes of 1 aside", array.reshape(shape)
    for name, order in _LAYOUTS.items():
        if len(order) == array.ndim:
            turned = array.transpose(order)
            if _sides(turned.shape) == _sides(shape):
                yield name, turned.reshape(shape)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two arrays; 0 where one is zero or not finite."""
    x, y = a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64)
    with np.errstate(all="ignore"):
        found = float(x @ y / np.sqrt((x @ x) * (y @ y)))
    return found if np.isfinite(found) else 0.0


def _candidates(how: str, name: str, free: Iterable[NamedTensor]) -> list[NamedTensor]:
    if how == "shape":
        return list(free)
    plain = _plain(name)
    if how == "name":
        exact = [t for t in free if t.name == name]
        return exact or [t for t in free if _plain(t.name) == plain]
    # Of a layer that becomes several operators the last one gives its result.
    return [t for t in free if t.node is not None and _plain(t.node.origin.name) == plain][-1:]


def _plain(name: str) -> str:
    before = ""
    while name != before:
        before, name = name, _DECORATION.sub("", name)
    return name.lower()


def _best(
    name: str, array: np.ndarray, candidates: Sequence[NamedTensor], how: str
) -> TensorMatch | None:
    """The candidate and layout next to what was recorded; by shape only where that is plain."""
    if array.dtype.kind not in "fiub":
        return None
    found = []
    for tensor in candidates:
        if tensor.array.dtype.kind in "fiub":
            for layout, turned in layouts(array, tensor.array.shape):
                # The plain layout wins where both are as near.
                near = (cosine(turned, tensor.array), not layout)
                found.append((near, TensorMatch(name, tensor, how, layout, turned)))
    if not found:
        return None
    near, best = max(found, key=lambda pair: pair[0])
    several = len({match.own.name for _, match in found}) > 1
    return None if how == "shape" and several and near[0] < _NEAR else best


def _sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in shape if d != 1)
