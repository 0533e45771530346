"""Descriptions of ports: what a bundle says of an input, an output or a state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.bundle import schema
from vknn.bundle.forms import ArrayForm
from vknn.bundle.schema import MOST_AXES, MOST_PORTS, MOST_TOLERANCE, NONE, Direction
from vknn.bundle.tables import Tables
from vknn.errors import ExportError
from vknn.formats import Model


@dataclass(frozen=True)
class PortDescription:
    """An input or output as the user has it.

    ``buffer``, ``count``: of the plan; ``count`` has an int32, the size of the ``form``'s open
    axis. ``layout``: a letter an axis, empty where the format gives axes no meaning.
    ``quantization``: scale and zero point, where integers stand for real numbers.
    """

    name: str
    direction: Direction
    form: ArrayForm
    buffer: int
    count: int | None = None
    layout: str = ""
    labels: tuple[str, ...] = ()
    picture: str = ""
    quantization: tuple[float, int] | None = None

    def row(self, tables: Tables) -> tuple[object, ...]:
        """Its record (``schema.PORT``)."""
        dims = self.form.dims
        first, count = tables.add(
            schema.LABEL, [(tables.string(label), 0) for label in self.labels]
        )
        scale, zero_point = self.quantization or (0.0, 0)
        return (
            tables.string(self.name),
            int(self.direction),
            int(self.form.element),
            len(dims),
            [*dims, *(1,) * (MOST_AXES - len(dims))],
            self.buffer,
            NONE if self.count is None else self.count,
            self.form.open_axis,
            tables.string(self.layout),
            first,
            count,
            tables.string(self.picture),
            int(self.quantization is not None),
            scale,
            zero_point,
        )


def described(
    model: Model,
    name: str,
    direction: Direction,
    form: ArrayForm,
    buffer: int,
    *,
    count: int | None = None,
) -> PortDescription:
    """The description of a port of this form, in the model's words. Raises ExportError."""
    is_input = direction is Direction.INPUT
    pictures = model.images if is_input else model.output_images
    picture = ("RGB" if form.dims[2:] == (3,) else "GRAY") if name in pictures else ""
    layout = "HWC"[: len(form.dims)] if picture else model.axis_letters.get(len(form.dims), "")
    pairs = model.input_quantization if is_input else model.quantization
    pair = pairs.get(name) if np.issubdtype(form.dtype, np.integer) else None
    if pair is not None and not 0 <= np.float32(pair[0]) < np.float32(MOST_TOLERANCE):
        raise ExportError([f"{name!r} has a scale of {pair[0]:g}, which no bundle has: cut it off"])
    if len(name.encode("utf-8", "replace")) >= MOST_PORTS:
        raise ExportError(
            [f"{name[:40]!r}... is a name of {len(name):,} letters, in a bundle it has fewer than "
             f"{MOST_PORTS:,} bytes: rename it"]
        )  # fmt: skip
    labels = () if is_input else tuple(model.class_labels.get(name, ()))
    return PortDescription(name, direction, form, buffer, count, layout, labels, picture, pair)
