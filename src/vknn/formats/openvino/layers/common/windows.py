"""Sliding windows over images: kernel, strides, pads and dilations, in all spellings of files.

Lists run from the outermost axis to the innermost (depth, height, width). The first versions have
an attribute for each axis instead (kernel-y, kernel-x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.formats.openvino.attributes import REQUIRED
from vknn.formats.openvino.context import Context
from vknn.formats.windows import halves, same_pads, window_extents

#: Values of ``auto_pad``; those of the second row mean that the pads are given.
_AUTO = ("same_upper", "same_lower", "valid")
_EXPLICIT = ("explicit", "notset", "none", "")


@dataclass(frozen=True)
class SlidingWindow:
    """A sliding window over spatial axes. ``auto_pad`` is empty where the pads are given."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    auto_pad: str

    @property
    def extents(self) -> tuple[int, ...]:
        """The number of elements that the window spans along each axis, dilation included."""
        return window_extents(self.kernel, self.dilations)

    def pads(self, sizes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Begins and ends of the padding around an image of these sizes.

        "same_upper" and "same_lower" make ceil(size / stride) outputs; of an odd number of pads the
        larger half is at the end for the former, at the begin for the latter.
        """
        if not self.auto_pad:
            return self.begins, self.ends
        if self.auto_pad == "valid":
            return (0,) * len(sizes), (0,) * len(sizes)
        found = same_pads(sizes, self.extents, self.strides, self._larger_first)
        return tuple(begin for begin, _ in found), tuple(end for _, end in found)

    def begins_of(self, totals: Sequence[int]) -> tuple[int, ...]:
        """Begins of pads with these totals, split as ``auto_pad`` says."""
        return tuple(halves(total, self._larger_first)[0] for total in totals)

    @property
    def _larger_first(self) -> bool:
        return self.auto_pad == "same_lower"


def window(
    c: Context, axes: int, kernel: tuple[int, ...] | None = None, dilated: bool = True
) -> SlidingWindow:
    """The window of a layer over ``axes`` spatial axes. ``kernel`` replaces the attribute.

    Missing ``pads_end`` are equal to ``pads_begin``.
    """
    ones, zeros = (1,) * axes, (0,) * axes
    begins = _numbers(c, "pads_begin", _single("pad", axes), axes, zeros)
    found = SlidingWindow(
        kernel=kernel or _numbers(c, "kernel", _single("kernel", axes), axes),
        strides=_numbers(c, "strides", _single("stride", axes), axes, ones),
        dilations=_numbers(c, "dilations", _single("dilation", axes), axes, ones)
        if dilated
        else ones,
        begins=begins,
        ends=_numbers(c, "pads_end", [("pad-b", "pad-r")[-min(axes, 2) :]], axes, begins),
        auto_pad=_auto_pad(c),
    )
    for what in ("kernel", "strides", "dilations"):
        values = getattr(found, what)
        c.require(min(values) >= 1, f"{what} {list(values)} are not all above 0")
    c.require(min(*found.begins, *found.ends) >= 0, "has pads below 0")
    return found


def _auto_pad(c: Context) -> str:
    found: str = c.text("auto_pad", "", choices=(*_AUTO, *_EXPLICIT))
    return found if found in _AUTO else ""


def _single(stem: str, axes: int) -> list[list[str]]:
    """Names of attributes that hold the number of one axis each, in two spellings."""
    dashed = [f"{stem}-{axis}" for axis in ("z", "y", "x")[-axes:]]
    return [dashed, [f"{stem}_{axis}" for axis in ("d", "h", "w")[-axes:]]]


def _numbers(
    c: Context,
    name: str,
    single: Sequence[Sequence[str]],
    axes: int,
    default: Sequence[int] = REQUIRED,
) -> tuple[int, ...]:
    """One number per axis: from the list ``name``, else from the attributes ``single``.

    An empty list counts as absent.
    """
    listed = c.attributes.get(name)
    alternatives = [",".join(names) for names in single]
    if listed is None or listed.strip():
        alternatives.insert(0, name)
    found = tuple(c.ints("|".join(alternatives), default, axes))
    c.require(len(found) == axes, f"{name} {list(found)} are not {axes} numbers")
    return found
