"""Matching of recorded tensors with a model's: by name, by layer, by shape; layouts are tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.crosscheck.tensors import NamedTensor

#: Cosine from which on one of several tensors of a shape is taken for the recorded one.
_NEAR = 0.99
#: What tensors are matched by, in this order.
HOWS = ("name", "layer", "shape")
#: Sizes of packs that engines split channels into, along an axis behind the others.
_PACKS = (4, 8, 16, 32)
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
    recorded: Mapping[str, np.ndarray], tensors: Sequence[NamedTensor], hows: Sequence[str] = HOWS
) -> tuple[list[TensorMatch], list[str]]:
    """Matches in the order of the model, and the names of records that match nothing.

    ``hows``: what they are matched by, in this order. Other names of a tensor that is recorded
    under its own are left out.
    """
    found: dict[str, TensorMatch] = {}
    taken: set[str] = set()
    copies = {alias for t in tensors if t.name in recorded for alias in t.aliases}
    recorded = {name: array for name, array in recorded.items() if name not in copies}
    for how in hows:
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
    elif _first_axes_joined(array.shape, shape) or _first_axes_joined(shape, array.shape):
        yield "batch and channels on one axis", array.reshape(shape)
    for name, turned in _turned(array):
        if _sides(turned.shape) == _sides(shape):
            yield name, turned.reshape(shape)
    yield from _unpacked(array, shape)


def _turned(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The array as if its channels were elsewhere."""
    if array.ndim >= 3:
        yield "channels last", np.moveaxis(array, -1, 1)
        yield "channels first", np.moveaxis(array, 1, -1)
    if array.ndim == 3:
        yield "HWC", np.moveaxis(array, -1, 0)
        yield "CHW", np.moveaxis(array, 0, -1)
    if array.ndim == 2:
        yield "transposed", array.T


def _first_axes_joined(joined: tuple[int, ...], apart: tuple[int, ...]) -> bool:
    """Whether the first axis of one shape is the first two of the other."""
    return len(apart) >= 2 and joined == (apart[0] * apart[1], *apart[2:])


def _unpacked(array: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """The array without packs of channels: (n, c / 4, ..., 4), the last pack perhaps filled up."""
    pack = array.shape[-1] if array.ndim >= 3 else 0
    for axis in (0, 1):  # where the channels are: without and with a batch
        if pack not in _PACKS or len(shape) != array.ndim - 1 or len(shape) <= axis:
            continue
        packed = (*shape[:axis], -(-shape[axis] // pack), *shape[axis + 1 :], pack)
        if array.shape == packed:
            side_by_side = np.moveaxis(array, -1, axis + 1)
            whole = side_by_side.reshape(*shape[:axis], packed[axis] * pack, *shape[axis + 1 :])
            yield f"packs of {pack} channels", np.take(whole, range(shape[axis]), axis)


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
        exact = [t for t in free if t.name == name or name in t.aliases]
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
