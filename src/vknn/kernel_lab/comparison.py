"""Comparison of what a lab's kernel gave with what is right, in the tensor's own terms."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from vknn.kernel_lab.arrays import floats
from vknn.kernel_lab.description import LabTensor

#: Channels that are named at most.
MOST_CHANNELS = 8


@dataclass(frozen=True)
class OutputCheck:
    """An output held against what is right.

    Attributes:
        binding: Number of the binding.
        name: The tensor's name.
        against: "numpy" for the reference, or "device" for what the device gave that the lab was
            extracted on.
        ok: Whether every element is within what is allowed, nothing was left unwritten and nothing
            written behind the end.
        max_abs: The largest absolute error.
        excess: The largest error as a multiple of what is allowed.
        wrong: Elements out of tolerance.
        count: Elements compared.
        first: Index of the first wrong element: along the tensor's axes where these are known, else
            of the element in the buffer. None where nothing is wrong.
        expected: The right number there.
        actual: The kernel's number there.
        channels: The channels (second axis) that hold wrong elements, and how many; those with the
            most first, at most MOST_CHANNELS.
        all_channels: How many channels hold wrong elements; None where there are no channels.
        unwritten: Elements that the kernel should have written and did not.
        strayed: Elements written where the extracted kernel writes none.
        sentinels: Bytes written behind the end of the buffer; None where that was not watched.
        from_device: The largest difference from what the device of the extraction gave.
    """

    binding: int
    name: str
    against: str
    ok: bool
    max_abs: float
    excess: float
    wrong: int
    count: int
    first: tuple[int, ...] | None
    expected: float | None
    actual: float | None
    channels: tuple[tuple[int, int], ...]
    all_channels: int | None
    unwritten: int
    strayed: int
    sentinels: int | None
    from_device: float

    def summary(self) -> str:
        """The verdict in words."""
        if self.ok:
            return f"right: {self.excess:.2g} of what is allowed"
        parts = []
        if self.wrong:
            first = ",".join(map(str, self.first or ()))
            parts.append(
                f"{self.wrong} of {self.count} elements are wrong, first at [{first}]: "
                f"{self.actual:.7g} for {self.expected:.7g}, largest error {self.max_abs:.3g}"
            )
        if self.all_channels and self.all_channels <= MOST_CHANNELS:
            names = ", ".join(str(channel) for channel, _ in self.channels)
            parts.append(f"all in channel{'s' if self.all_channels > 1 else ''} {names}")
        if self.unwritten:
            parts.append(f"{self.unwritten} were not written")
        if self.strayed:
            parts.append(f"{self.strayed} elements written that are not the kernel's")
        if self.sentinels:
            parts.append(f"{self.sentinels} bytes behind the end were written")
        return "; ".join(parts)


@dataclass(frozen=True, eq=False)
class Expected:
    """Expectation of one output, flat arrays of the buffer's elements.

    Attributes:
        right: The right numbers.
        allowed: Errors allowed, of the same size or one for all.
        device: What the device of the extraction gave.
        against: "numpy" or "device", where ``right`` is from.
        written: Which elements the kernel writes; None: all.
        tensor: The tensor in the buffer, where known.
        dtype: Element type of the buffer.
    """

    right: np.ndarray
    allowed: np.ndarray
    device: np.ndarray
    against: str
    written: np.ndarray | None
    tensor: LabTensor | None
    dtype: str


def check_output(
    binding: int,
    name: str,
    actual: np.ndarray,
    expected: Expected,
    untouched: np.ndarray | None,
    sentinels: int | None,
) -> OutputCheck:
    """The check of an output, all of whose arrays are flat and equally long.

    ``untouched``: which elements still hold what the buffer was filled with beforehand; None where
    that cannot be told.
    """
    numbers = floats(actual, expected.dtype)
    error = _errors(numbers, expected.right)
    of_device = _errors(numbers, floats(expected.device, expected.dtype))
    wanted = np.ones(error.shape, bool) if expected.written is None else expected.written
    unwritten = np.zeros_like(wanted) if untouched is None else untouched & wanted
    strayed = 0 if untouched is None else int((~untouched & ~wanted).sum())
    error = np.where(wanted, error, 0.0)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, 0.0, error / expected.allowed)
    # A buffer's fill may be the right number by chance, so what was not written is wrong by itself.
    wrong = (excess > 1) | (unwritten & (error > 0))
    first = int(np.argmax(wrong)) if wrong.any() else None
    channels = _channels(np.flatnonzero(wrong), expected.tensor)
    missing = int((unwritten & wrong).sum())
    return OutputCheck(
        binding=binding,
        name=name,
        against=expected.against,
        ok=first is None and not strayed and not sentinels,
        max_abs=float(error.max(initial=0.0)),
        excess=float(excess.max(initial=0.0)),
        wrong=int(wrong.sum()),
        count=int(wanted.sum()),
        first=None if first is None else _index(first, expected.tensor),
        expected=None if first is None else float(expected.right[first]),
        actual=None if first is None else float(numbers[first]),
        channels=tuple(channels.most_common(MOST_CHANNELS)) if channels else (),
        all_channels=None if channels is None else len(channels),
        unwritten=missing,
        strayed=strayed,
        sentinels=sentinels,
        from_device=float(np.where(wanted, of_device, 0.0).max(initial=0.0)),
    )


def _errors(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Absolute differences; infinite where only one side is NaN or infinite."""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def _coordinates(places: np.ndarray, tensor: LabTensor) -> tuple[np.ndarray, ...]:
    """Indices along the tensor's axes of elements of its buffer."""
    if tensor.layout == "linear":
        return np.unravel_index(places, tensor.dims or (1,))
    n, c, *spatial = tensor.dims
    batch, block, *inner, lane = np.unravel_index(places, (n, -(-c // 4), *spatial, 4))
    return (batch, 4 * block + lane, *inner)


def _index(place: int, tensor: LabTensor | None) -> tuple[int, ...]:
    if tensor is None:
        return (place,)
    return tuple(int(part[0]) for part in _coordinates(np.array([place]), tensor))


def _channels(places: np.ndarray, tensor: LabTensor | None) -> Counter[int] | None:
    """How many of the elements each channel holds; None where there are no channels."""
    if tensor is None or len(tensor.dims) < 2:
        return None
    found, counts = np.unique(_coordinates(places, tensor)[1], return_counts=True)
    return Counter(dict(zip(found.tolist(), counts.tolist(), strict=True)))
