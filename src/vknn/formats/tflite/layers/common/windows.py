"""Padding and strides as the schema's operators state them."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.tflite.context import Context

_SAME = 0


def strides(c: Context) -> tuple[int, int]:
    """Strides along height and width, at least 1."""
    found = (c.options["stride_h"], c.options["stride_w"])
    c.require(min(found) > 0, f"has the strides {found}")
    return found


def dilations(c: Context) -> tuple[int, int]:
    """Dilations along height and width, at least 1."""
    found = (c.options["dilation_h_factor"], c.options["dilation_w_factor"])
    c.require(min(found) > 0, f"has the dilations {found}")
    return found


def padding(
    c: Context,
    sizes: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    spread: Sequence[int] = (1, 1),
) -> tuple[int, ...]:
    """Pads (begins, then ends): none for VALID; for SAME the odd element stands at the end."""
    if c.options["padding"] != _SAME:
        return (0, 0) * len(sizes)
    begins, ends = [], []
    for size, k, step, dilation in zip(sizes, kernel, steps, spread, strict=True):
        reach = (k - 1) * dilation + 1
        total = max((-(-size // step) - 1) * step + reach - size, 0)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return (*begins, *ends)


def window_outputs(
    c: Context,
    sizes: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    spread: Sequence[int] = (1, 1),
) -> tuple[int, ...]:
    """The sizes of the output; VALID windows that reach less than a stride too far leave none."""
    if c.options["padding"] == _SAME:
        return tuple(-(-size // step) for size, step in zip(sizes, steps, strict=True))
    found = []
    for size, k, step, dilation in zip(sizes, kernel, steps, spread, strict=True):
        left = size + step - (k - 1) * dilation - 1
        c.require(left > -step, f"has windows of {kernel} in images of {sizes}")
        found.append(max(left // step, 0))
    return tuple(found)
