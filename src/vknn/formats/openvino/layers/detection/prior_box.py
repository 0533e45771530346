"""PriorBox and PriorBoxClustered: boxes that follow from shapes and attributes alone.

Section 2.2 of Liu et al., SSD: Single Shot MultiBox Detector, arXiv:1512.02325.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value

_F = np.float32
#: Half the width and height of a box, and the distance of its centre from the cell's.
Size = tuple[float, float]
#: Ratios with a smaller difference count as one.
_SAME = 1e-6
#: The most boxes along an axis for a fixed size; attributes could ask for more.
_DENSEST = 1 << 10


@layer("PriorBox", inputs=(1, 2))
def prior_box(c: Context) -> Value:
    """Boxes of the fixed sizes (each maybe several times) and minimum sizes for each cell."""
    rows, columns, height, width = _sizes(c, stated_first=False)
    centres = _centres(c, rows, columns, height, width)
    boxes: list[np.ndarray] = []
    for box in chain(_fixed(c, centres, height, width), _minimum(c, centres, height, width)):
        boxes.append(box)
        c.makeable(4 * (len(boxes) + 1) * rows * columns, DType.FLOAT32)
    c.require(len(boxes) > 0, "has no boxes")
    return _result(c, np.stack(boxes, axis=2), _stated_count(c))


@layer("PriorBoxClustered", inputs=(1, 2))
def prior_box_clustered(c: Context) -> Value:
    """One box for each pair of width and height, for each cell."""
    rows, columns, height, width = _sizes(c, stated_first=True)
    widths, heights = c.floats("width", ()), c.floats("height", ())
    good = 0 < len(widths) == len(heights)
    c.require(good, f"has {len(widths)} widths and {len(heights)} heights")
    c.makeable(4 * len(widths) * rows * columns, DType.FLOAT32)
    step = _finite(c, "step", 0.0)
    across, down = _finite(c, "step_w", 0.0) or step, _finite(c, "step_h", 0.0) or step
    if across == 0 and down == 0:
        across, down = float(width / _F(columns)), float(height / _F(rows))
    offset = _F(_finite(c, "offset", 0.5))
    centres = _grid(
        (np.arange(rows, dtype=_F) + offset) * _F(down),
        (np.arange(columns, dtype=_F) + offset) * _F(across),
    )
    scale = np.array([width, height], _F)
    boxes = []
    for size in zip(widths, heights, strict=True):
        half = np.asarray(size, _F) / _F(2)
        boxes.append(np.concatenate([centres - half, centres + half], -1) / np.tile(scale, 2))
    return _result(c, np.stack(boxes, axis=2), len(boxes), only_so_many=True)


def _sizes(c: Context, stated_first: bool) -> tuple[int, int, np.float32, np.float32]:
    """Height and width of the feature map and of the image.

    The image's are those of the second input, or the attributes', which ``stated_first`` prefers.
    """
    dims = c.x.type.dims
    good = len(dims) == 4 and dims[2] * dims[3] > 0
    c.require(good, f"a feature map of shape {list(dims)}")
    c.makeable(4 * dims[2] * dims[3], DType.FLOAT32)
    both = c.float("img_size", 0.0)
    stated = [c.float("img_h", 0.0) or both, c.float("img_w", 0.0) or both]
    if len(c.inputs) > 1:
        image = c.value(1).type.dims
        c.require(len(image) == 4, f"an image of shape {list(image)}")
        own = [float(n) for n in image[2:]]
        stated = [a or b for a, b in zip(stated, own, strict=True)] if stated_first else own
    c.require(min(stated) > 0, "has no image, nor its size")
    return dims[2], dims[3], _F(stated[0]), _F(stated[1])


def _finite(c: Context, name: str, default: float) -> float:
    number: float = c.float(name, default)
    c.require(bool(np.isfinite(number)), f"{name} is {number}")
    return number


def _grid(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """[rows, columns, 2] of x, y."""
    return np.stack(np.meshgrid(columns, rows), axis=-1).astype(_F)


def _centres(
    c: Context, rows: int, columns: int, height: np.float32, width: np.float32
) -> np.ndarray:
    """Centres of the cells. Without a step they fill the image, whatever the offset."""
    step, offset = _finite(c, "step", 0.0), _F(_finite(c, "offset", 0.5))
    axes = []
    for name, count, size in (("step_h", rows, height), ("step_w", columns, width)):
        own, places = _finite(c, name, 0.0) or step, np.arange(count, dtype=_F)
        if own == 0:
            axes.append((places + _F(0.5)) * (size / _F(count)))
        else:
            axes.append((offset + places) * _F(own))
    return _grid(axes[0], axes[1])


def _ratios(c: Context) -> list[np.float32]:
    """Aspect ratios other than 1, each once, with ``flip`` each followed by its inverse."""
    found = [_F(1)]
    for ratio in np.asarray(c.floats("aspect_ratio", ()), _F):
        c.require(ratio > 0, f"aspect_ratio {ratio}")
        if min(abs(float(ratio) - float(known)) for known in found) < _SAME:
            continue
        found += [ratio, _F(1) / ratio] if c.bool("flip", False) else [ratio]
    return [r for r in found if abs(float(r) - 1) >= _SAME]


def _minimum(
    c: Context, centres: np.ndarray, height: np.float32, width: np.float32
) -> Iterator[np.ndarray]:
    """For each minimum size a square, one between it and the maximum, then one box per ratio.

    Without ``scale_all_sizes`` the boxes of ratios come once, after the last size, in the first
    size.
    """
    least, most = (np.asarray(c.floats(n, ()), _F) for n in ("min_size", "max_size"))
    c.require(bool((least > 0).all() and (most > 0).all()), "sizes must be above 0")
    scale, half = np.array([_F(1) / width, _F(1) / height], _F), _F(0.5)
    all_sizes = c.bool("scale_all_sizes", True)
    for number, size in enumerate(least):
        sides = [(size * half, size * half)]
        if number < len(most):
            side = np.sqrt(size * most[number]) * half
            sides.append((side, side))
        if all_sizes or number == len(least) - 1:
            base = (size if all_sizes else least[0]) * half
            sides += [(base * root, base / root) for root in map(np.sqrt, _ratios(c))]
        for reach in np.asarray(sides, _F):
            yield np.concatenate([centres - reach, centres + reach], -1) * np.tile(scale, 2)


def _fixed(
    c: Context, centres: np.ndarray, height: np.float32, width: np.float32
) -> Iterator[np.ndarray]:
    """For each fixed size and ratio ``density`` x ``density`` boxes, shifted by whole numbers.

    The low corners are clipped at 0, the high ones at 1.
    """
    sizes, densities = c.floats("fixed_size", ()), c.floats("density", ())
    fixed = c.floats("fixed_ratio", ())
    enough = len(densities) >= len(sizes) or not densities
    c.require(enough, f"has {len(sizes)} fixed sizes and {len(densities)} densities")
    c.require(min(fixed, default=1) > 0, f"fixed_ratio {fixed}")
    scale, half = np.array([_F(1) / width, _F(1) / height], _F), _F(0.5)
    for number, size in enumerate(np.asarray(sizes, _F)):
        stated = densities[number] if densities else 1
        good = 0 < size < np.inf and 1 <= stated <= _DENSEST
        c.require(bool(good), f"fixed size {size} with density {stated}")
        density = int(stated)
        shift, whole = int(size / _F(density)), int(size)
        reaches = [(size * half * r, size * half / r) for r in np.sqrt(np.asarray(fixed, _F))]
        if not fixed:
            # The square has the whole part of the size, the others all of it.
            reaches = [(_F(whole) * half,) * 2] if densities else []
            reaches += [(size * half * r, size * half / r) for r in map(np.sqrt, _ratios(c))]
        for reach in np.asarray(reaches, _F).reshape(-1, 2):
            for row, column in np.ndindex(density, density):
                away = np.array([column * shift, row * shift], _F)
                middle = centres - _F(whole // 2) + _F(shift / 2) + away
                low, high = (middle - reach) * scale, (middle + reach) * scale
                yield np.concatenate([np.maximum(low, _F(0)), np.minimum(high, _F(1))], -1)


def _stated_count(c: Context) -> int:
    """The number of boxes of a cell by the specification's formula.

    With fixed ratios beside other ratios it differs from the number of boxes that are made.
    """
    ratios, fixed = 1 + len(_ratios(c)), c.floats("fixed_size", ())
    densities = [min(max(d, 0), _DENSEST) for d in c.floats("density", ())]
    least, most = c.floats("min_size", ()), c.floats("max_size", ())
    count = ratios * len(least) if c.bool("scale_all_sizes", True) else ratios + len(least) - 1
    count = ratios * len(fixed) if fixed else count
    each = len(c.floats("fixed_ratio", ())) or ratios
    return count + len(most) + sum(each * (int(d) ** 2 - 1) for d in densities)


def _result(c: Context, boxes: np.ndarray, counted: int, only_so_many: bool = False) -> Value:
    """[1, 2, n]: the boxes, then their variances.

    As in OpenVINO, only ``counted`` boxes of each cell are clipped and have variances; the others
    have 0. A single variance applies to all numbers, or with ``only_so_many`` to one number per
    box.
    """
    flat = boxes.astype(_F).reshape(-1)
    reached = 4 * counted * boxes.shape[0] * boxes.shape[1]
    if c.bool("clip", False):
        flat[:reached] = np.clip(flat[:reached], _F(0), _F(1))
    variances = c.floats("variance", ()) or (0.1,)
    c.require(len(variances) in (1, 4), f"has {len(variances)} variances")
    spread = np.resize(np.asarray(variances, _F), flat.size)
    if len(variances) > 1 or only_so_many:
        spread[reached * len(variances) // 4 :] = 0
    return c.constant(np.stack([flat, spread])[None], "priors")
